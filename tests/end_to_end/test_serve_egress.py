"""R9 of the fault table's goals: the server opens no connection to anybody, whatever it is asked. It runs under a filter of
the kernel that ends it when it tries (no_connections.py)."""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from fault_testing import FaultServer
from serve_testing import RawConnection, request_bytes, wait_until

LAUNCHER = (sys.executable, "-B", str(pathlib.Path(__file__).with_name("no_connections.py")))
REFUSED_BY_SYSTEM = 77
ELSEWHERE = "http://192.0.2.1:9/picture.png"
ATTEMPTS = {
    "a connection": "import socket; socket.create_connection(('127.0.0.1', 9), 1)",
    "a name looked up": "import socket; socket.getaddrinfo('example.org', 80)",
    "a datagram": "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))",
    "a first byte that connects": "import socket; socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', 9))",
    "a Unix socket": "import socket; socket.socket(socket.AF_UNIX).connect('/nowhere')",
}


def filter_works():
    code = subprocess.run([*LAUNCHER, "/bin/true"], stderr=subprocess.DEVNULL, check=False).returncode
    return code != REFUSED_BY_SYSTEM


class NoConnections(unittest.TestCase):
    def setUp(self):
        self.launcher = LAUNCHER if filter_works() else ()
        if not self.launcher:
            print("\n    this system lets nobody filter system calls: only the sockets of the server are looked at")

    def test_the_filter_ends_whoever_tries(self):
        if not self.launcher:
            self.skipTest("this system lets nobody filter system calls")
        for what, attempt in ATTEMPTS.items():
            done = subprocess.run([*LAUNCHER, sys.executable, "-c", attempt], capture_output=True, check=False)
            self.assertEqual(done.returncode, -signal.SIGSYS, what)

    def test_the_server_connects_to_nobody(self):
        with tempfile.TemporaryDirectory() as folder, \
                FaultServer("--admin-socket", f"{folder}/admin", "--inspect-socket", f"{folder}/inspect",
                            "--metrics-port", 0, launcher=self.launcher) as server:
            server.learn()
            self.ask_everything(server)
            self.load_what_is_not_there(server, f"{folder}/admin")
            server.signal(signal.SIGHUP)
            server.signal(signal.SIGUSR1)
            server.check()
            self.assertEqual(server.stop(), 0)

    def ask_everything(self, server):
        for path in ("/live", "/ready", "/metrics", "/v1/models", "/nvllm/status", "/openapi.json", "/"):
            self.assertEqual(server.get(path, headers={"Referer": ELSEWHERE}).status, 200, path)
        picture = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": ELSEWHERE}}]}]
        self.assertEqual(server.post("/v1/chat/completions", {"messages": picture}).status, 400)
        for model in (ELSEWHERE, "organisation/model"):
            self.assertEqual(server.post("/v1/completions", {"prompt": "a", "model": model}).status, 404)
        server.complete(f"Look at {ELSEWHERE} and", max_tokens=4)
        server.chat(f"![picture]({ELSEWHERE})", max_tokens=4)
        server.stream("/v1/completions", {"prompt": "a", "max_tokens": 20, "user": ELSEWHERE})
        server.must(server.post("/v1/embeddings", {"input": [ELSEWHERE]}))
        server.must(server.post("/tokenize", {"prompt": ELSEWHERE}))
        with server.websocket("/v1/completions") as talk:
            self.assertTrue(talk.answers({"prompt": "a", "max_tokens": 4, "stream": True}))
        left = server.start_stream({"prompt": "a", "max_tokens": 1000, "ignore_eos": True})
        left.receive_until(b"data: ")
        left.reset()

    def load_what_is_not_there(self, server, socket):
        for path in ("organisation/model", "https://192.0.2.1/model", "/nowhere"):
            self.administer(socket, "load", {"name": "other", "path": path}, (404,))
        # What is there and no model is found out while it is read.
        with tempfile.TemporaryDirectory() as folder:
            self.administer(socket, "load", {"name": "other", "path": folder})
            wait_until(lambda: "model_failed" in server.get("/ready").text, 30.0, f"no model at {folder}")
            self.administer(socket, "unload", {"name": "other"})

    def administer(self, socket, what, body, statuses=(200, 202)):
        request = request_bytes("POST", f"/admin/models/{what}", {"Host": "x", "Content-Type": "application/json"},
                                json.dumps(body))
        with RawConnection(None, unix_socket=socket) as admin:
            self.assertIn(admin.send(request).answer().status, statuses)


if __name__ == "__main__":
    unittest.main()
