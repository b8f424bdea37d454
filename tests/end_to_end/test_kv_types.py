"""Key-value caches of one byte a value: the same answers every way within a type, half the memory, and what is said of them."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from programs import BIN, DEMO, MODULES, SOURCE, environment, run, run_jsonl
from test_equality import essence, requests

LLAMA = SOURCE / "tests" / "fixtures" / "families" / "llama"
TYPES = ("fp8", "int8")
USAGE, UNAVAILABLE = 64, 69


def bytes_per_token(dtype):
    """As the memory plan says it."""
    plan = run("-m", DEMO, "--plan", "--kv-cache-dtype", dtype).stdout
    return int(re.search(r"tokens of (\d+) B", plan)[1])


class KvTypes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.requests = requests(16 if os.environ.get("NVLLM_SANITIZED") else 32)
        cls.plain = essence(run_jsonl(cls.requests))

    def answers(self, dtype, *arguments, made=None):
        return essence(run_jsonl(made or self.requests, "--kv-cache-dtype", dtype, *arguments))

    def test_the_same_answers_every_way(self):
        for dtype in TYPES:
            with self.subTest(dtype=dtype):
                expected = self.answers(dtype)
                self.assertNotEqual(expected, self.plain)  # the cache is indeed another
                self.assertEqual(self.answers(dtype, made=[self.requests[5]])[0], expected[5])
                for ways in (("--prefill-chunk-size", "7"), ("--block-size", "1"), ("--max-num-seqs", "1", "--threads", "1"),
                             ("--no-enable-prefix-caching", "--isolation", "process")):
                    self.assertEqual(self.answers(dtype, *ways), expected, ways)

    def test_sequences_that_give_way(self):
        made = [dict(request, max_tokens=150 + 5 * index) for index, request in enumerate(self.requests[:12])]
        for dtype in TYPES:
            expected = self.answers(dtype, made=made)
            for mode in ("swap", "recompute"):
                with self.subTest(dtype=dtype, mode=mode), tempfile.TemporaryDirectory() as folder:
                    log = pathlib.Path(folder) / "steps.jsonl"
                    tight = ("--max-blocks", "48", "--block-size", "16", "--max-model-len", "512", "--swap-space", "4MiB",
                             "--preemption-mode", mode, "--defrag-threshold", "0.2", "--step-log", log)
                    self.assertEqual(self.answers(dtype, *tight, made=made), expected)
                    steps = [json.loads(line) for line in log.read_text().splitlines()]
                    self.assertGreater(steps[-1]["num_preemptions"], 0)
                    self.assertEqual(sum(step["swapped_bytes"] for step in steps) > 0, mode == "swap")

    def test_emulated_kernels_give_the_ids_of_the_cpu(self):
        if not (MODULES / "libnanovllm_cuda_emulated.so").exists():
            self.skipTest("this build has no emulated kernels")
        env = environment(NVLLM_BACKEND_PATH=str(MODULES))
        made = [{"prompt_token_ids": [5 + index * token % 50 for token in range(9 + 20 * index)], "max_tokens": 4, "ignore_eos": True,
                 "temperature": 0.0} for index in range(3)]
        for dtype in TYPES:
            with self.subTest(dtype=dtype):
                ways = ("--dtype", "float32", "--kv-cache-dtype", dtype)
                expected = [answer["token_ids"] for answer in run_jsonl(made, *ways, model=str(LLAMA))]
                answers = run_jsonl(made, *ways, "--device", "cuda_emulated", model=str(LLAMA), env=env)
                self.assertEqual([answer["token_ids"] for answer in answers], expected)

    def test_memory(self):
        config = json.loads((pathlib.Path(DEMO) / "config.json").read_text())
        heads = 2 * config["num_hidden_layers"] * config["num_key_value_heads"]
        self.assertEqual(bytes_per_token("float16"), heads * config["head_dim"] * 2)
        self.assertEqual(bytes_per_token("fp8"), heads * config["head_dim"])
        self.assertEqual(bytes_per_token("int8"), heads * (config["head_dim"] + 4))

    def test_perplexity(self):
        with tempfile.TemporaryDirectory() as folder:
            text, result = pathlib.Path(folder) / "story.txt", pathlib.Path(folder) / "result.json"
            text.write_text(run("-m", DEMO, "-p", "Once upon a time", "-n", "400", "--ignore-eos", "--seed", "1").stdout)
            found = {}
            for dtype in ("bfloat16", *TYPES):
                subprocess.run([BIN / "nvllm-bench", "perplexity", "-m", DEMO, "-f", text, "-c", "128", "--kv-cache-dtype", dtype,
                                "--output-json", result], check=True, capture_output=True)
                found[dtype] = json.loads(result.read_text())["perplexity"]
        print(f"perplexity by type of the cache: {found}")
        for dtype in TYPES:
            self.assertNotEqual(found[dtype], found["bfloat16"])
            self.assertAlmostEqual(found[dtype] / found["bfloat16"], 1.0, delta=0.03)

    def test_words(self):
        self.assertEqual(self.answers("fp8_e4m3", made=self.requests[:4]), self.answers("fp8", made=self.requests[:4]))
        self.assertEqual(self.answers("auto", made=self.requests[:4]), self.plain[:4])
        done = run("-m", DEMO, "-p", "a", "--kv-cache-dtype", "int4", check=False)
        self.assertEqual(done.returncode, USAGE, done.stderr)
        self.assertIn("kv-cache-dtype", done.stderr)

    def test_devices_without_such_caches_say_so(self):
        env = environment(NVLLM_BACKEND_PATH=str(MODULES))
        done = run("-m", DEMO, "-p", "a", "-n", "2", "--device", "example", "--kv-cache-dtype", "int8", check=False, env=env)
        self.assertEqual(done.returncode, UNAVAILABLE, done.stderr)
        self.assertIn("keys and values", done.stderr)


if __name__ == "__main__":
    unittest.main()
