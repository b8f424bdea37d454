"""Options of nvllm-serve that decide what it takes and says, each by its effect."""

import pathlib
import subprocess
import tempfile
import threading
import unittest

from programs import BIN, DEMO, SOURCE, TIMEOUT_S, environment
from serve_testing import ServedTestCase, Server, wait_until

# A step of the metronome takes a while, so that requests are under way when they are looked at.
SLOW = ("--load-format", "metronome")


class NoStreamingTest(ServedTestCase):
    arguments = ("--no-streaming",)

    def test_streams_are_refused_and_whole_answers_are_not(self):
        for path, body in (("/v1/completions", {"prompt": "Once"}),
                           ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}]})):
            answer = self.server.post(path, {**body, "stream": True, "max_tokens": 2})
            self.assert_refused(answer, 400, "unsupported_parameter", "stream", says="--no-streaming")
            self.assertEqual(self.server.post(path, {**body, "stream": False, "max_tokens": 2}).status, 200)


class ConcurrencyTest(unittest.TestCase):
    def test_requests_running_and_waiting_are_counted_together(self):
        with Server("--max-concurrent-requests", 2, "--max-num-seqs", 1, *SLOW) as server:
            held = [threading.Thread(target=server.complete, kwargs={"max_tokens": 400, "ignore_eos": True})
                    for _ in range(2)]
            for thread in held:
                thread.start()
            wait_until(lambda: server.status()["calls"]["open"] == 2, what="two requests under way")
            wait_until(lambda: server.status()["requests"]["running"] == 1, what="one of them running")
            refused = server.post("/v1/completions", {"prompt": "x", "max_tokens": 1})
            self.assertEqual((refused.status, refused.error["code"]), (429, "queue_full"))
            self.assertIn("2 requests run or wait already, and at most 2 may", refused.error["message"])
            self.assertIsNotNone(refused.headers["Retry-After"])
            for thread in held:
                thread.join()
            server.complete(max_tokens=1)
            server.check()

    def test_a_request_of_several_prompts_is_one(self):
        with Server("--max-concurrent-requests", 1) as server:
            answer = server.complete(["a", "b", "c"], max_tokens=2)
            self.assertEqual(len(answer["choices"]), 3)


class AlertTest(unittest.TestCase):
    def test_a_rule_warns_once_when_it_begins_to_hold_and_says_when_it_is_over(self):
        rule = "nvllm_requests_in_flight > 1"
        with Server("--alert-rules", rule, "--max-num-seqs", 4, *SLOW) as server:
            held = [threading.Thread(target=server.complete, kwargs={"max_tokens": 1500, "ignore_eos": True})
                    for _ in range(2)]
            for thread in held:
                thread.start()
            wait_until(lambda: f"alert: {rule} (it is 2)" in server.log, what="the warning")
            for thread in held:
                thread.join()
            wait_until(lambda: f"alert over: {rule} (it is 0)" in server.log, what="the end of the alert")
            self.assertEqual(server.log.count("alert:"), 1)


class NeighboursFlagsTest(unittest.TestCase):
    def check(self, *arguments):
        return subprocess.run([str(BIN / "nvllm-serve"), "-m", DEMO, *arguments, "--check-config"], capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, env=environment())

    def test_flags_of_vllm_are_taken_or_said_to_do_nothing(self):
        for arguments, says in (
                (("--trust-remote-code",), "--trust-remote-code does nothing here"), (("-tp", "2"), ""),
                (("--dtype", "half"), ""), (("--seed", "7"), "--seed does nothing here"), (("--max-model-len", "-1"), "nothing"),
                (("--disable-log-requests",), ""), (("--tool-call-parser", "hermes"), ""), (("--reasoning-parser", "qwen3"), ""),
                (("--enable-auto-tool-choice",), "--enable-auto-tool-choice does nothing here"), (("--revision", "main"), ""), (("--generation-config", "vllm"), ""),
                (("--override-generation-config", '{"temperature": 0.5}'), ""), (("--tokenizer", DEMO), ""),
                (("--speculative-config", '{"method": "ngram"}'), ""),
                (("--served-model-name", "a", "b"), ""), (("--enable-lora", "--max-loras", "4"), ""), (("--max_num_seqs", "4"), ""), (("-dp", "2"), ""),
                (("--hf-token", "s3cret"), "--hf-token does nothing here")):
            done = self.check(*arguments)
            self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), f"{arguments}: {done.stderr}")
            self.assertIn(says, done.stderr)
            self.assertNotIn("s3cret", done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1 if says else 0, done.stderr)

    def test_flags_of_vllm_are_refused_with_the_reason(self):
        for arguments, says in (
                (("--lora-dtype", "bfloat16"), "as they are stored"), (("-dpl", "2"), "all replicas of this server"),
                (("--quantization", "hqq"), "are not read"), (("--quantization", "gptq"), "is not quantized"),
                (("--tool-server", "demo"), "clients run the tools"), (("--speculative-config", '{"method": "medusa"}'), "medusa"),
                (("-ngl", "99"), "--device"), (("--max-loras", "4"), "--enable-lora, --lora-modules or --lora-dir is missing")):
            done = self.check(*arguments)
            self.assertEqual(done.returncode, 64, f"{arguments}: {done.stderr}")
            self.assertIn(says, done.stderr)
            self.assertNotIn("did you mean", done.stderr)

    def test_both_names_and_the_defaults_that_were_asked_for(self):
        with Server("--served-model-name", "one", "two", "--generation-config", "vllm",
                    "--override-generation-config", '{"temperature": 0}', "--swap-space", "0.001", model=DEMO) as server:
            self.assertEqual([model["id"] for model in server.must(server.get("/v1/models"))["data"]], ["one", "two"])
            texts = {server.complete(model=name, max_tokens=12)["choices"][0]["text"] for name in ("one", "two", "one")}
            self.assertEqual(len(texts), 1)
            self.assertIn("0.001 counts GiB", server.log)


class FileTest(unittest.TestCase):
    def test_one_file_names_the_model_and_limits_it(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "serve.yaml"
            path.write_text(f"""\
model: {{name: small, path: {SOURCE / "models/demo-draft"}, precision: fp32, quantization: auto}}
gpu: {{memory_limit: 64MiB, utilization_target: 0.5, temperature_alert: 85}}
scheduler: {{batch_size: 3, token_budget: 64, policy: sjf, max_wait_time: 10}}
cache: {{block_size: 16KB, max_blocks: 700, defrag_threshold: 0.5}}
api: {{max_concurrent_requests: 5, timeout: 100, streaming: true, api-key: secret}}
monitoring: {{metrics_port: 0, log_level: info, alert_rules: [nvllm_requests_in_flight > 100]}}
""")
            with Server("--config", path, model=None, key="secret") as server:
                models = server.must(server.get("/v1/models"))["data"]
                self.assertEqual([model["id"] for model in models], ["small"])
                status = server.status()
                self.assertEqual(status["limits"]["max-concurrent-requests"], "5")
                self.assertEqual(status["limits"]["request-timeout"], "100")
                self.assertLessEqual(status["kv_cache"]["blocks_total"], 700)
                server.complete(model="small", max_tokens=3)


if __name__ == "__main__":
    unittest.main()
