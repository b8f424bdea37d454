"""What nvllm-serve says of its requests and of itself in the log, and what it keeps to itself: keys."""

import json
import os
import pathlib
import re
import signal
import tempfile
import unittest

from programs import children, environment, wait_until
from serve_testing import CANARY, Server

COMPLETIONS = "/v1/completions"
ALICE = "sk-alice-0123456789abcdef"
LONGEST_LINE = 48 * 1024  # what systemd's journal takes as one


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


class RequestLines(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.keys = pathlib.Path(folder.name, "keys.txt")
        self.keys.write_text(f"alice:{ALICE}\nfew:sk-few rpm=1\n")

    def lines_of(self, server, path):
        return [line for line in list(server.lines) if f"POST {path} " in line]

    def test_as_fields_of_json(self):
        with Server("--log-requests", "--log-format", "json", "--api-key-file", self.keys, key=ALICE) as server:
            streamed = {**CANARY, "stream": True}
            for body, key in ((CANARY, ALICE), (streamed, ALICE), (CANARY, "sk-few"), (CANARY, "sk-few"), (CANARY, "sk-none"),
                              ({**CANARY, "top_p": 7}, ALICE), ({**CANARY, "model": "x"}, ALICE)):
                server.post(COMPLETIONS, body, headers={**bearer(key), "X-Request-Id": "mine"})
            server.post("/v1/embeddings", {"input": "Once"})
            wait_until(lambda: len(self.lines_of(server, "/v1/embeddings")) == 1)
            lines = [json.loads(line) for line in self.lines_of(server, COMPLETIONS)]
            embedded, = (json.loads(line) for line in self.lines_of(server, "/v1/embeddings"))
            log = server.log
        tokens = {"prompt_tokens": 5, "generated_tokens": 12}
        for line, expected in zip(lines, (
                {"status": 200, "model": "models/demo", "key": "alice", **tokens}, {"status": 200, "key": "alice", **tokens},
                {"status": 200, "key": "few", **tokens}, {"status": 429, "key": "few", "error": "rate_limit_exceeded"},
                {"status": 401, "error": "invalid_api_key"}, {"status": 400, "error": "invalid_request_error", "param": "top_p"},
                {"status": 404, "error": "model_not_found", "param": "model"}), strict=True):
            expected.pop("model", None)
            self.assertEqual({name: line.get(name) for name in expected}, expected, line)
            self.assertTrue(line["request_id"].startswith("mine"), line)
            self.assertEqual((line["method"], line["path"], line["level"]), ("POST", COMPLETIONS, "info"))
            self.assertGreater(line["bytes"], 0)
            self.assertEqual("prompt_tokens" in line, line["status"] == 200)
            self.assertEqual("error" in line, line["status"] != 200)
        self.assertTrue(lines[0]["model"].endswith("demo"), lines[0])
        self.assertEqual((embedded["prompt_tokens"], embedded["generated_tokens"]), (2, 0))
        for secret in (ALICE, "sk-few", "Once upon"):
            self.assertNotIn(secret, log)

    def test_as_text(self):
        with Server("--log-requests", "--api-key-file", self.keys, key=ALICE) as server:
            server.post(COMPLETIONS, CANARY)
            server.post(COMPLETIONS, {**CANARY, "model": "a b"})
            wait_until(lambda: len(self.lines_of(server, COMPLETIONS)) == 2)
            good, bad = self.lines_of(server, COMPLETIONS)
        self.assertRegex(good, r"info POST /v1/completions 200 [0-9.]+ s \d+ bytes request_id=\S+ model=\S+ key=alice "
                               r"prompt_tokens=5 cached_tokens=\d+ generated_tokens=12$")
        self.assertRegex(bad, r"404 [0-9.]+ s \d+ bytes request_id=\S+ key=alice error=model_not_found param=model$")


class OfItself(unittest.TestCase):
    def test_rates_of_a_model_that_is_at_work(self):
        with Server("--log-stats-interval", "0.2", "--log-format", "json") as server:
            server.complete(max_tokens=200, ignore_eos=True)
            found = wait_until(lambda: [json.loads(line) for line in list(server.lines) if "generated_tokens_per_s" in line])
        self.assertGreater(sum(line["generated_tokens_per_s"] for line in found), 0)
        self.assertEqual({"model", "running", "waiting", "kv_cache_usage", "prefix_cache_hit_rate"} - set(found[0]), set())
        with Server("--log-stats-interval", "0.05") as server:
            wait_until(lambda: server.get("/ready").status == 200)
            server.check()
            wait_until(lambda: "tokens/s" in server.log)
            idle = len(server.lines)
            for _ in range(20):
                server.get("/live")
            wait_until(lambda: server.is_idle())
            # At most the rest of what was computed is told; an idle server is silent.
            self.assertLessEqual(len(server.lines), idle + 2)

    def test_books_come_in_lines_that_a_journal_takes(self):
        with Server() as server:
            for number in range(60):
                server.complete([number + 30] * 400, max_tokens=1)
            server.signal(signal.SIGUSR1)
            part = re.compile(r"state of (\S+), part (\d+) of (\d+): (.*)")

            def parts():
                found = [part.search(line) for line in list(server.lines)]
                found = [match for match in found if match]
                return found if found and len(found) == int(found[0][3]) else None

            found = wait_until(parts)
            self.assertGreater(len(found), 1)
            self.assertEqual([int(match[2]) for match in found], list(range(1, len(found) + 1)))
            self.assertLess(max(len(line.encode()) for line in server.lines), LONGEST_LINE)
            self.assertIn("scheduler", json.loads("".join(match[4] for match in found)))

    def test_who_scrapes_is_told_of_the_key(self):
        needs = "GET /metrics needs a key"
        for arguments, is_told in ((("--api-key", ALICE), True), (("--api-key", ALICE, "--metrics-without-key"), False), ((), False)):
            with Server(*arguments, key=ALICE) as server:
                wait_until(lambda: "ready at" in server.log)
                server.get("/live")
                self.assertEqual(needs in server.log, is_told, arguments)
                scraped = server.get("/metrics", headers={"Authorization": None}).status
                self.assertEqual(scraped, 401 if is_told else 200)

    def test_a_key_of_the_environment_stays_in_no_environment(self):
        with Server(env=environment(NVLLM_API_KEY=ALICE), key=ALICE) as server:
            self.assertEqual(server.get("/v1/models", headers={"Authorization": None}).status, 401)
            self.assertEqual(server.get("/v1/models").status, 200)
            workers = children(server.pid)
            self.assertTrue(workers)
            for process in (server.pid, *workers):
                self.assertNotIn(ALICE.encode(), pathlib.Path(f"/proc/{process}/environ").read_bytes())
            # Reading the keys again needs no environment.
            server.signal(signal.SIGHUP)
            wait_until(lambda: "1 keys are known" in server.log)
            self.assertEqual(server.get("/v1/models").status, 200)


if __name__ == "__main__":
    unittest.main()
