"""nvllm-bench serve against a server that is known to the last token."""

import json
import subprocess
import time
import unittest

from bench_testing import BAD_DATA, BENCH, UNAVAILABLE, USAGE, BenchTest, bench
from fake_openai import FIRST_S, GAP_S, FakeServer
from programs import DEMO, TIMEOUT_S, environment

SMALL = ("--num-prompts", 6, "--input-len", 8, "--output-len", 4)


class Serve(BenchTest):
    def serve(self, server, *arguments):
        return self.result("serve", "--base-url", server.url, *SMALL, *arguments)

    def test_counts_and_keys(self):
        with FakeServer() as server:
            result, table = self.serve(server, "--save-detailed", "--percentile-metrics", "ttft,tpot,itl,e2el",
                                       "--metric-percentiles", "50,99", "--metadata", "tag=x")
        self.assertEqual((result["completed"], result["failed"]), (6, 0))
        self.assertEqual((result["total_input_tokens"], result["total_output_tokens"]), (42, 24))
        self.assertEqual((result["model_id"], result["request_rate"], result["num_prompts"], result["tag"]),
                         ("fake/model", "inf", 6, "x"))
        for key in ("date", "endpoint_type", "backend", "label", "tokenizer_id", "burstiness", "max_concurrency",
                    "duration", "request_throughput", "request_goodput", "output_throughput",
                    "total_token_throughput", "max_output_tokens_per_s", "max_concurrent_requests", "environment"):
            self.assertIn(key, result)
        for metric in ("ttft", "tpot", "itl", "e2el"):
            for kind in ("mean", "median", "std", "p50", "p99"):
                self.assertIn(f"{kind}_{metric}_ms", result)
        for key in ("input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "generated_texts",
                    "errors"):
            self.assertEqual(len(result[key]), 6)
        self.assertEqual(result["generated_texts"], [" one two three four"] * 6)
        self.assertEqual([len(gaps) for gaps in result["itls"]], [3] * 6)
        # The server waits at least so long: what was measured may be more and never less.
        self.assertGreaterEqual(min(result["ttfts"]), FIRST_S)
        self.assertGreaterEqual(min(result["latencies"]), FIRST_S + 3 * GAP_S)
        self.assertRegex(table, r"^============ Serving Benchmark Result ============\n"
                                r"Successful requests:                     6         \n"
                                r"Failed requests:                         0         \n"
                                r"Benchmark duration \(s\): +[\d.]+ +\n"
                                r"Total input tokens:                      42        \n")
        self.assertIn("----------------End-to-end Latency----------------\n", table)

    def test_request_bodies(self):
        with FakeServer() as server:
            self.serve(server, "--extra-body", '{"top_k": 3}', "--header", "Authorization=Bearer x",
                       "--served-model-name", "alias")
        for path, body, headers in server.requests:
            self.assertEqual(path, "/v1/completions")
            self.assertEqual((body["model"], body["max_tokens"], body["stream"], body["ignore_eos"], body["top_k"]),
                             ("alias", 4, True, True, 3))
            self.assertIsInstance(body["prompt"], str)
            self.assertEqual(headers["Authorization"], "Bearer x")

    def test_adapters_are_models(self):
        with FakeServer() as server:
            self.serve(server, "--lora-modules", "a", "b", "--lora-assignment", "round-robin")
        self.assertEqual(sorted(body["model"] for _, body, _ in server.requests), ["a"] * 3 + ["b"] * 3)
        with FakeServer() as server:
            self.serve(server, "--model", "base", "--lora-modules", "a", "--lora-base-share", 1)
        self.assertEqual({body["model"] for _, body, _ in server.requests}, {"base"})

    def test_prompts_as_ids(self):
        with FakeServer() as server:
            result, _ = self.serve(server, "--send-token-ids")
            self.fails(USAGE, "serve", "--base-url", server.url, "--backend", "openai-chat", "--send-token-ids",
                       says=["--send-token-ids"])
        self.assertEqual(result["completed"], 6)
        self.assertEqual([len(body["prompt"]) for _, body, _ in server.requests], [8] * 6)

    def test_chat(self):
        with FakeServer() as server:
            result, _ = self.serve(server, "--backend", "openai-chat", "--save-detailed")
        self.assertEqual(result["completed"], 6)
        self.assertEqual(result["generated_texts"], [" one two three four"] * 6)
        self.assertEqual([len(gaps) for gaps in result["itls"]], [3] * 6)
        self.assertEqual({path for path, _, _ in server.requests}, {"/v1/chat/completions"})

    def test_concurrency_is_kept(self):
        with FakeServer() as server:
            result, table = self.serve(server, "--max-concurrency", 2)
        self.assertEqual((result["completed"], server.most_open), (6, 2))
        self.assertIn("Maximum request concurrency:             2", table)

    def test_rate_and_goodput(self):
        with FakeServer() as server:
            result, table = self.serve(server, "--request-rate", 40, "--goodput", "ttft:1", "--num-warmups", 2)
        self.assertEqual((result["request_rate"], result["request_goodput"], len(server.requests)), (40.0, 0.0, 8))
        self.assertIn("Request rate configured (RPS):           40.00", table)
        self.assertIn("Request goodput (req/s):                 0.00", table)
        with FakeServer() as server:
            result, _ = self.serve(server, "--goodput", "e2el:600000", "--ramp-up-strategy", "linear",
                                   "--ramp-up-start-rps", 20, "--ramp-up-end-rps", 60)
        self.assertEqual(result["request_goodput"], result["request_throughput"])

    def test_what_fails_is_counted(self):
        for model, failed, says in (("sometimes-500", 3, "out of order"), ("error-event", 6, "lost its weights"),
                                    ("closes-at-once", 6, ""), ("closes-midway", 6, ""), ("always-500", 6, "500"),
                                    ("broken-event", 6, "event"), ("unfinished", 6, "before it was finished"),
                                    ("hangs", 6, "")):
            with self.subTest(model), FakeServer() as server:
                path = self.folder / f"{model}.json"
                done = bench("serve", "--base-url", server.url, *SMALL, "--model", model, "--request-timeout-sec",
                             1 if model == "hangs" else 60, "--output-json", path, check=False)
                result = json.loads(path.read_text())
                self.assertEqual((result["completed"], result["failed"]), (6 - failed, failed), done.stderr)
                self.assertEqual(done.returncode, UNAVAILABLE if failed == 6 else 0, done.stderr)
                self.assertIn("a request failed: ", done.stderr)
                self.assertIn(says, done.stderr)

    def test_tokens_are_counted_where_the_server_does_not(self):
        with FakeServer() as server:
            result, _ = self.serve(server, "--model", "no-usage")
        self.assertEqual((result["completed"], result["total_input_tokens"]), (6, 48))
        self.assertGreaterEqual(result["total_output_tokens"], 24)

    def test_file_names(self):
        with FakeServer() as server:
            self.serve(server, "--save-result", "--result-dir", self.folder, "--max-concurrency", 3, "--request-rate",
                       50)
            for _ in range(2):
                self.serve(server, "--append-result", "--result-dir", self.folder, "--result-filename", "all.jsonl")
        names = [path.name for path in self.folder.iterdir() if path.name.startswith("openai")]
        self.assertEqual(len(names), 1)
        self.assertRegex(names[0], r"^openai-50\.0qps-concurrency3-model-\d{8}-\d{6}\.json$")
        self.assertEqual(len((self.folder / "all.jsonl").read_text().splitlines()), 2)

    def test_bad_input(self):
        self.fails(UNAVAILABLE, "serve", "--base-url", "http://127.0.0.1:1", says=["127.0.0.1:1"])
        for arguments, says in ((("--base-url", "https://x"), "http://"), (("--request-rate", "0"), "--request-rate"),
                                (("--percentile-metrics", "ttft,x"), "e2el"), (("--goodput", "itl:3"), "tpot"),
                                (("--metric-percentiles", "101"), "100"), (("--ramp-up-strategy", "linear"), "end-rps"),
                                (("--endpoint", "v1"), "--endpoint"), (("--dataset-name", "sonnet"), "random"),
                                (("--header", "x"), "KEY=VALUE"), (("--lora-base-share", "0.5"), "--lora-modules"),
                                (("--lora-modules", "a", "--lora-assignment", "random", "--lora-skew", "2"), "--lora-skew")):
            self.fails(USAGE, "serve", *arguments, says=[says])
        with FakeServer() as server:
            self.fails(BAD_DATA, "serve", "--base-url", server.url, *SMALL, "--extra-body", "{", says=["--extra-body"])

    def test_trace_against_a_server(self):
        trace = self.file("trace.jsonl", '{"timestamp": 0, "input_length": 30, "output_length": 2, "hash_ids": [1]}\n' * 3)
        with FakeServer() as server:
            result, _ = self.result("trace", trace, "--base-url", server.url)
        self.assertEqual((result["completed"], result["total_output_tokens"]), (3, 6))
        prompts = [body["prompt"] for _, body, _ in server.requests]
        self.assertEqual((len(prompts[0]), prompts[0], prompts[0]), (30, prompts[1], prompts[2]))

    def test_interrupt(self):
        with FakeServer() as server:
            path = self.folder / "result.json"
            child = subprocess.Popen([BENCH, "serve", "--base-url", server.url, "--max-concurrency", "1", "--input-len", "4",
                                      "--output-json", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     env=environment(NVLLM_MODEL=DEMO))
            while len(server.requests) < 3:  # two of them have ended
                time.sleep(0.05)
            child.send_signal(2)
            out, _ = child.communicate(timeout=TIMEOUT_S)
        self.assertEqual(child.returncode, 130)
        result = json.loads(path.read_text())
        self.assertTrue(result["partial"])
        self.assertGreaterEqual(result["completed"], 2)
        self.assertEqual((result["failed"], result["max_concurrent_requests"]), (0, 1))
        self.assertIn(b"PARTIAL", out)

    def test_interrupted_before_anything_was_answered(self):
        with FakeServer() as server:
            child = subprocess.Popen([BENCH, "serve", "--base-url", server.url, "--model", "hangs"],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(NVLLM_MODEL=DEMO))
            while not server.requests:
                time.sleep(0.05)
            child.send_signal(2)
            out, _ = child.communicate(timeout=TIMEOUT_S)
        self.assertEqual((child.returncode, out), (130, b""))


if __name__ == "__main__":
    unittest.main()
