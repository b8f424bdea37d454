"""Takes the pictures of the chat page in docs/pictures, with a scripted server; needs Chromium, Pillow and a font for formulas
(Debian's fonts-lmodern)."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "end_to_end"))

import devtools
from PIL import Image
from fake_page_server import FakePageServer

ANSWER = """A paged cache keeps keys and values in **blocks** of equal size, so memory is taken as a sequence grows.

1. The prompt is cut into blocks of 16 tokens.
2. Each is looked up in the *prefix index*: if it is there, it is shared, and `references` grows by one.
3. The first that is missing is where computing starts: $p = 16 \\cdot \\max\\{d : b_1, \\dots, b_d \\in \\text{index}\\}$.

```cpp
size_t depth = 0;
while (depth < full_blocks && index.contains(prompt, depth)) ++depth;
```
"""
EARLIER = ["Write a story about a red ball", "What is a token?"]
QUESTION = "How does a paged cache find shared prefixes?"


def ask(page, question):
    page.press("k", "Control")
    page.type(question)
    page.press("Enter")
    page.wait_until("document.querySelector('.assistant:last-child .foot:not([hidden])')")


def picture(page, name):
    path = ROOT / "docs" / "pictures" / f"page-{name}.png"
    page.screenshot(path)
    Image.open(path).convert("RGB").quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


def take_pictures(browser, server):
    page = browser.new_page(1000, 640, color_scheme="light")
    page.open(server.url)
    for question in EARLIER:
        ask(page, question)
        page.press("n", "Alt")
    server.pieces, server.gap_s = re.findall(r"\S+\s*", ANSWER), 0.02
    ask(page, QUESTION)
    picture(page, "light")
    page.prefer(color_scheme="dark")
    picture(page, "dark")
    page.prefer(color_scheme="light")
    page.resize(360, 640)
    page.touch()
    page.reload()
    page.evaluate("document.querySelector('#scroller').scrollTop = 0")
    page.wait_until("document.querySelector('#model_dot.ready')")
    picture(page, "phone")


def main():
    program = devtools.find_chromium() or sys.exit("no Chromium here")
    browser = devtools.Browser(program)
    try:
        with FakePageServer() as server:
            take_pictures(browser, server)
    finally:
        browser.close()


main()
