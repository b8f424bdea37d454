"""The example proxies in deploy/proxy before real servers: spread, shares, streams, WebSocket, and a server that drains
under load. Run by scripts/check_proxies.sh, which installs nginx and HAProxy; not one of the tests that run on every
change."""

import collections
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from fault_testing import metronome_ids, plain_prompt, plain_text
from programs import SOURCE, TIMEOUT_S, environment
from serve_testing import RawConnection, Server, WebSocket, events_of, joined_text, wait_until

PROXY_FILES = SOURCE / "deploy" / "proxy"
NOBODY = 65534


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def replaced(text, changes):
    for old, new in changes.items():
        if old not in text:
            raise AssertionError(f"'{old}' is not in the example")
        text = text.replace(old, new)
    return text


class Proxy:
    """An example's file with other ports and paths, run by a user without rights."""

    def __init__(self, kind, servers, canary=False):
        self.port = free_port()
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.folder.chmod(0o777)
        one, two, three = servers
        changes = {"127.0.0.1:8001": f"127.0.0.1:{one}", "127.0.0.1:8002": f"127.0.0.1:{two}",
                   "127.0.0.1:8003": f"127.0.0.1:{three}"}
        if kind == "nginx":
            changes |= {"listen 8080": f"listen 127.0.0.1:{self.port}", "/tmp/": f"{self.folder}/",
                        "/run/": f"{self.folder}/"}
            if not canary:
                changes["        10% nanovllm_next;\n"] = ""
            name, command = "nginx.conf", ["nginx", "-e", "stderr", "-g", "daemon off;", "-c"]
        else:
            changes |= {"bind :8080": f"bind 127.0.0.1:{self.port}", "/run/haproxy/": f"{self.folder}/"}
            if not canary:
                changes["rand(100) lt 10"] = "rand(100) lt 0"
            name, command = "haproxy.cfg", ["haproxy", "-db", "-f"]
        file = self.folder / name
        file.write_text(replaced((PROXY_FILES / name).read_text(), changes))
        as_nobody = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        path = {"PATH": os.environ["PATH"] + ":/usr/sbin"}
        self.log = open(self.folder / "log", "w+", encoding="utf-8")
        self.process = subprocess.Popen([*command, str(file)], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        env=environment(**path), **as_nobody)
        wait_until(self.is_ready, 20, "the proxy")

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError((self.folder / "log").read_text())
        try:
            return self.request("GET", "/ready")[0] == 200
        except ConnectionError:
            return False

    def request(self, method, path, body=None, headers=None):
        """Status and body, over a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        try:
            fields = {"Content-Type": "application/json", **(headers or {})}
            connection.request(method, path, None if body is None else json.dumps(body), fields)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def complete(self, max_tokens=1, **more):
        """(status, who answered)."""
        status, body = self.request("POST", "/v1/completions", {"prompt": "Hello", "max_tokens": max_tokens}, **more)
        return status, json.loads(body).get("model") if status == 200 else body

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(TIMEOUT_S)
        self.log.close()
        shutil.rmtree(self.folder)


def metronome(name, interval_ms=2):
    """A server whose answers say its name, a token each `interval_ms`."""
    return Server("--load-format", "metronome", "--served-model-name", name, "--max-num-seqs", 64,
                  env=environment(NVLLM_METRONOME_MS=str(interval_ms)))


class ProxyTests:
    kind = None

    def start(self, interval_ms=2, canary=False):
        self.one, self.two = metronome("one", interval_ms), metronome("two", interval_ms)
        self.addCleanup(self.one.stop)
        self.addCleanup(self.two.stop)
        ports = (self.one.port, self.one.port, self.two.port) if canary else (self.one.port, self.two.port, self.two.port)
        proxy = Proxy(self.kind, ports, canary)
        self.addCleanup(proxy.close)
        return proxy

    def report(self, what):
        print(f"{self.kind}: {what}", flush=True)

    def test_requests_spread(self):
        proxy = self.start()
        counts = collections.Counter(proxy.complete() for _ in range(200))
        self.report(f"200 requests one after the other: {dict(counts)}")
        self.assertEqual(set(counts), {(200, "one"), (200, "two")})
        self.assertGreater(min(counts.values()), 60)

    def test_the_least_loaded_is_asked(self):
        proxy = self.start(interval_ms=20)
        clients = [RawConnection(proxy.port) for _ in range(16)]
        for client in clients:
            self.addCleanup(client.close)
            client.send(self.one.raw_post("/v1/completions", {"prompt": "Hello", "max_tokens": 100}))
        loads = wait_until(lambda: sum(both := [server.status()["requests"]["running"] for server in (self.one, self.two)])
                           == 16 and both, 20, "16 requests running")
        self.report(f"16 requests at once: {loads}")
        self.assertEqual(loads, [8, 8])
        for client in clients:
            self.assertEqual(client.answer().status, 200)

    def test_a_canary_gets_its_share(self):
        proxy = self.start(canary=True)
        counts = collections.Counter(proxy.complete(headers={"Authorization": f"Bearer client-{number}"})
                                     for number in range(1000))
        self.report(f"1000 requests, 10 % for the next version: {dict(counts)}")
        self.assertEqual(sum(counts[200, name] for name in ("one", "two")), 1000)
        # Four and a half standard deviations of a binomial distribution.
        self.assertTrue(57 <= counts[200, "two"] <= 143, counts)

    def test_streams_arrive_in_pieces(self):
        proxy = self.start(interval_ms=50)
        with RawConnection(proxy.port) as client:
            client.send(self.one.raw_post("/v1/completions", {"prompt": plain_prompt(1), "max_tokens": 20, "stream": True}))
            self.assertEqual(client.head().status, 200)
            arrivals, body = [], b""
            while piece := client.chunk():
                arrivals.append(time.monotonic())
                body += piece
        self.assertEqual(events_of(body)[-1], "[DONE]")
        gaps = [later - earlier for earlier, later in zip(arrivals, arrivals[1:])]
        apart = sum(gap > 0.02 for gap in gaps)
        self.report(f"20 tokens at 50 ms: {len(arrivals)} pieces over {arrivals[-1] - arrivals[0]:.2f} s")
        self.assertGreaterEqual(apart, 15)

    def test_websocket(self):
        proxy = self.start()
        with WebSocket(proxy.port, "/v1/completions") as client:
            self.assertEqual(client.upgrade.status, 101)
            for _ in range(2):
                chunks = client.answers({"prompt": plain_prompt(1), "max_tokens": 5, "stream": True})
                self.assertEqual(joined_text(chunks), plain_text(metronome_ids(plain_prompt(1), 5)))

    def test_what_is_for_the_inside_stays_there(self):
        proxy = self.start()
        for path in ("/metrics", "/nvllm/status"):
            self.assertEqual(proxy.request("GET", path)[0], 404)
        self.assertEqual(proxy.request("GET", "/v1/models")[0], 200)

    def test_a_server_that_drains_loses_no_request(self):
        proxy = self.start(interval_ms=5)
        answers, faults, lock, ends = [], [], threading.Lock(), threading.Event()

        def client():
            while not ends.is_set():
                try:
                    answer = proxy.complete(max_tokens=20)
                except (OSError, http.client.HTTPException) as fault:
                    answer = (0, repr(fault))
                with lock:
                    (answers if answer[0] == 200 else faults).append(answer)

        clients = [threading.Thread(target=client) for _ in range(8)]
        for one in clients:
            one.start()
        wait_until(lambda: len(answers) >= 100, what="load")
        begun = wait_until(lambda: self.two.status()["requests"]["running"], what="requests on the server that ends")
        with self.two.raw() as stream:  # makes the drain last, while the proxy still takes the server for a good one
            stream.send(self.two.raw_post("/v1/completions", {"prompt": plain_prompt(1), "max_tokens": 500, "stream": True}))
            self.assertEqual(stream.head().status, 200)
            self.two.signal(signal.SIGTERM)
            body = b"".join(iter(stream.chunk, b""))
            self.assertEqual(events_of(body)[-1], "[DONE]")
        self.assertEqual(self.two.wait(), 0)
        after = len(answers)
        wait_until(lambda: len(answers) >= after + 100, what="load without it")
        ends.set()
        for one in clients:
            one.join()
        counts = collections.Counter(name for _, name in answers)
        self.report(f"a server ended under load, {begun} requests on it: {dict(counts)}, {len(faults)} lost")
        self.assertEqual(faults, [])
        self.assertGreater(counts["two"], 20)
        self.assertEqual({name for _, name in answers[after + 8:]}, {"one"})

    def test_nobody_there(self):
        proxy = self.start()
        self.one.stop()
        self.two.stop()
        status, _ = proxy.request("GET", "/v1/models")
        self.assertIn(status, (502, 503))


class NginxTest(ProxyTests, unittest.TestCase):
    kind = "nginx"


class HaproxyTest(ProxyTests, unittest.TestCase):
    kind = "haproxy"


if __name__ == "__main__":
    unittest.main()
