"""The chat page: what its source may hold, how it is embedded, and what it does in a browser, with whatever server."""

import base64
import hashlib
import html.parser
import pathlib
import re
import subprocess
import tempfile
import time
import unittest
import urllib.request

from fake_page_server import PAGE, content_policy, page_bytes
from page_testing import BrowserTest, say_if_not_run
from programs import SOURCE

MOST_BYTES = 150_000
STOP_SEEN_S = 0.25
RUNNING = "ask_server('nvllm/status').then((response) => response.json()).then((status) => status.requests.running)"

setUpModule = say_if_not_run


class Document(html.parser.HTMLParser):
    """Every element with its attributes and the text directly inside buttons, and whether tags close what is open."""

    VOID = {"meta", "link", "input", "path", "rect", "circle"}
    MAY_STAY_OPEN = {"dt", "dd", "tr", "th"}

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.mismatched = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        element = {"tag": tag, "attributes": dict(attributes), "text": ""}
        self.elements.append(element)
        if tag not in self.VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.elements.append({"tag": tag, "attributes": dict(attributes), "text": ""})

    def handle_data(self, data):
        for element in self.open:
            if element["tag"] in ("button", "a", "label"):
                element["text"] += data.strip()

    def handle_endtag(self, tag):
        while self.open and self.open[-1]["tag"] != tag and self.open[-1]["tag"] in self.MAY_STAY_OPEN:
            self.open.pop()
        if not self.open or self.open.pop()["tag"] != tag:
            self.mismatched.append((tag, self.getpos()))


class SourceTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.bytes = page_bytes()
        cls.text = cls.bytes.decode("utf-8")
        cls.script = re.search(r"<script>(.*?)</script>", cls.text, re.S)[1]
        cls.document = Document(cls.text)

    def tags(self, *names):
        return [element for element in self.document.elements if element["tag"] in names]

    def test_it_is_small(self):
        self.assertLess(len(self.bytes), MOST_BYTES)
        self.assertNotIn(b"\r", self.bytes, "digests are taken of lines that end in a line feed")

    def test_it_parses_and_ids_are_unique(self):
        self.assertEqual(self.document.mismatched, [])
        self.assertEqual([element["tag"] for element in self.document.open], [])
        ids = [element["attributes"]["id"] for element in self.document.elements if "id" in element["attributes"]]
        self.assertEqual(sorted(ids), sorted(set(ids)))
        self.assertEqual(set(re.findall(r"\bui\.(\w+)", self.script)) - set(ids), set(), "what the script uses is there")

    def test_it_names_no_other_place(self):
        without_comments = re.sub(r"^\s*//.*$", "", self.text, flags=re.M)
        addresses = set(re.findall(r"(?:https?:)?//[a-z0-9][\w.-]*\.[a-z]{2,}", without_comments))
        self.assertEqual(addresses, {"http://www.w3.org"}, "only the names of namespaces: of SVG, in the icon, and of MathML")
        self.assertEqual(self.text.count("www.w3.org"), 2)
        self.assertNotRegex(self.text, r"url\(|@import|@font-face")
        self.assertEqual(self.tags("img", "iframe", "object", "embed", "base", "video", "audio"), [])
        self.assertTrue(all(link["attributes"]["href"].startswith("data:") for link in self.tags("link")))
        for element in self.document.elements:
            self.assertFalse({"src", "srcset", "action", "formaction", "background"} & set(element["attributes"]), element)

    def test_it_obeys_a_strict_policy(self):
        self.assertEqual(len(self.tags("script")), 1)
        self.assertEqual(len(self.tags("style")), 1)
        for element in self.document.elements:
            self.assertFalse([name for name in element["attributes"] if name.startswith("on") or name == "style"], element)
        for forbidden in (r"\beval\b", r"\bFunction\(", r"innerHTML", r"outerHTML", r"insertAdjacentHTML", r"document\.write",
                          r"DOMParser", r"createContextualFragment", r"javascript:", r"srcdoc", r"\bimport\(",
                          r"set(Timeout|Interval)\([\"'`]"):
            self.assertIsNone(re.search(forbidden, self.script), forbidden)

    def test_every_control_has_a_name(self):
        labelled = {id(element) for label in self.tags("label") for element in [label] if element["text"]}
        self.assertTrue(labelled)
        for element in self.tags("button", "a"):
            named = element["text"] or element["attributes"].get("aria-label") or element["attributes"].get("id") in ("send",)
            self.assertTrue(named, element)


class EmbeddingTest(unittest.TestCase):
    """cmake/embed.cmake, on bytes that CMake could take for something of its own."""

    def embedded(self, content, parts={}):
        with tempfile.TemporaryDirectory() as folder:
            file, output = pathlib.Path(folder, "a file.html"), pathlib.Path(folder, "out.cc")
            for name, bytes_of_it in {file.name: content, **parts}.items():
                pathlib.Path(folder, name).write_bytes(bytes_of_it)
            script = SOURCE / "cmake" / "embed.cmake"
            subprocess.run(["cmake", f"-DFILE={file}", "-DSYMBOL=it", f"-DOUTPUT={output}", "-P", script], check=True,
                           capture_output=True)
            return output.read_text()

    def check(self, content, script, style, source=None, parts={}):
        written = self.embedded(source or content, parts)
        array = re.search(r"bytes\[\] = \{(.*?)'\\0'\};", written, re.S)[1]
        self.assertEqual(bytes.fromhex(array.replace("'\\x", "").replace("',", "")), content)
        self.assertIn(f"it(bytes, {len(content)});", written)
        for name, text in (("script", script), ("style", style)):
            digest = "" if text is None else base64.b64encode(hashlib.sha256(text).digest()).decode()
            self.assertIn(f'it_{name}_sha256 = "{digest}";', written)

    def test_bytes_and_digests_are_those_of_the_file(self):
        nasty = 'a;b;;c \\n \\" ${HOME} @x@ [[ ]] \u00e9 \U0001f388\n\t#(x) "q" \\;'
        style, script = nasty.encode(), f"\n{nasty[::-1]}\n".encode()
        self.check(b"<style>" + style + b"</style>\n<script>" + script + b"</script>", script, style)
        self.check(bytes(range(1, 128)), None, None)
        for length in range(1, 9):
            self.check(b"<script>" + b"x" * length + b"</script>", b"x" * length, None)

    def test_parts_are_joined(self):
        nasty = 'a;b;;c \\n \\" ${HOME} @x@ [[ ]] \u00e9 \U0001f388\n@include no\n\t#(x) "q" \\;\n'.encode()
        self.check(b"<style>\n" + nasty + b"</style>\n<script>\n;]\n" + nasty + b"</script>\n", b"\n;]\n" + nasty, b"\n" + nasty,
                   b"<style>\n@include a.css\n</style>\n<script>\n@include b_c.js\n@include a.css\n</script>\n",
                   {"a.css": nasty, "b_c.js": b";]\n"})

    def test_the_page_is_embedded_with_all_its_parts(self):
        page = page_bytes()
        parts = {file.name: file.read_bytes() for file in PAGE.parent.iterdir() if file.suffix in (".css", ".js")}
        self.assertGreater(len(parts), 5)
        for name, part in parts.items():
            self.assertEqual(page.count(part), 1, name)
            self.assertRegex((SOURCE / "CMakeLists.txt").read_text(), rf"chat_page_html[^)]*\b{re.escape(name)}\b")
        digested = (re.search(rf"<{tag}>(.*?)</{tag}>".encode(), page, re.S)[1] for tag in ("script", "style"))
        self.check(page, *digested, PAGE.read_bytes(), parts)


class ChatTest(BrowserTest):
    """What holds with every server."""

    def test_the_page_comes_with_a_strict_policy(self):
        with urllib.request.urlopen(self.url + "/") as response:
            policy = response.headers["Content-Security-Policy"]
            page = response.read()
        self.assertEqual(page, page_bytes())
        self.assertEqual(policy, content_policy(page))

    def test_an_answer_streams_and_is_measured(self):
        if self.server:
            self.server.pieces, self.server.gap_s = [f"word{i} " for i in range(40)], 0.02
        self.set(max_tokens=40)
        self.ask("Tell me a story about a dog.")
        self.page.wait_until("document.querySelector('.assistant:last-child .body').innerText !== ''")
        early = self.answer()
        self.wait_for_end()
        self.assertTrue(self.answer().startswith(early[:5]))
        if self.server:
            self.assertLess(len(early), len(self.answer()))
        rate = r" · [\d.]+ tokens/s" if self.server else r"( · [\d.]+ tokens/s)?"  # a quick server's is not told
        self.assertRegex(self.page.text(".assistant:last-child .foot"), rf"\d+ tokens?{rate} · first after \d.* · prompt \d+")

    def test_a_reload_keeps_the_conversation(self):
        self.set(max_tokens=12, system="Be brief.")
        self.ask_and_wait("Who are you?")
        before = self.page.text("#messages"), self.page.text("#chat_list")
        self.page.reload()
        self.assertEqual((self.page.text("#messages"), self.page.text("#chat_list")), before)
        self.assertEqual(self.page.value("[name=system]"), "Be brief.")

    def test_the_keyboard_is_enough(self):
        page = self.page
        self.set(max_tokens=8)
        page.press("k", "Control")
        self.assertEqual(page.focused(), "question")
        page.type("first line")
        page.press("Enter", "Shift")
        page.type("second line")
        self.assertIn("\n", page.value("#question"))
        page.press("Enter")
        page.wait_until("document.querySelector('.user .body')?.innerText === 'first line\\nsecond line'")
        self.wait_for_end()
        self.assertEqual(page.focused(), "question")
        self.check_tab_reaches_everything()
        page.evaluate("document.querySelector('#menu').focus()")
        page.press("?", "Shift")
        self.assertEqual(page.all("#shortcuts", "one.open"), [True])
        page.press("Escape")
        self.assertEqual(page.all("#shortcuts", "one.open"), [False])
        page.press("/")
        self.assertEqual((page.focused(), page.value("#question")), ("question", ""))
        page.press("ArrowUp")
        self.assertEqual(page.value("#question"), "first line\nsecond line")
        page.press("Escape")
        self.assertEqual(page.value("#question"), "")
        self.act("Regenerate", how="focus")
        page.press("Enter")
        self.wait_for_end()
        self.assertEqual(page.focused(), "question", "the focus must not be lost with the button that had it")
        page.press("n", "Alt")
        self.assertEqual((page.text(".message"), page.focused()), ("", "question"))

    def check_tab_reaches_everything(self):
        self.page.evaluate("""void (window.reached = new Set(), document.activeElement.blur(),
            document.addEventListener('focusin', (event) => reached.add(event.target)))""")
        missed = """Array.from(document.querySelectorAll('button, a, input, select, textarea'))
            .filter((one) => one.checkVisibility() && !reached.has(one)).map((one) => one.id || one.innerText)"""
        for _ in range(80):
            self.page.press("Tab")
            if not self.page.evaluate(missed):
                break
        self.assertEqual(self.page.evaluate(missed), [])
        # The composer shows the focus of the question as its own border.
        unseen = """Array.from(reached).filter((one) => { one.focus();
            return one.id !== 'question' && getComputedStyle(one).outlineStyle === 'none'; }).map((one) => one.id || one.tagName)"""
        self.assertEqual(self.page.evaluate(unseen), [])

    def test_every_control_has_a_name_for_screen_readers(self):
        self.set(max_tokens=8)
        self.ask_and_wait("Hello")
        self.assertEqual(self.page.names_missing(), [])
        for dialog in ("settings", "key_dialog", "shortcuts"):
            self.page.evaluate(f"document.querySelector('#{dialog}').showModal()")
            self.assertEqual(self.page.names_missing(), [], dialog)
            self.page.press("Escape")
        self.page.evaluate("location.hash = '#status'")
        self.page.wait_until("document.querySelector('#state_facts').innerText")
        self.assertEqual(self.page.names_missing(), [])

    def test_a_phone_needs_no_sideways_scrolling(self):
        if self.server:
            self.server.pieces = ["Averyveryverylongwordwithoutanyspace" * 5, "\n\n```\n" + "code " * 60 + "\n```\n",
                                  "\n|" + "column|" * 12 + "\n|" + "---|" * 12 + "\n|" + "cell|" * 12 + "\n"]
        self.set(max_tokens=20)
        page = self.page
        page.resize(360, 640)
        self.ask_and_wait("Questionwithoutanyspaces" * 8)
        hidden_width = "one.scrollWidth - one.clientWidth"
        outside = """Array.from(document.querySelectorAll('button, textarea, .message, .card'))
            .filter((one) => one.checkVisibility() && !one.closest('.table, pre'))
            .map((one) => one.getBoundingClientRect()).filter((box) => box.right > 360.5 || box.left < -0.5).length"""
        page.evaluate("document.querySelector('#menu').click()")
        self.assertEqual(page.all("#sidebar, #veil", "one.checkVisibility()"), [True, True])
        page.press("Escape")
        for view in ("", "#status"):
            page.evaluate(f"location.hash = '{view}'")
            page.wait_until("!document.querySelector('#chat_view').hidden || document.querySelector('#state_facts').innerText")
            self.assertEqual(page.all("html, #scroller, #status_view", hidden_width), [0, 0, 0])
            self.assertEqual(page.evaluate(outside), 0)
        page.evaluate("document.querySelector('#settings').showModal()")
        self.assertEqual(page.all("#settings", hidden_width), [0])

    def test_light_dark_and_the_switch(self):
        dark = "getComputedStyle(document.body).backgroundColor"
        self.page.prefer(color_scheme="light")
        light = self.page.evaluate(dark)
        self.page.prefer(color_scheme="dark")
        self.assertNotEqual(self.page.evaluate(dark), light)
        self.page.click("#switch_theme")
        self.assertEqual(self.page.evaluate(dark), light)
        self.page.reload()
        self.assertEqual(self.page.evaluate(dark), light)
        self.page.click("#switch_theme")
        self.assertNotEqual(self.page.evaluate(dark), light)

    def test_the_status_view_shows_the_server_and_asks_only_while_it_is_open(self):
        page = self.page
        status_requests = lambda: sum(address.endswith("/nvllm/status") for address in page.requested())
        self.assertEqual(status_requests(), 0)
        page.click("#status_tab")
        page.wait_until("document.querySelector('#state_word').innerText === 'Ready'")
        page.wait_until("document.querySelectorAll('#block_map i').length > 0")
        page.wait_until("document.querySelector('#spark_line').getAttribute('d')")
        self.assertRegex(page.text("#cache_facts"), r"Block size\s+\d+ token")
        self.assertGreaterEqual(status_requests(), 2)
        page.click("#chat_tab")
        page.wait_until("document.querySelector('#status_view').hidden")
        asked = status_requests()
        time.sleep(1.6)
        page.evaluate("1")
        self.assertEqual(status_requests(), asked)

    def test_stopping_frees_the_request(self):
        if self.server:
            self.server.pieces, self.server.gap_s = ["more "] * 1000, 0.02
        delays = []
        for how in ("Escape", "button", "Escape"):
            self.ask("Tell me a very long story.")
            self.page.wait_until("document.querySelector('.assistant:last-child .body').innerText !== ''")
            if self.page.evaluate("document.querySelector('#send').ariaLabel") == "Send":
                self.skipTest("the model ended by itself before it could be stopped")
            pressed = time.monotonic()
            self.page.click("#send") if how == "button" else self.page.press("Escape")
            self.wait_for_end()
            self.assertIn("Stopped.", self.page.text(".assistant:last-child"))
            self.assertNotEqual(self.answer(), "")
            delays.append(self.seen_to_leave(pressed))
        self.assertLess(min(delays), STOP_SEEN_S, "the quickest of three, since this machine may be busy")

    # Seconds until the server knew that nobody listens any more.
    def seen_to_leave(self, pressed):
        while time.monotonic() < pressed + 10:
            if self.server and self.server.left_at:
                return self.server.left_at.pop() - pressed
            if not self.server and self.page.evaluate(RUNNING) == 0:
                return time.monotonic() - pressed
            time.sleep(0.005)
        self.fail("the server was never told")


if __name__ == "__main__":
    unittest.main()
