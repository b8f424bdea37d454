"""Who may ask nvllm-serve for what: keys and their limits, whose cached prompts are whose, pages of other sites, and the
places for administration and metrics. Rows N8, N10 and K5 of the table of faults."""

import http.client
import json
import os
import pathlib
import signal
import socket
import stat
import tempfile
import unittest

from serve_testing import CANARY, ServedTestCase, Server, WebSocket, wait_until

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
ALICE, BOB, CAROL = "sk-alice-0123456789abcdef", "sk-bob-fedcba9876543210", "sk-carol-00112233"
PUBLIC = {"/", "/live", "/ready", "/health", "/ping", "/version", "/openapi.json"}
# What the official JavaScript client sends with every request.
STAINLESS = ("authorization,content-type,x-stainless-arch,x-stainless-lang,x-stainless-os,x-stainless-package-version,"
             "x-stainless-retry-count,x-stainless-runtime,x-stainless-runtime-version,x-stainless-timeout")
LONG_PROMPT = [0] + [400 + index % 700 for index in range(127)]


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


class KeyFile:
    """A file of keys that a server reads, and can be told to read again."""

    def __init__(self, *lines):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name, "keys.txt")
        self.write(*lines)

    def write(self, *lines):
        self.path.write_text("# who may ask\n\n" + "\n".join(lines) + "\n")


class KeyedTestCase(ServedTestCase):
    """A server with the keys of `keys`; tests ask with the first one unless they say otherwise."""

    keys = (f"alice:{ALICE}", f"bob:{BOB}")
    key = ALICE

    @classmethod
    def setUpClass(cls):
        cls.key_file = KeyFile(*cls.keys)
        cls.addClassCleanup(cls.key_file.folder.cleanup)
        cls.arguments = ("--api-key-file", cls.key_file.path)
        super().setUpClass()

    def ask(self, key, **more):
        return self.server.post(COMPLETIONS, {**CANARY, **more}, headers=bearer(key))

    def reload(self, *lines):
        self.key_file.write(*lines)
        before = len(self.server.lines)
        self.server.signal(signal.SIGHUP)
        return wait_until(lambda: [line for line in list(self.server.lines)[before:] if "keys" in line], what="a line about keys")[0]


class Keys(KeyedTestCase):
    def routes(self):
        """(method, path, whether the document says that anybody may) of every route."""
        document = self.server.get("/openapi.json", headers={"Authorization": None}).json()
        self.assertEqual(document["security"], [{"key": []}])
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                yield method.upper(), path.replace("{name}", "x"), operation.get("security") == []

    def test_N8_every_route_needs_a_key(self):
        routes = list(self.routes())
        self.assertEqual({path for _, path, is_open in routes if is_open}, PUBLIC)
        self.assertIn(("GET", "/metrics", False), routes)
        self.assertGreaterEqual(len(routes), 12)
        for method, path, is_open in routes:
            body = {} if method == "POST" else None
            for headers in ({"Authorization": None}, bearer("sk-wrong"), bearer("")):
                answer = self.server.request(method, path, body, headers)
                with self.subTest(path, headers=headers):
                    if is_open:
                        self.assertEqual(answer.status, 200)
                    elif path.startswith("/v1/messages"):  # the form of another API
                        self.assertEqual((answer.status, answer.json()["type"]), (401, "error"))
                        self.assertEqual(answer.error["type"], "authentication_error")
                    else:
                        error = self.assert_refused(answer, 401, "invalid_api_key")
                        self.assertEqual(error["type"], "authentication_error")
                        self.assertEqual(answer.headers["WWW-Authenticate"], "Bearer")
                        self.assertEqual(answer.headers["x-should-retry"], "false")
            if not is_open:
                self.assertNotEqual(self.server.request(method, path, body).status, 401)

    def test_N8_near_misses(self):
        wrong = [ALICE[:-1], ALICE + "0", ALICE[1:], ALICE.upper(), ALICE[:-1] + "0", ALICE + BOB, "alice:" + ALICE, "alice", "*",
                 " " + ALICE, f'"{ALICE}"', ALICE.replace("-", "_"), "%" + ALICE, "Bearer " + ALICE, "\u00e9", "\x00"]
        values = [f"Bearer {key}" for key in wrong if "\0" not in key]
        values += [ALICE, f"Basic {ALICE}", f"Bearer{ALICE}", f"Token {ALICE}", f"Bearer\t{ALICE}", "Bearer", "", f"Bearer {ALICE},{BOB}"]
        for value in values:
            with self.subTest(value):
                answer = self.server.post(COMPLETIONS, CANARY, headers={"Authorization": value.encode("utf-8")})
                self.assert_refused(answer, 401, "invalid_api_key")
        for headers in ({"X-Api-Key": ALICE + "0"}, {"Cookie": f"key={ALICE}"}, {"Proxy-Authorization": f"Bearer {ALICE}"}):
            answer = self.server.post(COMPLETIONS, CANARY, headers={"Authorization": None, **headers})
            self.assert_refused(answer, 401, "invalid_api_key")
        known = self.server.post(COMPLETIONS, CANARY, headers={"Authorization": None, "X-Api-Key": ALICE})
        self.assertEqual(known.status, 200)  # as clients of the Anthropic API send it
        for query in ("api_key", "key", "access_token", "Authorization"):
            answer = self.server.post(f"{COMPLETIONS}?{query}={ALICE}", CANARY, headers={"Authorization": None})
            self.assert_refused(answer, 401, "invalid_api_key")
        for value in (f"Bearer {ALICE}", f"bearer {ALICE}", f"BEARER {BOB}", f"Bearer {ALICE}  "):
            self.assertEqual(self.server.post(COMPLETIONS, CANARY, headers={"Authorization": value}).status, 200)

    def test_N8_websockets(self):
        for headers in ({}, bearer("sk-wrong")):
            with WebSocket(self.server.port, COMPLETIONS, headers) as refused:
                self.assert_refused(refused.upgrade, 401, "invalid_api_key")
        with self.server.websocket(COMPLETIONS) as opened:
            opened.send(CANARY)
            self.assertEqual(json.loads(opened.receive())["object"], "text_completion")

    def test_N8_the_key_is_said_nowhere(self):
        self.ask(ALICE[:-1])
        self.assertNotIn(ALICE[:-1], self.server.log)
        status = self.server.get("/nvllm/status").text
        self.assertFalse(any(key in status for key in (ALICE, BOB)))

    def cached(self, key, salt=None, prompt=None):
        more = {} if salt is None else {"cache_salt": salt}
        answer = self.ask(key, prompt=prompt or LONG_PROMPT, max_tokens=1, **more)
        return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    def test_K5_keys_and_salts_do_not_share_cached_prompts(self):
        """By count: what one has computed is never found by another, and always by itself."""
        askers = [(key, salt) for key in (ALICE, BOB) for salt in (None, "a", "b", "alice", "5:alice")]
        for number, (key, salt) in enumerate(askers):
            prompt = LONG_PROMPT[:-1] + [300]
            self.assertEqual(self.cached(key, salt, prompt), 0, askers[:number + 1])
            self.assertEqual(self.cached(key, salt, prompt), 112)
        # What is the same for both: a salt of "" is none.
        self.assertEqual(self.cached(ALICE, "", LONG_PROMPT[:-1] + [300]), 112)

    def test_K5_beginnings_of_keys_and_salts(self):
        """No name and salt together are another name and salt."""
        prompt = LONG_PROMPT[:-1] + [301]
        self.assertEqual(self.cached(ALICE, "bob", prompt), 0)
        for salt in ("alicebob", "5:alicebob", "icebob", "3:bob"):
            self.assertEqual(self.cached(BOB, salt, prompt), 0)


class Reloading(KeyedTestCase):
    keys = (f"alice:{ALICE} rpm=100000", f"bob:{BOB}", "tight:sk-tight rpm=2")

    def test_SIGHUP_reads_the_keys_again(self):
        self.assertEqual([self.ask(key).status for key in (ALICE, BOB, CAROL)], [200, 200, 401])
        self.reload(*self.keys[:1], *self.keys[2:], f"carol:{CAROL}")
        self.assertEqual([self.ask(key).status for key in (ALICE, BOB, CAROL)], [200, 401, 200])
        self.assertIn("keys.txt:3: 'rpm=x'", self.reload(f"alice:{ALICE} rpm=x"))
        self.assertEqual([self.ask(key).status for key in (ALICE, BOB, CAROL)], [200, 401, 200])
        self.key_file.path.unlink()
        self.assertIn("the old keys stay", self.reload_missing())
        self.assertEqual(self.ask(CAROL).status, 200)
        self.reload(*self.keys)

    def reload_missing(self):
        before = len(self.server.lines)
        self.server.signal(signal.SIGHUP)
        return wait_until(lambda: [line for line in list(self.server.lines)[before:] if "keys" in line])[0]

    def test_reading_again_gives_no_limit_back(self):
        self.assertEqual([self.ask("sk-tight").status for _ in range(3)], [200, 200, 429])
        self.reload(*self.keys)
        self.assertEqual(self.ask("sk-tight").status, 429)
        # A limit that was changed counts anew.
        self.reload(*self.keys[:2], "tight:sk-tight rpm=600")
        self.assertEqual(self.ask("sk-tight").status, 200)
        self.reload(*self.keys)


class Limits(KeyedTestCase):
    keys = (f"alice:{ALICE}", "few:sk-few rpm=3", "words:sk-words tpm=60", "one:sk-one concurrency=1")

    def assert_limited(self, answer, says):
        error = self.assert_refused(answer, 429, "rate_limit_exceeded", says=says)
        self.assertEqual(error["type"], "rate_limit_error")
        self.assertTrue(1 <= int(answer.headers["Retry-After"]) <= 60)
        self.assertNotIn("x-should-retry", answer.headers)

    def test_requests_a_minute(self):
        self.assertEqual([self.ask("sk-few").status for _ in range(3)], [200] * 3)
        for _ in range(3):
            self.assert_limited(self.ask("sk-few"), "3 requests a minute")
            self.assertEqual(self.ask(ALICE).status, 200)
        # Looking is free.
        self.assertEqual(self.server.get("/v1/models", headers=bearer("sk-few")).status, 200)

    def test_tokens_a_minute(self):
        self.assertEqual(self.ask("sk-words", max_tokens=100, ignore_eos=True).json()["usage"]["total_tokens"], 105)
        self.assert_limited(wait_until(lambda: self.ask("sk-words")), "60 tokens a minute")
        self.assertEqual(self.ask(ALICE).status, 200)

    def test_one_at_a_time(self):
        body = {**CANARY, "max_tokens": 1500, "ignore_eos": True, "stream": True}
        with self.server.raw() as stream:
            stream.send(self.server.raw_post(COMPLETIONS, body, bearer("sk-one")))
            self.assertEqual(stream.head().status, 200)
            stream.chunk()
            self.assert_limited(self.ask("sk-one"), "1 requests at once")
            self.assertEqual(self.ask(ALICE).status, 200)
        wait_until(lambda: self.ask("sk-one").status == 200, what="the place of a client that left")

    def test_one_after_the_other_is_never_too_many(self):
        connection = self.server.connection()
        self.assertEqual([self.server.post(COMPLETIONS, {**CANARY, "max_tokens": 1}, headers=bearer("sk-one"), connection=connection).status
                          for _ in range(60)], [200] * 60)
        self.assertEqual([self.server.post(COMPLETIONS, {**CANARY, "max_tokens": 2, "stream": True}, headers=bearer("sk-one"),
                                           connection=connection).status for _ in range(60)], [200] * 60)
        connection.close()


class Counts(KeyedTestCase):
    keys = (f"alice:{ALICE}", "few:sk-few rpm=2")

    def counts(self):
        lines = [line for line in self.server.get("/metrics").text.splitlines() if line.startswith("nvllm_key_")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    def test_requests_and_tokens_of_each_key(self):
        before = self.counts()
        self.assertEqual([self.ask("sk-few", max_tokens=3, ignore_eos=True).status for _ in range(3)], [200, 200, 429])
        self.server.must(self.server.post("/v1/embeddings", {"input": "Once upon a time"}, headers=bearer(ALICE)))
        grown = {name: value - before.get(name, 0) for name, value in self.counts().items()}
        self.assertEqual({name: value for name, value in grown.items() if value}, {
            'nvllm_key_requests_total{key="few"}': 2, 'nvllm_key_requests_refused_total{key="few"}': 1,
            'nvllm_key_tokens_total{key="few",kind="prompt"}': 10, 'nvllm_key_tokens_total{key="few",kind="generated"}': 6,
            'nvllm_key_requests_total{key="alice"}': 1, 'nvllm_key_tokens_total{key="alice",kind="prompt"}': 5})
        self.assertFalse([name for name in grown if ALICE in name or "sk-few" in name])


class Isolation(unittest.TestCase):
    def cached(self, server, **more):
        usage = server.complete(LONG_PROMPT, max_tokens=1, **more)["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"]

    def test_without_keys_only_salts_count(self):
        with Server() as server:
            self.assertEqual([self.cached(server), self.cached(server)], [0, 112])
            self.assertEqual([self.cached(server, cache_salt="a"), self.cached(server, cache_salt="a")], [0, 112])
            self.assertEqual([self.cached(server, cache_salt="b"), self.cached(server)], [0, 112])
            server.check()

    def test_several_keys_may_share_when_told_so(self):
        with Server("--api-key", ALICE, "--api-key", BOB, "--cache-isolation", "none", key=ALICE) as server:
            self.assertEqual(self.cached(server), 0)
            server.key = BOB
            self.assertEqual([self.cached(server), self.cached(server, cache_salt="a")], [112, 0])
            server.check()


class Senders(ServedTestCase):
    def test_N10_foreign_pages_and_names(self):
        for origin in ("https://evil.example", "http://127.0.0.1.evil.example", "null", "", "chrome-extension://abcdefgh",
                       f"http://evil.example:{self.server.port}"):
            for method, path, body in (("POST", COMPLETIONS, CANARY), ("GET", "/v1/models", None), ("OPTIONS", COMPLETIONS, None)):
                answer = self.server.request(method, path, body, {"Origin": origin})
                self.assert_refused(answer, 403, "forbidden_origin")
                self.assertFalse([name for name in answer.headers if name.lower().startswith("access-control")])
        for host in ("evil.example", f"evil.example:{self.server.port}", "127.0.0.1.evil.example", "", "[::2]", "localhost.evil"):
            answer = self.server.post(COMPLETIONS, CANARY, headers={"Host": host})
            self.assert_refused(answer, 403, "misdirected_request")
        for host in (f"localhost:{self.server.port}", "127.0.0.1", f"[::1]:{self.server.port}", "127.1.2.3:80"):
            self.assertEqual(self.server.post(COMPLETIONS, CANARY, headers={"Host": host}).status, 200, host)
        own = {"Origin": f"http://127.0.0.1:{self.server.port}"}
        self.assertEqual(self.server.post(COMPLETIONS, CANARY, headers=own).status, 200)

    def test_N10_websockets_of_foreign_pages(self):
        with self.server.websocket(COMPLETIONS, {"Origin": "https://evil.example"}) as refused:
            self.assert_refused(refused.upgrade, 403, "forbidden_origin")

    def test_N10_pages_and_programs_of_this_machine(self):
        for origin in ("http://localhost:5173", "http://127.0.0.1:3000", "http://[::1]:3000", "https://localhost", "file://", "tauri://localhost",
                       "app://obsidian.md", "vscode-webview://1a2b"):
            asked = self.server.request("OPTIONS", CHAT, None, {"Origin": origin, "Access-Control-Request-Method": "POST",
                                                                "Access-Control-Request-Headers": STAINLESS})
            self.assertEqual((asked.status, asked.headers["Access-Control-Allow-Origin"]), (204, origin))
            self.assertEqual(asked.headers["Access-Control-Allow-Headers"], STAINLESS)
            answer = self.server.post(COMPLETIONS, CANARY, headers={"Origin": origin})
            self.assertEqual((answer.status, answer.headers["Access-Control-Allow-Origin"]), (200, origin))
            with self.server.websocket(COMPLETIONS, {"Origin": origin}) as opened:
                self.assertEqual(opened.upgrade.status, 101)
                self.assertEqual(opened.upgrade.headers["Server"], "nvllm-serve")
        with Server("--no-local-origins") as server:
            answer = server.post(COMPLETIONS, CANARY, headers={"Origin": "http://localhost:5173"})
            self.assert_refused(answer, 403, "forbidden_origin", says="--allowed-origins 'http://localhost:5173'")
            own = {"Origin": f"http://localhost:{server.port}", "Host": f"127.0.0.1:{server.port}"}
            self.assertEqual(server.post(COMPLETIONS, CANARY, headers=own).status, 200)

    def test_N10_upgrades_that_are_not_right(self):
        for fields, status in (({"Sec-WebSocket-Version": "12"}, 426), ({"Sec-WebSocket-Key": "x"}, 400), ({"Connection": "close"}, 400)):
            with self.server.websocket(COMPLETIONS, fields) as refused:
                self.assert_refused(refused.upgrade, status, "bad_upgrade")
                self.assertNotIn("Server", refused.upgrade.headers)

    def test_N10_allowed_pages_and_names(self):
        page = "https://chat.example"
        with Server("--allowed-origins", "https://*.example", "--allowed-hosts", "llm.example", "--api-key", ALICE, key=ALICE) as server:
            asked = server.request("OPTIONS", COMPLETIONS, None, {
                "Origin": page, "Access-Control-Request-Method": "POST", "Authorization": None})
            self.assertEqual((asked.status, asked.body), (204, b""))
            self.assertEqual(asked.headers["Access-Control-Allow-Origin"], page)
            self.assertIn("POST", asked.headers["Access-Control-Allow-Methods"])
            self.assertIn("Authorization", asked.headers["Access-Control-Allow-Headers"])
            for answer in (server.post(COMPLETIONS, CANARY, headers={"Origin": page, "Host": "llm.example"}),
                           server.post(COMPLETIONS, {**CANARY, "stream": True}, headers={"Origin": page}),
                           server.post(COMPLETIONS, b"{", headers={"Origin": page}),
                           server.get("/nope", headers={"Origin": page})):
                self.assertEqual(answer.headers["Access-Control-Allow-Origin"], page, answer)
                self.assertIn("Origin", answer.headers["Vary"])
            refused = server.post(COMPLETIONS, CANARY, headers={"Origin": "https://chat.evil"})
            self.assert_refused(refused, 403, "forbidden_origin")
            self.assertNotIn("Access-Control-Allow-Origin", refused.headers)
            server.check()


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


class Places(unittest.TestCase):
    """The administration's socket and the metrics' port."""

    def test_administration(self):
        keys = KeyFile(f"alice:{ALICE}")
        with keys.folder as folder:
            path = pathlib.Path(folder, "admin.sock")
            with Server("--api-key-file", keys.path, "--admin-socket", path, key=ALICE) as server:
                self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)

                def ask(method, route, body=None):
                    connection = UnixConnection(path)
                    answer = server.request(method, route, body, {"Authorization": None}, connection)
                    connection.close()
                    return answer

                self.assertEqual(ask("GET", "/ready").status, 200)
                self.assertEqual(ask("POST", COMPLETIONS, CANARY).status, 200)
                for method, route in (("POST", "/admin/keys/reload"), ("GET", "/admin/state"), ("POST", "/admin/drain")):
                    self.assertEqual(server.request(method, route).status, 404)
                self.assertEqual(server.get("/openapi.json").text.count("/admin"), 0)
                keys.write(f"alice:{ALICE}", f"bob:{BOB}")
                self.assertEqual(ask("POST", "/admin/keys/reload").json(), {"status": "reloaded", "keys": 2})
                self.assertEqual(server.get("/v1/models", headers=bearer(BOB)).status, 200)
                self.assertIsInstance(ask("GET", "/admin/state").json(), list)
                self.assertEqual(ask("POST", "/admin/cache/resize", {"share": 0.5}).status, 200)
                self.assertEqual(ask("POST", "/admin/cache/resize", {"share": 2}).status, 400)
                self.assertEqual(ask("POST", "/admin/cache/resize", {"share": "x"}).status, 400)
                self.assert_resets_the_cache(server, ask)
                server.check()
                self.assertEqual(ask("POST", "/admin/drain").json(), {"status": "draining"})
                self.assertEqual(server.wait(60), 0)
            self.assertFalse(path.exists())

    def assert_resets_the_cache(self, server, ask):
        def cached_tokens():
            usage = server.complete("Once upon a time there was a cat. " * 12, max_tokens=1)["usage"]
            return usage["prompt_tokens_details"]["cached_tokens"]
        cached_tokens()
        self.assertGreater(cached_tokens(), 16)
        reset = ask("POST", "/reset_prefix_cache").json()
        self.assertEqual((reset["status"], reset["blocks_in_use"]), ("reset", 0))
        self.assertGreater(reset["blocks_removed"], 0)
        self.assertEqual(cached_tokens(), 0)
        self.assertEqual(ask("POST", "/reset_prefix_cache?model=x").status, 404)
        self.assertEqual(server.request("POST", "/reset_prefix_cache").status, 404)

    def test_metrics_port(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with Server("--metrics-port", port, "--api-key", ALICE, key=ALICE) as server:
            def ask(method, route):
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                answer = server.request(method, route, None, {"Authorization": None}, connection)
                connection.close()
                return answer

            for route in ("/metrics", "/live", "/ready", "/health", "/version"):
                self.assertEqual(ask("GET", route).status, 200)
            for method, route in (("GET", "/v1/models"), ("POST", COMPLETIONS), ("GET", "/nvllm/status"), ("GET", "/openapi.json")):
                self.assertEqual(ask(method, route).status, 404)
            self.assertEqual(server.get("/metrics", headers={"Authorization": None}).status, 401)
            server.check()

    def test_open_addresses_need_a_key(self):
        with self.assertRaisesRegex(AssertionError, "ended with 64(.|\n)*--api-key-file"):
            Server("--host", "0.0.0.0")


if __name__ == "__main__":
    unittest.main()
