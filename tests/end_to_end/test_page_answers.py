"""The chat page: formulas, code, thoughts and calls of tools in the answers of a server that says what a test gave it."""

import json
import unittest

from page_testing import BrowserTest, say_if_not_run, scripted_only

setUpModule = say_if_not_run

# A node as "name(children)"; a token as its text; of mi, mn and mo that need no telling apart. Attributes that say something
# of the meaning stand behind the name.
SHOWN = """((source, is_block = false) => {
    const show = (node) => {
        const attributes = ['linethickness', 'display', 'class'].filter((name) => node.hasAttribute(name)).map((name) => node.getAttribute(name));
        const name = [node.localName.replace(/^m/, ''), ...attributes].join('.');
        if (['mi', 'mn', 'mo', 'mtext'].includes(node.localName)) return node.textContent.replaceAll('\\u00a0', ' ');
        if (node.localName === 'mspace') return '_';
        return `${name}(${Array.from(node.children, show).join(' ')})`;
    };
    const made = formula(source, is_block);
    return made && Array.from(made.firstChild.firstChild.children, show).join(' ');
})"""

FORMULAS = {
    r"x^2 + y_1": "sup(x 2) + sub(y 1)",
    r"x^10": "sup(x 1) 0",
    r"3.14 \times 10^{-5}": "3.14 × sup(10 row(− 5))",
    r"a_i^2 = a^2_i": "subsup(a i 2) = subsup(a i 2)",
    r"f'(x), f''": "sup(f ′) ( x ) , sup(f ′′)",
    r"f'^2": "sup(f row(′ 2))",
    r"{}^{14}C": "sup(row() 14) C",
    r"\frac{a}{b}, \frac12": "frac(a b) , frac(1 2)",
    r"\sqrt{2}, \sqrt[3]{x}": "sqrt(2) , root(x 3)",
    r"\alpha \Omega \varepsilon \infty \partial": "α Ω ε ∞ ∂",
    r"\sum_{i=1}^n i": "underover(∑ row(i = 1) n) i",
    r"\int_0^1 x\,dx": "subsup(∫ 0 1) x _ d x",
    r"\int\limits_0^1": "underover(∫ 0 1)",
    r"\lim_{x \to 0} \frac{\sin x}{x}": "under(lim row(x → 0)) frac(row(sin x) x)",
    r"\operatorname*{argmax}_\theta L": "under(argmax θ) L",
    r"\mathbb{R}^n \mathcal{L} \mathbf{x} \mathfrak{g} \mathrm{KL}": "sup(ℝ n) ℒ 𝐱 𝔤 KL",
    r"\hat{x} \bar{y} \vec{v} \dot{z} \overline{AB}": "over(x ^) over(y ¯) over(v →) over(z ˙) row.over(row(A B))",
    r"\left( \frac{1}{2} \right]": "row(( row(frac(1 2)) ])",
    r"\left\{ x \middle| y \right.": "row({ row(x) | row(y))",
    r"\bigl[ x \Bigr)": "[ x )",
    r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}": "row(( table(tr(td.c(a) td.c(b)) tr(td.c(c) td.c(d))) ))",
    r"\begin{cases} x & \text{if } x > 0 \\ 0 & \text{else} \end{cases}":
        "row({ table(tr(td.l(x) td.l(if  x > 0)) tr(td.l(0) td.l(else))))",
    r"\begin{aligned} a &= b \\ &= c \end{aligned}":
        "row(table(tr(td.r tight(a) td.l tight(= b)) tr(td.r tight() td.l tight(= c))))",
    r"\begin{array}{l|r} a & b \\ \hline c & d \end{array}": "row(table(tr(td.l(a) td.r(b)) tr.ruled(td.l(c) td.r(d))))",
    r"a \\ b": "table(tr(td.r tight(a)) tr(td.r tight(b)))",
    r"\text{for all $x$ in } S": "row(for all  x  in ) S",
    r"\binom{n}{k}": "row(( frac.0(n k) ))",
    r"a \le b \neq c \approx d \implies e": "a ≤ b ≠ c ≈ d ⟹ e",
    r"\overset{?}{=} \underbrace{a+b}_{n}": "over(= ?) under(under(row(a + b) ⏟) n)",
    r"\xrightarrow{n} \boxed{x} \cancel{y} \not=": "over(→ row(_ n _)) row.boxed(x) row.cancel(y) ≠".replace("≠", "=\u0338"),
    r"50\% \$5 \{a\} \#": "50 % $ 5 { a } #",
    r"a \equiv b \pmod{n}": "a ≡ b row(_ ( row(mod _ n) ))",
    r"\displaystyle\sum x": "style(∑ x)",
    r"p(x|y) = \lVert v \rVert": "p ( x | y ) = ‖ v ‖",
    r"\tag{1} x \label{eq}": "\u2003(1) x",
}
# Unknown, unfinished, or contradicting itself.
UNREADABLE = [r"\foo{x}", r"\frac{a}", r"{a", r"a}", r"x^", r"x^1^2", r"x_1_2", r"\left( a", r"a \right)", r"\begin{pmatrix} a", r"\begin{foo}\end{foo}",
              r"\begin{matrix} a \end{pmatrix}", "\\", r"\sqrt[3", r"\text{a", r"\text{\foo}", r"\constructor", r"\__proto__", r"\hspace{url(x)}",
              r"\begin{constructor}\end{constructor}", r"\left\foo x \right)", r"&^", "", " ", "{" * 300 + "}" * 300, r"\sqrt" * 300, "x" * 30000]

NOT_FORMULAS = ["It costs $5 and $10.", "$5-$10 or 20$ more", "US$ 5, A$ 6", "$5 million or so, not 6$", "A $ alone", "$ x $ has blanks", "\\$x\\$ is escaped",
                "`$x$` is code", "$100,$200", "$HOME/$PATH"]

CODE = {
    "python": ('@cache\ndef f(x=1.5):  # "no" string\n    """a\n    b"""\n    return rb"x\\"y" + None + \'#\'',
               ["name:@cache", "keyword:def", "number:1.5", 'comment:# "no" string', 'string:"""a\n    b"""', "keyword:return", 'string:rb"x\\"y"', "keyword:None",
                "string:'#'"]),
    "js": ("const a = `b ${c}\nd`; // e\nif (x === 0x1F) /* f\ng */ return 'h';",
           ["keyword:const", "string:`b ${c}\nd`", "comment:// e", "keyword:if", "number:0x1F", "comment:/* f\ng */", "keyword:return", "string:'h'"]),
    "json": ('{"a": [1, -2.5e3, true], "b" : "c"}', ['name:"a"', "number:1", "number:-2.5e3", "keyword:true", 'name:"b"', 'string:"c"']),
    "c++": ('#include <x>\nauto s = R"q(a " )b)q"; int n = 1\'000; // c\nchar c = \'"\';',
            ["name:#include", "keyword:auto", 'string:R"q(a " )b)q"', "keyword:int", "number:1'000", "comment:// c", "keyword:char", "string:'\"'"]),
    "cuda": ("__global__ void k(float* x) { x[threadIdx.x] = 1.0f; }", ["name:__global__", "keyword:void", "keyword:float", "number:1.0f"]),
    "rust": ("#[test]\nfn f<'a>(s: &'a str) -> char { println!(\"{}\", 'x'); '\\n' }",
             ["name:#[test]", "keyword:fn", "name:'a", "name:'a", "keyword:str", "keyword:char", "name:println!", 'string:"{}"', "string:'x'", "string:'\\n'"]),
    "go": ("func f() string { return `a\nb` + \"c\" } // d", ["keyword:func", "keyword:string", "keyword:return", "string:`a\nb`", 'string:"c"', "comment:// d"]),
    "java": ('@Override public int f() { return 1L; }', ["name:@Override", "keyword:public", "keyword:int", "keyword:return", "number:1L"]),
    "bash": ('for f in *.txt; do echo "$f" --all \'x\' $HOME; done # end',
             ["keyword:for", "keyword:in", "keyword:do", "keyword:echo", 'string:"$f"', "name:--all", "string:'x'", "name:$HOME", "keyword:done", "comment:# end"]),
    "html": ('<!-- it\'s --><a href="x" id=\'y\'>it\'s &amp; b</a>',
             ["comment:<!-- it's -->", "keyword:<a", "name:href", 'string:"x"', "name:id", "string:'y'", "keyword:>", "number:&amp;", "keyword:</a", "keyword:>"]),
    "css": ("@media print { a { color: #fff; margin: 1.5em; } } /* c */", ["keyword:@media", "name:color", "number:#fff", "name:margin", "number:1.5em", "comment:/* c */"]),
    "sql": ("SELECT a FROM b WHERE c = 'it''s' -- d", ["keyword:SELECT", "keyword:FROM", "keyword:WHERE", "string:'it''s'", "comment:-- d"]),
    "yaml": ("a: 1 # b\n- c-d: \"e\"\n  f: true", ["name:a", "number:1", "comment:# b", "name:- c-d", 'string:"e"', "name:  f", "keyword:true"]),
    "toml": ("[a]\nb = 'c' # d", ["keyword:[a]", "name:b", "string:'c'", "comment:# d"]),
    "diff": ("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n z", ["comment:--- a", "comment:+++ b", "name:@@ -1 +1 @@", "deleted:-x", "inserted:+y"]),
    "constructor": ("if else", []), "": ("# if 1", []), "text": ("return 1", []),
}
SPANS = """Array.from(document.querySelectorAll('.assistant:last-child .body pre code span'), (one) => `${one.className}:${one.textContent}`)"""
HOSTILE = "<img src=x onerror=window.broken=1></code><script>window.broken=2</script><svg onload=window.broken=3>"

# The least contrast of the text of each kind with what is behind it, and how often each was met.
CONTRAST = r"""(() => {
    const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
    const over = (colors) => { canvas.clearRect(0, 0, 1, 1); for (const color of colors) { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); }
        return Array.from(canvas.getImageData(0, 0, 1, 1).data.slice(0, 3)); };
    const light = (rgb) => rgb.map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
        .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
    const least = {};
    for (const one of document.querySelectorAll('pre span, pre code, .code header span, summary, .thoughts .text p, .formula mi, .foot span')) {
        const behind = [];
        for (let node = one; node; node = node.parentElement) behind.unshift(getComputedStyle(node).backgroundColor);
        const [a, b] = [light(over(behind)), light(over([...behind, getComputedStyle(one).color]))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        const kind = one.className || one.localName;
        least[kind] = Math.min(least[kind] ?? 99, ratio);
    }
    return least;
})()"""


def delta(**parts):
    return {"choices": [{"index": 0, "delta": parts}]}


def call(index=0, **function):
    begin = {"id": f"call_{index}", "type": "function"} if "name" in function else {}
    return delta(tool_calls=[{"index": index, **begin, "function": function}])


@scripted_only
class FormulaTest(BrowserTest):
    def shown(self, source):
        return self.page.evaluate(f"{SHOWN}({json.dumps(source)})")

    def test_latex_becomes_mathml(self):
        for source, expected in FORMULAS.items():
            with self.subTest(source):
                self.assertEqual(self.shown(source), expected)

    def test_what_cannot_be_read_is_told_and_nothing_is_thrown(self):
        for source in UNREADABLE:
            with self.subTest(source[:40]):
                self.assertIsNone(self.shown(source))

    def test_no_part_of_a_formula_breaks_the_reader(self):
        # Each beginning of each formula, and each with a character left out.
        broken = [piece for source in FORMULAS for at in range(len(source)) for piece in (source[:at], source[:at] + source[at + 1:])]
        self.assertGreater(len(broken), 1000)
        read = self.page.evaluate(f"{json.dumps(broken)}.filter((source) => formula(source, false)).length")
        self.assertGreater(read, 100)

    def test_formulas_stand_in_text_in_all_their_marks(self):
        self.server.pieces = ["Inline $a_1$ and \\(b^2\\), **bold $c$**.\n\n$$\nd\n$$\n\n\\[ e\n+ f \\]\n\n- item $g$\n  $$h$$\n\n",
                              "| a |\n|---|\n| $i$ |\n\ntext\n\\begin{align}\nj &= k\n\\end{align}\ntext $$l$$ text"]
        self.ask_and_wait("Formulas")
        math = ".assistant .body math"
        self.assertEqual(self.page.all(math, "one.querySelector('annotation').textContent"),
                         ["a_1", "b^2", "c", "d", "e\n+ f", "g", "h", "i", "\\begin{align}\nj &= k\n\\end{align}", "l"])
        self.assertEqual(self.page.all(math, "one.getAttribute('display')"), [None, None, None, "block", "block", None, "block", None, "block", "block"])
        self.assertEqual(self.page.all(f"{math} mi", "one.namespaceURI.split('/').at(-1)").count("MathML"), self.page.count(f"{math} mi"))
        self.assertTrue(all(self.page.all(f"{math}", "one.getBoundingClientRect().width > 3")))
        for place in ("strong", "li", "td"):
            self.assertGreater(self.page.count(f".assistant .body {place} math"), 0, place)

    def test_money_and_what_cannot_be_read_stay_text(self):
        unreadable = [text for text in UNREADABLE if text.strip() and len(text) < 100 and not text.endswith("\\")]
        self.server.pieces = [text + "\n\n" for text in [*NOT_FORMULAS, *(f"\\( {text} \\) *after*" for text in unreadable), "$$\n\\foo_a_b\n$$", "$$ no end\n- *a*"]]
        self.ask_and_wait("Money")
        shown = self.answer()
        self.assertEqual(self.page.all(".assistant .body annotation", "one.textContent"), [])
        for text in NOT_FORMULAS:
            self.assertIn(text.replace("`", "").replace("\\$", "$"), shown)
        for text in unreadable:
            self.assertIn(f"\\( {text} \\) after", shown, "its marks are not taken for emphasis")
        self.assertIn("$$\n\\foo_a_b\n$$", shown)
        self.assertIn("$$ no end\n- *a*", shown)

    def test_hostile_formulas_are_inert(self):
        self.server.pieces = [f"$\\text{{{HOSTILE}}}$ $<script>$ \\(\\operatorname{{<b>x}}\\)\n\n$$\\begin{{array}}{{{HOSTILE}}} a \\end{{array}} \\tag{{{HOSTILE}}}$$\n\n"
                              f"$$\\textcolor{{red;background:url(http://example.org/)}}{{x}} \\hspace{{1em}}$$"]
        self.ask_and_wait("Formulas")
        self.assertGreaterEqual(self.page.count(".assistant math"), 3)
        self.assertIn("<script>window.broken=2</script>", self.page.all(".assistant mtext", "one.textContent")[0])
        self.assertEqual(self.page.count("#messages :is(script, img, svg, b)"), 0)
        self.assertEqual(self.page.count("#messages math [style], #messages math [href]"), 0)
        self.assertIsNone(self.page.evaluate("window.broken"))

    def test_a_wide_formula_scrolls_by_itself(self):
        self.page.resize(360, 640)
        wide = "+".join(f"x_{{{number}}}" for number in range(40))
        self.server.pieces = [f"$$\n{wide}\n$$\n\nInline ${wide}$ too.\n\n- item ${wide}$\n"]
        self.ask_and_wait("Wide")
        self.assertEqual(self.page.all("html, #scroller", "one.scrollWidth - one.clientWidth"), [0, 0])
        self.assertEqual(self.page.all(".formula, p:has(> math)", "one.scrollWidth > one.clientWidth"), [True] * 3)


@scripted_only
class CodeTest(BrowserTest):
    def test_code_is_coloured(self):
        for language, (code, spans) in CODE.items():
            with self.subTest(language):
                self.server.pieces = [f"```{language}\n{code}\n```"]
                self.ask_and_wait(f"Write {language or 'text'}")
                self.assertEqual(self.page.evaluate(SPANS), spans)
                self.assertEqual(self.page.all(".assistant:last-child .body pre code", "one.textContent"), [code])

    def test_code_that_grows_is_coloured_as_code_that_was_there_at_once(self):
        grown = self.page.evaluate(f"""{json.dumps([[name, code] for name, (code, _) in CODE.items()])}.filter(([name, code]) => {{
            const at_once = new CodeBlock(name);
            at_once.show(code + '\\n' + code);
            const block = new CodeBlock(name);
            for (let shown = 0; shown <= 2 * code.length + 1; ++shown) block.grow((code + '\\n' + code).slice(0, shown));
            return !block.node.isEqualNode(at_once.node); }}).map(([name]) => name)""")
        self.assertEqual(grown, [])

    def test_code_that_becomes_another_is_made_again(self):
        shown = self.page.evaluate(r"""(() => { const block = new CodeBlock('json');
            for (const text of ['{\n    "a": 1,\n    "b": 2\n', '{\n  "a": 1,\n  "b": 2\n}', '']) { block.show(text); if (block.node.querySelector('code').textContent !== text) return text; }
            return 'alike'; })()""")
        self.assertEqual(shown, "alike")

    def test_a_long_block_of_code_is_not_made_again_with_every_line(self):
        made = self.page.evaluate("""(() => {
            const made = document.createElement.bind(document);
            let count = 0;
            document.createElement = (name) => { ++count; return made(name); };
            const text = new GrowingText(made('div'));
            let code = '```python\\n';
            for (let line = 0; line < 1000; ++line) { code += `x = ${line} + "text"  # a comment\\n`; text.show(code); }
            delete document.createElement;
            return count; })()""")
        self.assertGreater(made, 3000)
        self.assertLess(made, 3 * 3000, "3 coloured tokens a line, each made thrice at most")

    def test_patterns_take_time_in_proportion(self):
        units = ['"', "'", "`", "/*", "//", "#", "<!--", "<a ", "a=", "0x", "1e", "'''", '"""', "\\", "a:", "@", "$", "${", "-", "r#", 'R"(', "__a", " ", "a ", "&", "[", "\n"]
        slowest = self.page.evaluate(f"""(() => {{ let slowest = [0];
            for (const language of Object.keys(languages)) for (const unit of {json.dumps(units)}) {{
                const begun = performance.now();
                new CodeBlock(language).show(unit.repeat(30000 / unit.length));
                const took = performance.now() - begun;
                if (took > slowest[0]) slowest = [took, language, unit];
            }}
            return slowest; }})()""")
        self.assertLess(slowest[0], 1500, slowest)

    def test_hostile_code_is_inert(self):
        self.server.pieces = [f"```{language}\n{HOSTILE}\n```\n\n" for language in ("html", "js", "python", "<img/src=x>")]
        self.ask_and_wait("Write")
        self.assertEqual(self.page.all(".assistant pre code", "one.textContent"), [HOSTILE] * 4)
        self.assertEqual(self.page.count("#messages :is(script, img, svg)"), 0)
        self.assertIsNone(self.page.evaluate("window.broken"))

    def test_everything_can_be_read_in_both_themes(self):
        self.server.pieces = [delta(reasoning_content="Thoughts"), *(f"```{language}\n{code}\n```\n\n" for language, (code, _) in CODE.items()), "$$x$$", call(name="f", arguments="{}")]
        self.ask_and_wait("Write")
        self.page.evaluate("document.querySelector('.thoughts').open = true")
        for theme in ("light", "dark"):
            self.page.prefer(color_scheme=theme)
            contrast = self.page.evaluate(CONTRAST)
            self.assertTrue({"comment", "keyword", "name", "string", "number", "inserted", "deleted", "summary", "p", "code"} <= set(contrast), contrast)
            self.assertEqual({kind: ratio for kind, ratio in contrast.items() if ratio < 4.5}, {}, theme)

    def test_task_lists_have_boxes(self):
        self.server.pieces = ["- [ ] open **task**\n- [x] done\n- [y] neither\n- plain\n\n1. [X] counted"]
        self.ask_and_wait("Tasks")
        self.assertEqual(self.page.all(".assistant li", "one.querySelector('input') && one.querySelector('input').checked"), [False, True, None, None, True])
        self.assertEqual(self.page.all(".assistant li", "one.innerText.trim()"), ["open task", "done", "[y] neither", "plain", "counted"])
        self.assertEqual(self.page.names_missing(), [])
        self.assertTrue(all(self.page.all(".assistant li input", "one.disabled")))


@scripted_only
class ThoughtsTest(BrowserTest):
    def folds(self):
        return self.page.all(".assistant:last-child details", "[one.open, one.querySelector('summary').innerText, one.querySelector('.text').textContent]")

    def test_thoughts_are_open_while_they_come_and_folded_then(self):
        self.server.gap_s = 0.05
        for name in ("reasoning_content", "reasoning"):
            self.server.pieces = [delta(**{name: f"thought{number} "}) for number in range(10)] + ["The ", "answer."] * 3
            self.ask("Think")
            self.page.wait_until("document.querySelector('.assistant:last-child details')?.open")
            self.assertEqual(self.page.text(".assistant:last-child summary"), "Thinking…")
            self.wait_for_end()
            ((is_open, summary, text),) = self.folds()
            self.assertFalse(is_open)
            self.assertRegex(summary, r"^Thought for (\d+ ms|\d\.\d s)$")
            self.assertEqual(text.split(), [f"thought{number}" for number in range(10)])
            before = self.folds()
            self.page.reload()
            self.assertEqual(self.folds(), before)

    def test_the_reader_s_choice_holds(self):
        self.server.gap_s = 0.05
        self.server.pieces = [delta(reasoning_content="plan ")] * 20 + ["Answer"]
        self.ask("Think")
        self.page.wait_until("document.querySelector('details')?.open")
        self.page.click("summary")
        self.page.wait_until("!document.querySelector('details').open")
        self.page.click("summary")
        self.wait_for_end()
        self.assertTrue(self.folds()[0][0])

    def test_thoughts_in_the_middle_are_folded_where_they_stand(self):
        self.server.gap_s = 0.04
        self.server.pieces = ["First. <thi", "nk>\n", "plan $x$", " and <b>", " more", "</th", "ink>\n\nSecond.", "\n\n```\n<think>code</think>\n```\n\n`<think>` ", "<think></think>end", "<think>cut"]
        self.ask("Think")
        seen = set()
        while self.page.evaluate("document.querySelector('#send').ariaLabel") == "Stop":
            seen.add(self.page.text(".assistant:last-child .body"))
        self.wait_for_end()
        self.assertTrue(all("<thi" not in text.split("```")[0].split("<think>code")[0] for text in seen), seen)
        self.assertEqual([text.strip() for text in self.page.all(".assistant:last-child .body", "one.innerText")][0], "First.")
        self.assertIn("<think>code</think>", self.page.text(".assistant:last-child .body pre"))
        self.assertIn("end", self.page.text(".assistant:last-child .body"))
        folds = self.folds()
        self.assertEqual([text.replace("\n", "") for _, _, text in folds], ["plan xx and <b> more", "cut"])
        self.assertRegex(folds[0][1], r"^Thought for \d+ ms$")
        self.assertEqual([is_open for is_open, *_ in folds], [False, False])
        self.server.pieces = ["Yes"]
        self.ask_and_wait("And?")
        told = self.requests()[-1]["messages"][1]["content"]
        self.assertNotIn("plan", told)
        self.assertTrue(told.startswith("First.") and "<think>code</think>" in told)

    def test_an_end_of_thoughts_alone_ends_what_came_before(self):
        self.server.pieces = ["the plan", "</think>", "The answer", " <b></think>"]
        self.ask_and_wait("Think")
        self.assertEqual((self.folds(), self.answer()), ([[False, "Thoughts", "the plan"]], "The answer <b></think>"))

    def test_hostile_thoughts_are_inert(self):
        self.server.pieces = [delta(reasoning_content=HOSTILE), f"<think>{HOSTILE}</think>", "x"]
        self.ask_and_wait("Think")
        self.assertEqual([text for _, _, text in self.folds()], [HOSTILE] * 2)
        self.assertEqual(self.page.count("#messages :is(script, img, svg)"), 0)
        self.assertIsNone(self.page.evaluate("window.broken"))


@scripted_only
class ToolTest(BrowserTest):
    TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]

    def test_calls_are_shown_and_their_results_sent(self):
        self.set(tools=json.dumps(self.TOOLS))
        arguments = '{"city": "Paris",\n      "id": 12345678901234567890, "list": [], "text": "a, {b}: \\"c\\""}'
        self.server.pieces = ["Let me see.", call(name="weather", arguments=""), *(call(arguments=piece) for piece in (arguments[:9], arguments[9:])),
                              call(1, name="clock", arguments="not json")]
        self.server.finish = "tool_calls"
        self.ask_and_wait("How is the weather?")
        self.assertEqual(self.requests()[-1]["tools"], self.TOOLS)
        self.assertEqual(self.page.all(".call summary", "one.innerText"), ["Call of weather", "Call of clock"])
        self.assertEqual(self.page.all(".call pre code", "one.textContent"),
                         ['{\n  "city": "Paris",\n  "id": 12345678901234567890,\n  "list": [],\n  "text": "a, {b}: \\"c\\""\n}', "not json"])
        self.assertEqual(self.page.text(".message .note"), "")
        self.assertEqual(self.page.names_missing(), [])
        self.page.reload()
        self.page.wait_until("document.querySelector('#model_dot.ready')")
        for selector, text in (("textarea:first-of-type", '{"sky":"blue"}'), ("textarea:last-of-type", HOSTILE)):
            self.page.evaluate(f"document.querySelector('.results {selector}').focus()")
            self.page.type(text)
        self.server.pieces, self.server.finish = ["It is fine."], "stop"
        self.act("Send results")
        self.wait_for_answer("It is fine.")
        self.wait_for_end()
        question, called, first, second = self.requests()[-1]["messages"]
        self.assertEqual(called, {"role": "assistant", "content": "Let me see.", "tool_calls": [
            {"id": "call_0", "type": "function", "function": {"name": "weather", "arguments": arguments}},
            {"id": "call_1", "type": "function", "function": {"name": "clock", "arguments": "not json"}}]})
        self.assertEqual([first, second], [{"role": "tool", "tool_call_id": "call_0", "name": "weather", "content": '{"sky":"blue"}'},
                                           {"role": "tool", "tool_call_id": "call_1", "name": "clock", "content": HOSTILE}])
        self.assertEqual(self.page.all(".tool summary", "one.innerText"), ["Result of weather", "Result of clock"])
        self.assertEqual(self.page.all(".tool pre code", "one.textContent"), ['{\n  "sky": "blue"\n}', HOSTILE])
        self.assertEqual(self.page.count("#messages :is(script, img, svg, form)"), 0)
        self.page.reload()
        self.assertEqual(self.page.count(".message"), 5)
        self.act("Delete", 0)
        self.assertEqual(self.page.count(".message"), 0, "a question goes with all that came of it")
        self.assertIsNone(self.page.evaluate("window.broken"))

    def test_calls_without_results_are_not_told_again(self):
        self.server.pieces = [call(name="weather", arguments="{}")]
        self.ask_and_wait("One")
        self.ask_and_wait("Two")
        self.assertEqual(self.requests()[-1]["messages"], [{"role": "user", "content": "One\n\nTwo"}])

    def test_long_and_hostile_calls(self):
        self.server.pieces = [call(name=HOSTILE, arguments=json.dumps({"list": list(range(40)), "text": HOSTILE})), call(1000000, name="far"), call(-1, name="no")]
        self.ask_and_wait("Call")
        self.assertEqual(self.page.all(".call", "one.open")[0], False, "what is long is folded")
        self.assertIn("45 lines", self.page.text(".call:first-child summary"))
        self.assertIn("<img src=x", self.page.text(".call:first-child summary"))
        self.assertEqual(self.page.count("#messages :is(script, img, svg)"), 0)
        self.assertIsNone(self.page.evaluate("window.broken"))

    def test_tools_that_are_no_list_are_not_taken(self):
        self.set(tools="[{")
        self.ask_and_wait("Hello")
        self.assertNotIn("tools", self.requests()[-1])
        self.assertFalse(self.page.evaluate("document.querySelector('[name=tools]').checkValidity()"))
        self.set(tools="")
        self.assertTrue(self.page.evaluate("document.querySelector('[name=tools]').checkValidity()"))


@scripted_only
class LayoutTest(BrowserTest):
    def test_a_rate_is_told_only_where_time_has_passed(self):
        self.server.pieces, self.server.gap_s = ["word "] * 30, 0
        self.ask_and_wait("Quick")
        self.assertRegex(self.page.text(".assistant:last-child .foot"), r"30 tokens · first after")
        self.server.gap_s = 0.02
        self.ask_and_wait("Slow")
        rate = float(self.page.evaluate("/([\\d.]+) tokens\\/s/.exec(document.querySelector('.assistant:last-child .foot').innerText)[1]"))
        self.assertTrue(5 < rate < 50, rate)
        self.server.pieces, self.server.gap_s = ["word "] * 3 + [{"choices": [], "timings": {"predicted_per_second": 1234.5}}], 0
        self.ask_and_wait("Told")
        self.assertIn("1234.5 tokens/s", self.page.text(".assistant:last-child .foot"))

    def test_keys_are_not_named_where_there_are_none(self):
        self.assertEqual(self.page.all("#hint_text", "one.checkVisibility()"), [True])
        self.page.touch()
        self.assertEqual(self.page.all("#hint_text", "one.checkVisibility()"), [False])
        self.ask_and_wait("Hello")
        self.act("Edit")
        self.assertEqual((self.page.value("#question"), self.page.all("#edit_note", "one.checkVisibility()")), ("Hello", [True]))
        self.page.click("#cancel_edit")
        self.assertEqual((self.page.value("#question"), self.page.all("#edit_note", "one.checkVisibility()")), ("", [False]))

    def test_no_empty_row_lies_between_question_and_answer(self):
        self.ask_and_wait("One")
        self.ask_and_wait("Two")
        gaps = """Array.from(document.querySelectorAll('.message')).map((one, index, all) =>
            index > 0 && one.querySelector('.body').getBoundingClientRect().top - all[index - 1].querySelector('.body').getBoundingClientRect().bottom).slice(1)"""
        for gap in self.page.evaluate(gaps):
            self.assertTrue(20 <= gap <= 32, gap)
        # The row is there for a pointer or the focus, and hides nothing.
        self.act("Copy", 0, "focus")
        row, below = self.page.evaluate("""[document.querySelector('.user .foot').getBoundingClientRect().bottom,
            document.querySelector('.assistant .body').getBoundingClientRect().top]""")
        self.assertLessEqual(row, below + 1)
        self.assertEqual(self.page.all(".user:first-child .foot", "getComputedStyle(one).opacity"), ["1"])
        self.page.touch()
        self.assertEqual(set(self.page.all(".foot", "getComputedStyle(one).opacity + getComputedStyle(one).position")), {"1static"})


if __name__ == "__main__":
    unittest.main()
