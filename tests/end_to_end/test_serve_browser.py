"""A web page that is served from elsewhere asks nvllm-serve, in a real browser: as the official JavaScript client does, and
as a page may not that nobody allowed."""

import functools
import http.server
import json
import sys
import tempfile
import threading
import unittest

import devtools
import page_testing
from serve_testing import Server

# The official client's own headers, of every request.
HEADERS = {"authorization": "Bearer none", "content-type": "application/json", "x-stainless-arch": "unknown", "x-stainless-lang": "js",
           "x-stainless-os": "Unknown", "x-stainless-package-version": "6.1.0", "x-stainless-retry-count": "0",
           "x-stainless-runtime": "browser:chrome", "x-stainless-runtime-version": "120.0.0", "x-stainless-timeout": "600"}
BODY = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5, "temperature": 0}


def setUpModule():
    if not page_testing.CHROMIUM:
        print(f"pages of other addresses in a browser: {page_testing.NOT_RUN}", file=sys.stderr)


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@unittest.skipUnless(page_testing.CHROMIUM, page_testing.NOT_RUN)
class OtherAddresses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        with open(f"{folder.name}/index.html", "w", encoding="utf-8") as page:
            page.write("<!doctype html><title>elsewhere</title>")
        # Where the page is from: another port of this machine, under two names of it.
        cls.pages = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=folder.name))
        cls.addClassCleanup(cls.pages.server_close)
        threading.Thread(target=cls.pages.serve_forever, daemon=True).start()
        cls.addClassCleanup(cls.pages.shutdown)
        # A name of the web for the same machine.
        cls.browser = devtools.Browser(page_testing.CHROMIUM, "--host-resolver-rules=MAP chat.example 127.0.0.1",
                                       "--disable-features=BlockInsecurePrivateNetworkRequests,LocalNetworkAccessChecks")
        cls.addClassCleanup(cls.browser.close)

    def page_at(self, host):
        page = self.browser.new_page()
        self.addCleanup(page.close)
        page.open(f"http://{host}:{self.pages.server_port}/")
        return page

    def ask(self, page, port, **more):
        """(status, text, x-request-id) of a chat, or the browser's complaint."""
        return page.evaluate(f"""fetch("http://127.0.0.1:{port}/v1/chat/completions",
            {{method: "POST", headers: {json.dumps(HEADERS)}, body: JSON.stringify({json.dumps({**BODY, **more})})}})
            .then(async (answer) => [answer.status, await answer.text(), answer.headers.get("x-request-id")])
            .catch((problem) => problem.name)""")

    def test_the_official_client_s_headers_from_a_page_of_this_machine(self):
        with Server() as server:
            for host in ("localhost", "127.0.0.1"):
                page = self.page_at(host)
                status, text, name = self.ask(page, server.port)
                self.assertEqual(status, 200, text)
                self.assertTrue(json.loads(text)["choices"][0]["message"]["content"])
                self.assertTrue(name)
                status, text, _ = self.ask(page, server.port, stream=True)
                self.assertEqual((status, text.endswith("data: [DONE]\n\n")), (200, True))
                # Errors can be read as well.
                status, text, _ = self.ask(page, server.port, top_p=7)
                self.assertEqual((status, json.loads(text)["error"]["param"]), (400, "top_p"))
                said = page.evaluate(f"""new Promise((done) => {{
                    const socket = new WebSocket("ws://127.0.0.1:{server.port}/v1/chat/completions");
                    socket.onopen = () => socket.send(JSON.stringify({json.dumps(BODY)}));
                    socket.onmessage = (event) => done(event.data);
                    socket.onerror = () => done("refused"); }})""")
                self.assertEqual(json.loads(said)["object"], "chat.completion")
            server.check()

    def test_a_page_of_the_web_asks_only_where_it_is_named(self):
        with Server() as server:
            page = self.page_at("chat.example")
            self.assertEqual(self.ask(page, server.port), "TypeError")
            refused = page.evaluate(f"""new Promise((done) => {{
                const socket = new WebSocket("ws://127.0.0.1:{server.port}/v1/chat/completions");
                socket.onopen = () => done("opened"); socket.onerror = () => done("refused"); }})""")
            self.assertEqual(refused, "refused")
            # A page of the web can give a frame the origin "null".
            framed = page.evaluate(f"""new Promise((done) => {{
                onmessage = (event) => done(event.data);
                const frame = document.createElement("iframe");
                frame.sandbox = "allow-scripts";
                frame.srcdoc = `<script>fetch("http://127.0.0.1:{server.port}/v1/models").then(() => "read", () => "refused")
                    .then((word) => parent.postMessage(word, "*"))</` + `script>`;
                document.body.append(frame); }})""")
            self.assertEqual(framed, "refused")
        with Server("--allowed-origins", f"http://*.example:{self.pages.server_port}") as server:
            self.assertEqual(self.ask(self.page_at("chat.example"), server.port)[0], 200)


if __name__ == "__main__":
    unittest.main()
