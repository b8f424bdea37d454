"""The chat page: what its source may hold, and what it does in a browser, with a server that is scripted here or with a real one.

NVLLM_PAGE_URL=http://host:port drives the page of a running server instead (NVLLM_PAGE_KEY is its key); what needs a
scripted server is then skipped, and says so. Without a Chromium only the source is checked.
"""

import base64
import hashlib
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import devtools
from fake_page_server import PAGE, STATUS, FakePageServer, content_policy
from programs import SOURCE

URL = os.environ.get("NVLLM_PAGE_URL")
KEY = os.environ.get("NVLLM_PAGE_KEY")
CHROMIUM = devtools.find_chromium()
MOST_BYTES = 60_000
STOP_SEEN_S = 0.25

browser = None


def setUpModule():
    global browser
    if CHROMIUM:
        browser = devtools.Browser(CHROMIUM)
    else:
        print("test_page: not run: no Chromium here; only the page's source is checked", file=sys.stderr)


def tearDownModule():
    if browser:
        browser.close()


scripted_only = unittest.skipIf(URL, "needs a scripted server")


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
        cls.bytes = PAGE.read_bytes()
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
        self.assertEqual(set(re.findall(r"\bui\.(\w+)", self.script)) - set(ids), set(), "the script uses what is not there")

    def test_it_names_no_other_place(self):
        addresses = set(re.findall(r"(?:https?:)?//[a-z0-9][\w.-]*\.[a-z]{2,}", re.sub(r"^\s*//.*$", "", self.text, flags=re.M)))
        self.assertEqual(addresses, {"http://www.w3.org"}, "only the name of the SVG namespace, in the icon")
        self.assertEqual(self.text.count("www.w3.org"), 1)
        self.assertNotRegex(self.text, r"url\(|@import|@font-face")
        self.assertEqual(self.tags("img", "iframe", "object", "embed", "base", "video", "audio"), [])
        self.assertTrue(all(link["attributes"]["href"].startswith("data:") for link in self.tags("link")))
        self.assertFalse([element for element in self.document.elements if "src" in element["attributes"] or "action" in element["attributes"]])

    def test_it_obeys_a_strict_policy(self):
        self.assertEqual(len(self.tags("script")), 1)
        self.assertEqual(len(self.tags("style")), 1)
        for element in self.document.elements:
            self.assertFalse([name for name in element["attributes"] if name.startswith("on") or name == "style"], element)
        for forbidden in (r"\beval\b", r"\bFunction\(", r"innerHTML", r"outerHTML", r"insertAdjacentHTML", r"document\.write",
                          r"DOMParser", r"createContextualFragment", r"javascript:", r"srcdoc", r"set(Timeout|Interval)\([\"'`]",
                          r"\bimport\("):
            self.assertNotRegex(self.script, forbidden)

    def test_every_control_has_a_name(self):
        labelled = {id(element) for label in self.tags("label") for element in [label] if element["text"]}
        self.assertTrue(labelled)
        for element in self.tags("button", "a"):
            named = element["text"] or element["attributes"].get("aria-label") or element["attributes"].get("id") in ("send",)
            self.assertTrue(named, element)


class EmbeddingTest(unittest.TestCase):
    """cmake/embed.cmake, on bytes that CMake could take for something of its own."""

    def embedded(self, content):
        with tempfile.TemporaryDirectory() as folder:
            file, output = pathlib.Path(folder, "a file.html"), pathlib.Path(folder, "out.cc")
            file.write_bytes(content)
            subprocess.run(["cmake", f"-DFILE={file}", "-DSYMBOL=it", f"-DOUTPUT={output}", "-P", SOURCE / "cmake" / "embed.cmake"],
                           check=True, capture_output=True)
            return output.read_text()

    def check(self, content, script, style):
        written = self.embedded(content)
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

    def test_the_page_is_embedded_as_it_is(self):
        page = PAGE.read_bytes()
        self.check(page, *(re.search(rf"<{tag}>(.*?)</{tag}>".encode(), page, re.S)[1] for tag in ("script", "style")))


@unittest.skipUnless(CHROMIUM, "not run: no Chromium here")
class BrowserTest(unittest.TestCase):
    """A page of its own for each test, and a server of its own where it is scripted."""

    def setUp(self):
        self.server = None
        if not URL:
            self.server = FakePageServer().__enter__()
            self.addCleanup(self.server.__exit__)
        self.url = URL or self.server.url
        self.expected_faults = "Failed to load resource"  # what the browser says of any status above 399
        self.page = self.new_page()

    def new_page(self, **options):
        page = browser.new_page(**options)
        self.addCleanup(page.close)
        self.addCleanup(self.check_page, page)
        page.open(self.url)
        if KEY:
            page.evaluate(f"sessionStorage.setItem('nvllm.key', {json.dumps(json.dumps(KEY))})")
            page.reload()
        if self.server is None or self.server.models_status == 200 and self.server.key is None:
            page.wait_until("document.querySelector('#model_dot.ready')")
        return page

    # Whatever a test does: nothing is asked of another place, and nothing breaks in the page.
    def check_page(self, page):
        origin = "/".join(self.url.split("/")[:3])
        for address in page.requested():
            self.assertTrue(address.startswith((origin + "/", "data:", "blob:" + origin)), address)
        self.assertEqual([fault for fault in page.faults() if self.expected_faults not in fault], [])

    def ask(self, question, page=None):
        page = page or self.page
        page.press("k", "Control")
        page.type(question)
        page.press("Enter")
        page.wait_until(f"document.querySelector('.user.message:nth-last-child(2) .body')?.innerText === {json.dumps(question)}")

    def wait_for_end(self, page=None):
        (page or self.page).wait_until("document.querySelector('#send').ariaLabel === 'Send' && document.querySelector('.message')")

    def ask_and_wait(self, question, page=None):
        self.ask(question, page)
        self.wait_for_end(page)

    def answer(self, page=None):
        return (page or self.page).text(".assistant:last-child .body")

    def act(self, label, number=-1):
        """Presses the message button of this label; of several, the last."""
        self.page.evaluate(f"Array.from(document.querySelectorAll('.message button')).filter((one) => one.innerText === {json.dumps(label)}).at({number}).click()")

    def set(self, **settings):
        for name, value in settings.items():
            self.page.evaluate(f"""(() => {{ const input = document.querySelector('#settings [name={name}]');
                input.value = {json.dumps(str(value))}; input.oninput(); }})()""")

    def requests(self):
        return [body for path, body, _ in self.server.requests if "chat" in path]


class ChatTest(BrowserTest):
    """What holds with every server."""

    def test_the_page_comes_with_a_strict_policy(self):
        with urllib.request.urlopen(self.url + "/") as response:
            policy = response.headers["Content-Security-Policy"]
            page = response.read()
        self.assertEqual(page, PAGE.read_bytes())
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
        self.assertRegex(self.page.text(".assistant:last-child .foot"), r"\d+ tokens? · [\d.]+ tokens/s · first after \d.* · prompt \d+")

    def test_a_reload_keeps_the_conversation(self):
        self.set(max_tokens=12, system="Be brief.")
        self.ask_and_wait("Who are you?")
        before = self.page.text("#messages"), self.page.text("#chat_list")
        self.page.reload()
        self.assertEqual((self.page.text("#messages"), self.page.text("#chat_list")), before)
        self.assertEqual(self.page.evaluate("document.querySelector('[name=system]').value"), "Be brief.")

    def test_the_keyboard_is_enough(self):
        page = self.page
        self.set(max_tokens=8)
        page.press("k", "Control")
        self.assertEqual(page.focused(), "question")
        page.type("first line")
        page.press("Enter", "Shift")
        page.type("second line")
        self.assertIn("\n", page.evaluate("document.querySelector('#question').value"))
        page.press("Enter")
        page.wait_until("document.querySelector('.user .body')?.innerText === 'first line\\nsecond line'")
        self.wait_for_end()
        self.assertEqual(page.focused(), "question")
        self.check_tab_reaches_everything()
        page.evaluate("document.querySelector('#menu').focus()")
        page.press("?", "Shift")
        self.assertTrue(page.evaluate("document.querySelector('#shortcuts').open"))
        page.press("Escape")
        self.assertFalse(page.evaluate("document.querySelector('#shortcuts').open"))
        page.press("/")
        self.assertEqual((page.focused(), page.evaluate("document.querySelector('#question').value")), ("question", ""))
        page.press("ArrowUp")
        self.assertEqual(page.evaluate("document.querySelector('#question').value"), "first line\nsecond line")
        page.press("Escape")
        self.assertEqual(page.evaluate("document.querySelector('#question').value"), "")
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
        outlines = "Array.from(reached).filter((one) => { one.focus(); return one.id !== 'question' && getComputedStyle(one).outlineStyle === 'none'; }).map((one) => one.id || one.tagName)"
        self.assertEqual(self.page.evaluate(outlines), [], "focus must be seen")

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
        wide = "[document.scrollingElement, document.querySelector('#scroller'), document.querySelector('#status_view')].map((one) => one.scrollWidth - one.clientWidth)"
        outside = """Array.from(document.querySelectorAll('button, textarea, .message, .card')).filter((one) => one.checkVisibility() && !one.closest('.table, pre'))
            .map((one) => one.getBoundingClientRect()).filter((box) => box.right > 360.5 || box.left < -0.5).length"""
        page.evaluate("document.querySelector('#menu').click()")
        self.assertTrue(page.evaluate("document.querySelector('#sidebar').checkVisibility() !== document.querySelector('#veil').hidden"))
        page.press("Escape")
        for view in ("", "#status"):
            page.evaluate(f"location.hash = '{view}'")
            page.wait_until("!document.querySelector('#chat_view').hidden || document.querySelector('#state_facts').innerText")
            self.assertEqual(page.evaluate(wide), [0, 0, 0])
            self.assertEqual(page.evaluate(outside), 0)
        page.evaluate("document.querySelector('#settings').showModal()")
        self.assertEqual(page.evaluate("document.querySelector('#settings').scrollWidth - document.querySelector('#settings').clientWidth"), 0)

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
            if not self.server and self.page.evaluate("ask_server('nvllm/status').then((one) => one.json())")["requests"]["running"] == 0:
                return time.monotonic() - pressed
            time.sleep(0.005)
        self.fail("the server was never told")


@scripted_only
class ScriptedTest(BrowserTest):
    """What needs a server that does what it is told."""

    def test_hostile_text_is_shown_as_it_is(self):
        hostile = ["<script>window.broken = 1</script>", "<img src=x onerror='window.broken = 2'>", "<a href='javascript:alert(1)'>x</a>",
                   "[click](javascript:window.broken=3)", "[data](data:text/html,hi)", "![picture](http://example.org/x.png)",
                   "<svg onload=window.broken=4>", "</textarea></style><style>*{display:none}</style>", "&lt;b&gt; &amp;"]
        self.server.pieces = [text + "\n\n" for text in hostile] + ["```html\n<script>window.broken = 5</script>\n```\n\n", "`<b>code</b>` **<i>bold</i>**"]
        self.ask_and_wait("<img src=x onerror='window.broken = 6'>")
        shown = self.answer()
        for text in hostile[:5] + hostile[6:]:
            self.assertIn(text, shown)
        for text in ("<script>window.broken = 5</script>", "<b>code</b>", "<i>bold</i>"):
            self.assertIn(text, shown)
        self.assertIn("<img src=x", self.page.text("#chat_list"))
        self.page.reload()
        self.assertEqual(self.answer(), shown)
        self.assertIsNone(self.page.evaluate("window.broken"))
        self.assertEqual(self.page.evaluate("document.querySelectorAll('#messages :is(script, img, style, iframe, svg, b, i)').length"), 0)
        links = self.page.evaluate("Array.from(document.querySelectorAll('#messages a'), (one) => [one.href, one.rel, one.target])")
        self.assertEqual(links, [["http://example.org/x.png", "noopener noreferrer", "_blank"]])

    def test_markdown(self):
        self.server.pieces = ["# Title\n\nSome **bold**, *italic*, `code` and [a label](https://example.org/path).\n\n", "1. one\n2. two\n   - inner\n\n",
                              "```py\nx = 1\n    y = *2*\n```\n\n", "| a | b |\n|---|---|\n| 1 | `2` |\n\n> quoted\n\n---\nsnake_case_name 2*3*4 a * b"]
        self.ask_and_wait("Show me")
        parts = {"h3": "Title", "strong": "bold", "em": "italic", "p code": "code", "ol > li:first-child": "one", "ol ul li": "inner",
                 "pre code": "x = 1\n    y = *2*", ".code header span": "py", "th:last-child": "b", "td code": "2", "blockquote": "quoted",
                 "> p:last-child": "snake_case_name 2*3*4 a * b"}
        for selector, text in parts.items():
            found = self.page.evaluate(f"document.querySelector('.assistant .body').querySelector(':scope {selector}')?.innerText")
            # 2*3*4 is emphasis in Markdown; what matters is that names with underscores are left alone.
            self.assertEqual((found or "").replace("234", "2*3*4"), text, selector)
        self.assertIn("a label (example.org)", self.answer())

    def test_text_that_grows_looks_like_text_that_was_there_at_once(self):
        text = "\n".join(["Intro *with* marks", "and a second line", "", "- one", "- two", "", "  still two", "- three", "1. first", "2. second",
                          "   ```c", "   int x;", "", "   int y;", "   ```", "3. third", "after", "", "```", "- not a list", "", "# nor a title", "```", "# Title",
                          "text right below", "> a quote", "> - with a list", "", "| a | b |", "|---|---|", "| 1 | 2 |", "tail", "---", "-", "--", "1", "`open and **open",
                          "", "~~~", "unfinished"])
        different = self.page.evaluate(f"""(() => {{
            const text = {json.dumps(text)};
            const at_once = document.createElement('div');
            new GrowingText(at_once).show(text);
            let seed = 1;
            const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
            for (let round = 0; round < 300; ++round) {{
                const root = document.createElement('div');
                const grown = new GrowingText(root);
                for (let shown = 0; shown < text.length; shown += 1 + random(round < 100 ? 3 : 30)) grown.show(text.slice(0, shown));
                grown.show(text);
                if (!root.isEqualNode(at_once)) return root.innerHTML + '\\n\\n' + at_once.innerHTML;
            }}
            return null;
        }})()""")
        self.assertIsNone(different)

    def test_text_full_of_marks_takes_no_time(self):
        for unit in ("*", "**a ", "[", "[a](", "`", "` ``", "_", "_a ", "> ", "- ", "-", "|", "|-\n", "\\", "http://", "~~a ", "1. ", "<think>", "#", "\n\n"):
            taken = self.page.evaluate(f"""(() => {{ const began = performance.now();
                new GrowingText(document.createElement('div')).show({json.dumps(unit)}.repeat({60_000 // len(unit)})); return performance.now() - began; }})()""")
            self.assertLess(taken, 3000, unit)

    def test_a_key_is_asked_for_and_kept_for_the_tab(self):
        self.server.key = "secret-key"
        page = self.new_page()
        page.wait_until("document.querySelector('#key_dialog').open")
        page.press("Escape")
        self.ask("Hello", page)
        page.wait_until("document.querySelector('#key_dialog').open")
        page.wait_until("document.querySelector('.problem')?.innerText.includes('Enter the key')")
        page.evaluate("document.querySelector('#key').focus()")
        page.type("wrong")
        page.press("Enter")
        page.wait_until("document.querySelector('#key_dialog').open && document.querySelector('#key').value === ''")
        page.type("secret-key")
        page.press("Enter")
        page.wait_until("document.querySelector('.assistant .body')?.innerText === 'Hello there.'")
        self.assertEqual(page.evaluate("[sessionStorage['nvllm.key'], localStorage['nvllm.key'] ?? null]"), ['"secret-key"', None])
        self.assertEqual({headers.get("Authorization") for _, _, headers in self.server.requests}, {"Bearer secret-key"})
        page.reload()
        page.wait_until("document.querySelector('#model_dot.ready')")

    def test_a_key_is_remembered_when_that_is_wanted(self):
        self.server.key = "secret-key"
        page = self.new_page()
        page.wait_until("document.querySelector('#key_dialog').open")
        page.click("#keep_key")
        page.evaluate("document.querySelector('#key').focus()")
        page.type("secret-key")
        page.press("Enter")
        page.wait_until("document.querySelector('#model_dot.ready')")
        self.assertEqual(page.evaluate("[sessionStorage['nvllm.key'] ?? null, localStorage['nvllm.key']]"), [None, '"secret-key"'])

    def problem(self, question="Hello"):
        self.ask_and_wait(question)
        return self.page.text(".assistant:last-child .problem")

    def test_an_error_in_the_stream_is_shown_beside_what_came_before_it(self):
        self.server.pieces = ["Half an ", "answer", {"error": {"message": "the worker was lost", "type": "server_error", "param": None, "code": 500}}]
        shown = self.problem()
        self.assertIn("the worker was lost", shown)
        self.assertIn("server's log", shown)
        self.assertEqual(self.answer(), "Half an answer")
        self.server.pieces = ["All of it"]
        self.act("Try again")
        self.page.wait_until("document.querySelector('.assistant .body').innerText === 'All of it'")
        self.assertEqual(self.page.text(".problem"), "")

    def test_an_answer_that_breaks_off_is_not_taken_for_whole(self):
        self.server.pieces, self.server.breaks_off, self.server.gap_s = ["Half"], True, 0.1
        self.assertRegex(self.problem(), "ended before|cannot be reached")
        self.assertEqual(self.answer(), "Half")

    def test_refusals_say_what_to_do(self):
        for refusal, advice in (((400, "The context length is 4096 tokens.", "context_length_exceeded"), "Start a new chat"),
                                ((429, "Too many requests.", "rate_limit"), "Wait a moment"), ((503, "Loading.", "loading"), "in a moment"),
                                ((404, "No such model.", "model_not_found"), "another model"), ((500, "Out of order.", None), "log")):
            self.server.refusal = refusal
            shown = self.problem()
            self.assertIn(refusal[1], shown)
            self.assertIn(advice, shown)

    def test_a_server_that_is_gone_and_comes_back(self):
        self.expected_faults = "Failed to load resource"
        self.server.models_status = 503
        page = self.new_page()
        page.wait_until("document.querySelector('#model_name').innerText === 'Loading'")
        self.server.models_status = 200
        page.wait_until("document.querySelector('#model_dot.ready')")
        page.call("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=-1, uploadThroughput=-1)
        self.ask_and_wait("Hello", page)
        self.assertIn("cannot be reached", page.text(".problem"))
        page.wait_until("document.querySelector('#model_dot.unreachable')")
        page.call("Network.emulateNetworkConditions", offline=False, latency=0, downloadThroughput=-1, uploadThroughput=-1)
        page.wait_until("document.querySelector('#model_dot.ready')")

    def test_reading_the_prompt_is_shown(self):
        self.server.prompt_tokens, self.server.gap_s = 2048, 0.15
        self.page.prefer(reduced_motion="reduce")
        self.ask("A long one")
        self.page.wait_until("/Reading the prompt: 1,024 of 2,048 tokens, 64 cached/.test(document.querySelector('.assistant .note')?.innerText)")
        self.assertEqual(self.page.evaluate("document.querySelector('progress').value"), 1024)
        self.assertEqual(self.page.evaluate("document.getAnimations().length"), 0)

    def test_thoughts_are_folded_away(self):
        self.server.pieces = ["<think>", "secret *plans*", "</think>", "The answer."]
        self.ask_and_wait("Think")
        self.server.pieces = [{"choices": [{"index": 0, "delta": {"reasoning_content": "more plans"}}]}, "Second."]
        self.ask_and_wait("Again")
        self.assertEqual(self.answer(), "Second.")
        self.assertEqual(self.page.evaluate("Array.from(document.querySelectorAll('details'), (one) => [one.open, one.textContent])"),
                         [[False, "Thoughtssecret *plans*"], [False, "Thoughtsmore plans"]])
        self.assertEqual(self.requests()[-1]["messages"][1], {"role": "assistant", "content": "The answer."})

    def test_settings_are_sent_as_they_are_and_only_those(self):
        self.ask_and_wait("One")
        self.assertEqual(self.requests()[-1], {"model": "fake/model", "messages": [{"role": "user", "content": "One"}], "stream": True,
                                               "stream_options": {"include_usage": True}, "return_progress": True})
        self.set(system="Be kind.", temperature="0.35", top_p="0.9", top_k="40", min_p="0.005", max_tokens="7", seed="3", repetition_penalty="1.1",
                 stop="END\n\\n\\n")
        self.page.reload()
        self.page.wait_until("document.querySelector('#model_dot.ready')")
        self.ask_and_wait("Two")
        body = self.requests()[-1]
        self.assertEqual({name: body[name] for name in ("temperature", "top_p", "top_k", "min_p", "max_tokens", "seed", "repetition_penalty", "stop")},
                         {"temperature": 0.35, "top_p": 0.9, "top_k": 40, "min_p": 0.005, "max_tokens": 7, "seed": 3, "repetition_penalty": 1.1,
                          "stop": ["END", "\n\n"]})
        self.assertEqual(body["messages"][0], {"role": "system", "content": "Be kind."})
        self.set(temperature="9", seed="")
        self.ask_and_wait("Three")
        self.assertEqual(self.requests()[-1]["temperature"], 0.35)
        self.assertNotIn("seed", self.requests()[-1])

    def test_regenerate_edit_delete_and_undo(self):
        self.ask_and_wait("First")
        self.ask_and_wait("Second")
        self.server.pieces = ["Another"]
        self.act("Regenerate")
        self.page.wait_until("document.querySelector('.assistant:last-child .body').innerText === 'Another'")
        self.assertEqual([one["content"] for one in self.requests()[-1]["messages"]], ["First", "Hello there.", "Second"])
        self.act("Edit")
        self.page.type(" and a half")
        self.page.press("Enter")
        self.page.wait_until("document.querySelectorAll('.user')[1].innerText.includes('Second and a half')")
        self.wait_for_end()
        self.assertEqual([one["content"] for one in self.requests()[-1]["messages"]], ["First", "Hello there.", "Second and a half"])
        before = self.page.text("#messages")
        self.act("Delete", 0)
        self.assertEqual(self.page.evaluate("document.querySelectorAll('.message').length"), 2)
        self.page.click("#undo")
        self.assertEqual(self.page.text("#messages"), before)
        self.page.click("#chat_list .remove")
        self.assertEqual(self.page.text("#messages") + self.page.text("#chat_list"), "")
        self.page.click("#undo")
        self.assertEqual(self.page.text("#messages"), before)
        self.page.reload()
        self.assertEqual(self.page.text("#messages"), before)

    def test_copy_copies_what_the_model_wrote(self):
        self.server.pieces = ["**bold**\n\n```\ncode\n```"]
        self.ask_and_wait("Write")
        for blocked in (False, True):
            self.page.evaluate(f"""void (window.copied = null, Object.defineProperty(navigator, 'clipboard', {{ configurable: true, value:
                {'undefined' if blocked else '{ writeText: async (text) => { window.copied = text; } }'} }}),
                document.execCommand = () => {{ window.copied = document.activeElement.value; return true; }})""")
            self.act("Copy", -2)
            self.assertEqual(self.page.wait_until("window.copied"), "code")
            self.page.evaluate("window.copied = null")
            self.page.wait_until("Array.from(document.querySelectorAll('.message button')).filter((one) => one.innerText === 'Copy').length === 3")
            self.act("Copy")
            self.assertEqual(self.page.wait_until("window.copied"), "**bold**\n\n```\ncode\n```")
            self.page.wait_until("Array.from(document.querySelectorAll('.message button')).filter((one) => one.innerText === 'Copy').length === 3")

    def test_conversations_go_on_while_others_are_read(self):
        self.server.pieces, self.server.gap_s = [f"{i} " for i in range(60)], 0.02
        self.ask("Count")
        self.page.press("n", "Alt")
        self.assertEqual(self.page.text(".message"), "")
        self.ask_and_wait("Count too")
        self.page.evaluate("Array.from(document.querySelectorAll('#chat_list .open')).find((one) => one.innerText === 'Count').click()")
        self.wait_for_end()
        self.assertEqual(self.answer().split(), [str(i) for i in range(60)])
        self.assertEqual(self.page.text("#chat_list .open").split("\n"), ["Count too", "Count"])

    def test_a_reload_in_the_middle_keeps_what_was_there(self):
        self.server.pieces, self.server.gap_s = [f"{i} " for i in range(500)], 0.02
        self.ask("Count")
        self.page.wait_until("document.querySelector('.assistant .body').innerText.includes('9 ')")
        self.page.reload()
        self.assertTrue(self.answer().startswith("0 1 2 3 4 5 6 7 8 9"))
        self.assertIn("Interrupted", self.page.text(".assistant"))
        self.server.pieces = ["Done"]
        self.act("Regenerate")
        self.page.wait_until("document.querySelector('.assistant .body').innerText === 'Done'")

    def test_the_reader_decides_whether_the_page_follows(self):
        self.server.pieces, self.server.gap_s = ["A line of text.\n\n"] * 200, 0.01
        self.ask("Write")
        at_end = "(() => { const one = document.querySelector('#scroller'); return one.scrollHeight - one.scrollTop - one.clientHeight < 40; })()"
        self.page.wait_until("document.querySelectorAll('.assistant p').length > 40")
        self.assertTrue(self.page.evaluate(at_end))
        self.page.evaluate("document.querySelector('#scroller').scrollTop = 0")
        self.page.wait_until("!document.querySelector('#jump').hidden")
        so_far = self.page.evaluate("document.querySelectorAll('.assistant p').length")
        self.page.wait_until(f"document.querySelectorAll('.assistant p').length > {so_far} + 20")
        self.assertEqual(self.page.evaluate("document.querySelector('#scroller').scrollTop"), 0)
        self.page.click("#jump")
        self.assertTrue(self.page.evaluate(at_end))
        self.wait_for_end()
        self.assertTrue(self.page.evaluate(at_end))

    def test_export_and_import(self):
        self.ask_and_wait("Keep this")
        with tempfile.TemporaryDirectory() as folder:
            browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder, browserContextId=self.page.context_)
            self.page.click("#export_chats")
            file = pathlib.Path(folder, "nanovllm-chats.json")
            end = time.monotonic() + devtools.PATIENCE_S
            while not file.exists() and time.monotonic() < end:
                time.sleep(0.02)
            exported = json.loads(file.read_text())
            self.assertEqual([message["content"] for message in exported["chats"][0]["messages"]], ["Keep this", "Hello there."])
            other = self.new_page()
            other.choose_file("#import_file", file)
            other.wait_until("document.querySelector('#chat_list .open')?.innerText === 'Keep this'")
            other.click("#chat_list .open")
            self.assertEqual(self.answer(other), "Hello there.")
            other.choose_file("#import_file", file)
            other.wait_until("document.querySelectorAll('#chat_list .open').length === 2")
            bad = pathlib.Path(folder, "bad.json")
            for content in ("{", "[]", '{"chats": [{"id": "x", "messages": [{"role": "system", "content": "y"}]}, 7, null]}'):
                bad.write_text(content)
                other.evaluate("document.querySelector('#toast').hidden = true")
                other.choose_file("#import_file", bad)
                other.wait_until("document.querySelector('#toast').innerText.includes('No conversations')")
            self.assertEqual(other.evaluate("document.querySelectorAll('#chat_list .open').length"), 2)

    def test_damaged_storage_is_not_believed(self):
        self.page.evaluate("""void (localStorage['nvllm.chat.a'] = '{', localStorage['nvllm.chat.b'] = '{"id": "b", "messages": [{}]}',
            localStorage['nvllm.chat.c'] = 'null', localStorage['nvllm.settings'] = '"x"')""")
        self.page.reload()
        self.ask_and_wait("Hello")
        self.assertEqual(self.answer(), "Hello there.")

    def test_storage_that_is_full_gives_up_the_oldest_conversation(self):
        self.page.evaluate("""(() => { for (let number = 0; number < 5; ++number) localStorage[`nvllm.chat.old${number}`] = JSON.stringify({ id: `old${number}`,
            title: `Old ${number}`, updated: 1000 + number, messages: [{ role: 'user', content: 'x'.repeat(1_000_000) }] }); })()""")
        self.page.reload()
        self.assertEqual(self.page.text("#chat_list .open").split("\n")[-1], "Old 0")
        self.server.pieces = ["y" * 400_000]
        self.ask_and_wait("New")
        self.assertEqual(self.page.text("#chat_list .open").split("\n"), ["New", "Old 4", "Old 3", "Old 2", "Old 1"])
        self.assertIn("“Old 0” was removed", self.page.text("#toast"))
        self.page.reload()
        self.assertEqual(len(self.answer()), 400_000)

    def test_status_without_a_model_and_with_a_fault(self):
        self.server.status = {"model": None, "state": "loading", "version": "0.1.0", "uptime_s": 1.5}
        self.page.evaluate("location.hash = '#status'")
        self.page.wait_until("document.querySelector('#state_word').innerText === 'Loading'")
        self.assertIn("none yet", self.page.text("#state_facts"))
        self.server.status = dict(STATUS, state="recovering", worker={"restarts": 2}, health={"heartbeat_age_s": 4.2, "last_fault": "out of memory"})
        self.page.wait_until("document.querySelector('#state_word').innerText === 'Recovering'")
        self.assertRegex(self.page.text("#state_facts"), r"Worker restarts\s+2\s+Last fault\s+out of memory")
        self.assertRegex(self.page.text("#request_bars"), r"Running\s+3\s+Waiting\s+2\s+Paused\s+1")
        self.assertIn("needs 244 blocks, 155 are free", self.page.text("#queue"))
        self.assertIn("4,096", self.page.text("#limit_facts"))
        self.assertEqual(self.page.evaluate("document.querySelectorAll('#block_map .used').length"), 126)


if __name__ == "__main__":
    unittest.main()
