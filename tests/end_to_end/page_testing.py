"""What the tests of the chat page share: a browser, and a page in it that belongs to a server, scripted or real.

NVLLM_PAGE_URL=http://host:port drives the page of a running server (NVLLM_PAGE_KEY is its key); what needs a scripted
server is then skipped, and says so.
"""

import atexit
import functools
import json
import os
import sys
import unittest

import devtools
from fake_page_server import FakePageServer

URL = os.environ.get("NVLLM_PAGE_URL")
KEY = os.environ.get("NVLLM_PAGE_KEY")
CHROMIUM = devtools.find_chromium()
NOT_RUN = "not run: no Chromium here"

scripted_only = unittest.skipIf(URL, "needs a scripted server, and NVLLM_PAGE_URL names a real one")


@functools.cache
def browser():
    """One for all tests of a program."""
    started = devtools.Browser(CHROMIUM)
    atexit.register(started.close)
    return started


def say_if_not_run():
    """For setUpModule: a run without a browser says so where it is seen."""
    if not CHROMIUM:
        print(f"the chat page in a browser: {NOT_RUN}", file=sys.stderr)


@unittest.skipUnless(CHROMIUM, NOT_RUN)
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
        page = browser().new_page(**options)
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
        last = "document.querySelector('.user.message:nth-last-child(2) .body')"
        page.wait_until(f"{last}?.innerText === {json.dumps(question)}")

    def wait_for_end(self, page=None):
        idle = "document.querySelector('#send').ariaLabel === 'Send'"
        (page or self.page).wait_until(f"{idle} && document.querySelector('.message')")

    def ask_and_wait(self, question, page=None):
        self.ask(question, page)
        self.wait_for_end(page)

    def answer(self, page=None):
        return (page or self.page).text(".assistant:last-child .body")

    def wait_for_answer(self, text, page=None):
        """Waits until this is the last answer."""
        last = "document.querySelector('.assistant:last-child .body')"
        (page or self.page).wait_until(f"{last}?.innerText === {json.dumps(text)}")

    def act(self, label, number=-1, how="click"):
        """Presses (or does something else to) the message button of this label; of several, the last."""
        buttons = "Array.from(document.querySelectorAll('.message button'))"
        self.page.evaluate(f"{buttons}.filter((one) => one.innerText === {json.dumps(label)}).at({number}).{how}()")

    def set(self, **settings):
        for name, value in settings.items():
            self.page.evaluate(f"""(() => {{ const input = document.querySelector('#settings [name={name}]');
                input.value = {json.dumps(str(value))}; input.oninput(); }})()""")

    def requests(self):
        return [body for path, body, _ in self.server.requests if "chat" in path]
