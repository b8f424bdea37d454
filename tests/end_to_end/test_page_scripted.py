"""The chat page with a server that does what it is told: odd text, trouble of every kind, many conversations."""

import json
import pathlib
import re
import tempfile
import time
import unittest

import devtools
from fake_page_server import STATUS
from page_testing import BrowserTest, browser, say_if_not_run, scripted_only

setUpModule = say_if_not_run

HOSTILE = ["<script>window.broken = 1</script>", "<img src=x onerror='window.broken = 2'>", "<a href='javascript:alert(1)'>x</a>",
           "[click](javascript:window.broken=3)", "[data](data:text/html,hi)", "<svg onload=window.broken=4>",
           "</textarea></style><style>*{display:none}</style>", "&lt;b&gt; &amp;"]

# Blocks inside blocks, marks without partners, and ends of lines where one block could still become another.
INTRICATE = """Intro *with* marks
and a second line

- one
- two

  still two
- three
1. first
2. second
   ```c
   int x;

   int y;
   ```
3. third
after

```
- not a list

# nor a title
```
# Title
text right below
> a quote
> - with a list

| a | b |
|---|---|
| 1 | 2 |
tail

a rule so far
***bold*** instead
a rule so far
---x

a table so far
a | b
|--x|
no table

- [ ] to do
- [x] done
- [y] neither

before
$$
a_1 + b_2
- c
$$
between $x_1$ and $$y$$ and \\(z\\)
\\[ no end
- of it

\\begin{align}
x &= 1 \\\\
&= 2
\\end{align}

```python
def f(x):
    '''a "long"
    string''' + "short"
    return 0x1F, f"{x}"  # end
```

```json
{"key": "value", "list": [1, true,
  "x" : "y"]}
```

---
-
--
1
`open and **open

~~~
unfinished"""

# True when text shown in pieces of every size is the same document as text shown at once.
GROWS_ALIKE = """((text) => {
    const at_once = document.createElement('div');
    new GrowingText(at_once).show(text);
    let seed = 1;
    const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
    for (let round = 0; round < 300; ++round) {
        const root = document.createElement('div');
        const grown = new GrowingText(root);
        for (let shown = 0; shown < text.length; shown += 1 + random(round < 100 ? 3 : 30)) grown.show(text.slice(0, shown));
        grown.show(text);
        if (!root.isEqualNode(at_once)) return root.innerHTML + ' instead of ' + at_once.innerHTML;
    }
    return 'alike';
})"""

COUNT_OF_COPY = "Array.from(document.querySelectorAll('.message button')).filter((one) => one.innerText === 'Copy').length"


@scripted_only
class TextTest(BrowserTest):
    def test_hostile_text_is_shown_as_it_is(self):
        in_code = ["<script>window.broken = 5</script>", "<b>code</b>", "<i>bold</i>"]
        self.server.pieces = [text + "\n\n" for text in [*HOSTILE, "![picture](http://example.org/x.png)"]]
        self.server.pieces += [f"```html\n{in_code[0]}\n```\n\n", f"`{in_code[1]}` **{in_code[2]}**"]
        self.ask_and_wait("<img src=x onerror='window.broken = 6'>")
        shown = self.answer()
        for text in HOSTILE + in_code:
            self.assertIn(text, shown)
        self.assertIn("<img src=x", self.page.text("#chat_list"))
        self.page.reload()
        self.assertEqual(self.answer(), shown)
        self.assertIsNone(self.page.evaluate("window.broken"))
        self.assertEqual(self.page.count("#messages :is(script, img, style, iframe, svg, b, i)"), 0)
        self.assertEqual(self.page.all("#messages a", "[one.href, one.rel, one.target]"),
                         [["http://example.org/x.png", "noopener noreferrer", "_blank"]])

    def test_markdown(self):
        self.server.pieces = [
            "# Title\n\nSome **bold**, *italic*, `code` and [a label](https://example.org/path).\n\n",
            "1. one\n2. two\n   - inner\n\n", "```py\nx = 1\n    y = *2*\n```\n\n",
            "| a | b |\n|---|---|\n| 1 | `2` |\n\n> quoted\n\n---\nsnake_case_name a * b * c ~"]
        self.ask_and_wait("Show me")
        for selector, text in {"h3": "Title", "strong": "bold", "em": "italic", "p code": "code", "ol > li:first-child": "one",
                               "ol ul li": "inner", "pre code": "x = 1\n    y = *2*", ".code header span": "py",
                               "th:last-child": "b", "td code": "2", "blockquote": "quoted",
                               "hr + p": "snake_case_name a * b * c ~"}.items():
            self.assertEqual(self.page.text(f".assistant .body {selector}"), text, selector)
        self.assertIn("a label (example.org)", self.answer())

    def test_text_that_grows_looks_like_text_that_was_there_at_once(self):
        self.assertEqual(self.page.evaluate(f"{GROWS_ALIKE}({json.dumps(INTRICATE)})"), "alike")

    def test_text_full_of_marks_ends(self):
        for unit in ("*", "**a ", "[", "[a](", "`", "` ``", "_", "_a ", "> ", "- ", "-", "|", "|-\n", "\\", "http://", "~~a ",
                     "1. ", "<think>", "#", "\n\n"):
            text = unit * (60_000 // len(unit))
            shown = "document.createElement('div')"
            self.page.evaluate(f"new GrowingText({shown}).show({json.dumps(text)})")

    def test_thoughts_are_folded_away(self):
        self.server.pieces = ["<think>", "secret *plans*", "</think>", "The answer."]
        self.ask_and_wait("Think")
        self.server.pieces = [{"choices": [{"index": 0, "delta": {"reasoning_content": "more plans"}}]}, "Second."]
        self.ask_and_wait("Again")
        self.assertEqual(self.answer(), "Second.")
        # Thoughts that took long have their time in the title.
        folds = [[is_open, re.sub(r"^Thought for \d+ ms", "Thoughts", text)] for is_open, text in self.page.all("details", "[one.open, one.textContent]")]
        self.assertEqual(folds, [[False, "Thoughtssecret plans"], [False, "Thoughtsmore plans"]])
        self.assertEqual(self.requests()[-1]["messages"][1], {"role": "assistant", "content": "The answer."})

    def test_copy_copies_what_the_model_wrote(self):
        self.server.pieces = ["**bold**\n\n```\ncode\n```"]
        self.ask_and_wait("Write")
        self.page.evaluate("""void (document.execCommand = () => { window.copied = document.activeElement.value; return true; })""")
        for clipboard in ("{ writeText: async (text) => { window.copied = text; } }", "undefined"):
            self.page.evaluate(f"void Object.defineProperty(navigator, 'clipboard', {{ configurable: true, value: {clipboard} }})")
            for number, text in ((-2, "code"), (-1, "**bold**\n\n```\ncode\n```")):
                self.page.evaluate("window.copied = null")
                self.page.wait_until(f"{COUNT_OF_COPY} === 3")
                self.act("Copy", number)
                self.assertEqual(self.page.wait_until("window.copied"), text)


@scripted_only
class TroubleTest(BrowserTest):
    def type_key(self, page, key):
        page.evaluate("document.querySelector('#key').focus()")
        page.type(key)
        page.press("Enter")

    def test_a_key_is_asked_for_and_kept_for_the_tab(self):
        self.server.key = "secret-key"
        page = self.new_page()
        page.wait_until("document.querySelector('#key_dialog').open")
        page.press("Escape")
        self.ask("Hello", page)
        page.wait_until("document.querySelector('#key_dialog').open")
        page.wait_until("document.querySelector('.problem')?.innerText.includes('Enter the key')")
        self.type_key(page, "wrong")
        page.wait_until("document.querySelector('#key_dialog').open && document.querySelector('#key').value === ''")
        self.type_key(page, "secret-key")
        self.wait_for_answer("Hello there.", page)
        self.assertEqual(page.evaluate("[sessionStorage['nvllm.key'], localStorage['nvllm.key'] ?? null]"), ['"secret-key"', None])
        self.assertEqual({headers.get("Authorization") for _, _, headers in self.server.requests}, {"Bearer secret-key"})
        page.reload()
        page.wait_until("document.querySelector('#model_dot.ready')")

    def test_a_key_is_remembered_when_that_is_wanted(self):
        self.server.key = "secret-key"
        page = self.new_page()
        page.wait_until("document.querySelector('#key_dialog').open")
        page.click("#keep_key")
        self.type_key(page, "secret-key")
        page.wait_until("document.querySelector('#model_dot.ready')")
        self.assertEqual(page.evaluate("[sessionStorage['nvllm.key'] ?? null, localStorage['nvllm.key']]"), [None, '"secret-key"'])

    def problem(self, question="Hello"):
        self.ask_and_wait(question)
        return self.page.text(".assistant:last-child .problem")

    def test_an_error_in_the_stream_is_shown_beside_what_came_before_it(self):
        error = {"message": "the worker was lost", "type": "server_error", "param": None, "code": 500}
        self.server.pieces = ["Half an ", "answer", {"error": error}]
        shown = self.problem()
        self.assertIn("the worker was lost", shown)
        self.assertIn("server's log", shown)
        self.assertEqual(self.answer(), "Half an answer")
        self.server.pieces = ["All of it"]
        self.act("Try again")
        self.wait_for_answer("All of it")
        self.assertEqual(self.page.text(".problem"), "")

    def test_an_answer_that_breaks_off_is_not_taken_for_whole(self):
        self.server.pieces, self.server.breaks_off, self.server.gap_s = ["Half"], True, 0.1
        self.assertRegex(self.problem(), "ended before|cannot be reached")
        self.assertEqual(self.answer(), "Half")

    def test_refusals_say_what_to_do(self):
        for status, message, code, advice in (
                (400, "The context length is 4096 tokens.", "context_length_exceeded", "Start a new chat"),
                (429, "Too many requests.", "rate_limit", "Wait a moment"), (503, "Loading.", "loading", "in a moment"),
                (404, "No such model.", "model_not_found", "another model"), (500, "Out of order.", None, "log")):
            self.server.refusal = (status, message, code)
            shown = self.problem()
            self.assertIn(message, shown)
            self.assertIn(advice, shown)

    def test_a_server_that_loads_goes_and_comes_back(self):
        self.server.models_status = 503
        page = self.new_page()
        page.wait_until("document.querySelector('#model_name').innerText === 'Loading'")
        self.server.models_status = 200
        page.wait_until("document.querySelector('#model_dot.ready')")
        network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        page.call("Network.emulateNetworkConditions", offline=True, **network)
        self.ask_and_wait("Hello", page)
        self.assertIn("cannot be reached", page.text(".problem"))
        page.wait_until("document.querySelector('#model_dot.unreachable')")
        page.call("Network.emulateNetworkConditions", offline=False, **network)
        page.wait_until("document.querySelector('#model_dot.ready')")

    def test_status_without_a_model_and_with_a_fault(self):
        page = self.page
        self.server.status = {"model": None, "state": "loading", "version": "0.1.0", "uptime_s": 1.5}
        page.evaluate("location.hash = '#status'")
        page.wait_until("document.querySelector('#state_word').innerText === 'Loading'")
        self.assertIn("none yet", page.text("#state_facts"))
        health = {"heartbeat_age_s": 4.2, "last_fault": "out of memory"}
        self.server.status = dict(STATUS, state="recovering", worker={"restarts": 2}, health=health)
        page.wait_until("document.querySelector('#state_word').innerText === 'Recovering'")
        self.assertRegex(page.text("#state_facts"), r"Worker restarts\s+2\s+Last fault\s+out of memory")
        self.assertRegex(page.text("#request_bars"), r"Running\s+3 of 16\s+Waiting\s+2 of 512\s+Paused\s+1\s+Swapped\s+0")
        self.assertEqual(page.all("#request_bars progress", "[one.value, one.max]"), [[3, 16], [2, 512]])
        self.assertIn("needs 89 more blocks than are free", page.text("#queue"))
        self.assertRegex(page.text("#limit_facts"), r"(?s)Request timeout\s+600 s.*Max messages\s+4,096")
        self.assertEqual((page.count("#block_map i"), page.count("#block_map .used")), (320, 126))


@scripted_only
class ConversationTest(BrowserTest):
    def asked(self):
        """What the last request told the model."""
        return [message["content"] for message in self.requests()[-1]["messages"]]

    def titles(self, page=None):
        return (page or self.page).all("#chat_list .open", "one.innerText")

    def test_settings_are_sent_as_they_are_and_only_those(self):
        self.ask_and_wait("One")
        always = {"model": "fake/model", "stream": True, "stream_options": {"include_usage": True}, "return_progress": True}
        self.assertEqual(self.requests()[-1], {"messages": [{"role": "user", "content": "One"}], **always})
        wanted = {"temperature": 0.35, "top_p": 0.9, "top_k": 40, "min_p": 0.005, "max_tokens": 7, "seed": 3,
                  "repetition_penalty": 1.1}
        self.set(system="Be kind.", stop="END\n\\n\\n", **wanted)
        self.page.reload()
        self.page.wait_until("document.querySelector('#model_dot.ready')")
        self.ask_and_wait("Two")
        body = self.requests()[-1]
        self.assertEqual({name: body[name] for name in wanted}, wanted)
        self.assertEqual(body["stop"], ["END", "\n\n"])
        self.assertEqual(body["messages"][0], {"role": "system", "content": "Be kind."})
        self.set(temperature=9, seed="")
        self.ask_and_wait("Three")
        self.assertEqual(self.requests()[-1]["temperature"], 0.35, "a value out of range is not taken")
        self.assertNotIn("seed", self.requests()[-1])

    def test_reading_the_prompt_is_shown(self):
        self.server.prompt_tokens, self.server.gap_s = 2048, 0.15
        self.page.prefer(reduced_motion="reduce")
        self.ask("A long one")
        reading = "Reading the prompt: 1,024 of 2,048 tokens, 64 cached"
        self.page.wait_until(f"document.querySelector('.assistant .note')?.innerText.includes('{reading}')")
        self.assertEqual(self.page.value(".assistant progress"), 1024)
        self.assertEqual(self.page.evaluate("document.getAnimations().length"), 0)

    def test_regenerate_edit_delete_and_undo(self):
        page = self.page
        self.ask_and_wait("First")
        self.ask_and_wait("Second")
        self.server.pieces = ["Another"]
        self.act("Regenerate")
        self.wait_for_answer("Another")
        self.wait_for_end()
        self.assertEqual(self.asked(), ["First", "Hello there.", "Second"])
        self.act("Edit")
        page.type(" and a half")
        page.press("Enter")
        page.wait_until("document.querySelectorAll('.user')[1].innerText.includes('Second and a half')")
        self.wait_for_end()
        self.assertEqual(self.asked(), ["First", "Hello there.", "Second and a half"])
        before = page.text("#messages")
        self.act("Delete", 0)
        self.assertEqual(page.count(".message"), 2)
        page.click("#undo")
        self.assertEqual(page.text("#messages"), before)
        page.click("#chat_list .remove")
        self.assertEqual(page.text("#messages") + page.text("#chat_list"), "")
        page.click("#undo")
        self.assertEqual(page.text("#messages"), before)
        page.reload()
        self.assertEqual(page.text("#messages"), before)

    def test_conversations_go_on_while_others_are_read(self):
        self.server.pieces, self.server.gap_s = [f"{i} " for i in range(60)], 0.02
        self.ask("Count")
        self.page.press("n", "Alt")
        self.assertEqual(self.page.count(".message"), 0)
        self.ask_and_wait("Count too")
        self.page.click("#chat_list li:last-child .open")
        self.wait_for_end()
        self.assertEqual(self.answer().split(), [str(i) for i in range(60)])
        self.assertEqual(self.titles(), ["Count too", "Count"])

    def test_a_reload_in_the_middle_keeps_what_was_there(self):
        self.server.pieces, self.server.gap_s = [f"{i} " for i in range(500)], 0.02
        self.ask("Count")
        self.page.wait_until("document.querySelector('.assistant .body').innerText.includes('9 ')")
        self.page.reload()
        self.assertTrue(self.answer().startswith("0 1 2 3 4 5 6 7 8 9"))
        self.assertIn("Interrupted", self.page.text(".assistant"))
        self.server.pieces = ["Done"]
        self.act("Regenerate")
        self.wait_for_answer("Done")

    def test_the_reader_decides_whether_the_page_follows(self):
        page = self.page
        self.server.pieces, self.server.gap_s = ["A line of text.\n\n"] * 200, 0.01
        self.ask("Write")
        from_end = "one.scrollHeight - one.scrollTop - one.clientHeight"
        page.wait_until("document.querySelectorAll('.assistant p').length > 40")
        self.assertLess(page.all("#scroller", from_end)[0], 40)
        page.press("ArrowUp")  # edits the last question, but not while it is being answered
        self.assertEqual(page.all("#send", "one.ariaLabel"), ["Stop"])
        page.evaluate("document.querySelector('#scroller').scrollTop = 0")
        page.wait_until("!document.querySelector('#jump').hidden")
        page.wait_until(f"document.querySelectorAll('.assistant p').length > {page.count('.assistant p')} + 20")
        self.assertEqual(page.all("#scroller", "one.scrollTop"), [0])
        page.click("#jump")
        self.assertLess(page.all("#scroller", from_end)[0], 40)
        self.wait_for_end()
        self.assertLess(page.all("#scroller", from_end)[0], 40)

    def exported(self, folder):
        browser().call("Browser.setDownloadBehavior", behavior="allow", downloadPath=folder, browserContextId=self.page.context)
        self.page.click("#export_chats")
        file = pathlib.Path(folder, "nanovllm-chats.json")
        end = time.monotonic() + devtools.PATIENCE_S
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.02)
        return file

    def test_export_and_import(self):
        self.ask_and_wait("Keep this")
        with tempfile.TemporaryDirectory() as folder:
            file = self.exported(folder)
            messages = json.loads(file.read_text())["chats"][0]["messages"]
            self.assertEqual([message["content"] for message in messages], ["Keep this", "Hello there."])
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
                other.wait_until("document.querySelector('#toast:not([hidden])')?.innerText.includes('No conversations')")
            self.assertEqual(self.titles(other), ["Keep this", "Keep this"])

    def test_damaged_storage_is_not_believed(self):
        damaged = {"nvllm.chat.a": "{", "nvllm.chat.b": '{"id": "b", "messages": [{}]}', "nvllm.chat.c": "null",
                   "nvllm.settings": '"x"', "nvllm.key": "{"}
        self.page.evaluate(f"void Object.assign(localStorage, {json.dumps(damaged)})")
        self.page.reload()
        self.set(seed=5)
        self.ask_and_wait("Hello")
        self.assertEqual((self.answer(), self.requests()[-1]["seed"], self.titles()), ("Hello there.", 5, ["Hello"]))

    def test_storage_that_is_full_gives_up_the_oldest_conversation(self):
        self.page.evaluate("""(() => { for (let number = 0; number < 5; ++number) {
            const messages = [{ role: 'user', content: 'x'.repeat(1_000_000) }];
            const chat = { id: `old${number}`, title: `Old ${number}`, updated: 1000 + number, messages };
            localStorage[`nvllm.chat.old${number}`] = JSON.stringify(chat); } })()""")
        self.page.reload()
        self.assertEqual(self.titles()[-1], "Old 0")
        self.server.pieces = ["y" * 400_000]
        self.ask_and_wait("New")
        self.assertEqual(self.titles(), ["New", "Old 4", "Old 3", "Old 2", "Old 1"])
        self.assertIn("“Old 0” was removed", self.page.text("#toast"))
        self.page.reload()
        self.assertEqual(len(self.answer()), 400_000)


if __name__ == "__main__":
    unittest.main()
