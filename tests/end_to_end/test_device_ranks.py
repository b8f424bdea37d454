"""Several ranks on devices, which exchange data by NCCL: here emulated devices, and NCCL's functions between threads.

With GPUs (NVLLM_TEST_MODULES of an installation) the same cases hold them to one GPU's tokens.
"""

import concurrent.futures
import json
import os
import signal
import tempfile
import unittest

from family_testing import FAMILIES, context_of
from programs import DEMO, MODULES, environment, run, run_jsonl, wait_until
from serve_testing import Server, texts_at_once
from test_device import CUDA, ids, not_sanitized, requests, with_cuda
from test_ranks import pipeline, tensor, text_config
from test_replicas import workers_of

NUM_DEVICES = 4
DEVICES = environment(NVLLM_BACKEND_PATH=str(MODULES), NVLLM_EMULATED_DEVICES=str(NUM_DEVICES))
LAYOUTS = {"tp2": tensor(2), "tp4": tensor(4), "pp2": pipeline(2), "tp2pp2": tensor(2) + pipeline(2)}
# One of each kind of layer: dense, biases, experts, latent attention, states, sliding windows, and two with quantized weights.
MODELS = {"llama": ("tp2", "tp4", "pp2", "tp2pp2"), "qwen2": ("tp2",), "gemma2": ("tp2",), "qwen3_moe": ("tp2", "pp2"),
          "deepseek_v3": ("tp2",), "qwen3_next": ("tp2",), "gpt2": ("pp2",)}


@with_cuda
@not_sanitized
class DeviceRanks(unittest.TestCase):
    def answers(self, made, model, *arguments):
        return ids(run_jsonl(made, "--dtype", "float32", "--device", CUDA, *arguments, model=str(model), env=DEVICES))

    def test_ids_are_those_of_one_device(self):
        for name, layouts in MODELS.items():
            folder = FAMILIES / name
            config = json.loads((folder / "config.json").read_text())
            made = requests(config["vocab_size"], context_of(config))
            expected = self.answers(made, folder)
            for layout in layouts:
                with self.subTest(model=name, layout=layout):
                    self.assertEqual(self.answers(made, folder, *LAYOUTS[layout]), expected)

    def test_bytes_between_ranks_are_those_of_the_cpu(self):
        """By the same formulas: sums are in the order of the ranks on both."""
        made = requests(128, 256)[:1]

        def bytes_of_steps(*arguments):
            with tempfile.NamedTemporaryFile() as log:
                self.answers(made, FAMILIES / "llama", "--step-log", log.name, *arguments)
                return [json.loads(line)["rank_bytes"] for line in log.read().decode().splitlines()]

        for layout in ("tp2", "tp4", "pp2"):
            with self.subTest(layout=layout):
                found = bytes_of_steps(*LAYOUTS[layout])
                self.assertTrue(all(found))
                self.assertEqual(found, bytes_of_steps(*LAYOUTS[layout], "--device", "cpu"))

    def test_experts_are_spread_over_devices(self):
        spread = ("--enable-expert-parallel",)
        for name in ("qwen3_moe", "mixtral", "deepseek_v3", "gpt_oss", "llama4"):
            folder = FAMILIES / name
            config = text_config(folder)
            made = requests(config["vocab_size"], context_of(config))
            expected = self.answers(made, folder)
            for layout in (tensor(2), ("--data-parallel-size", "2"), tensor(2) + ("--data-parallel-size", "2")):
                with self.subTest(model=name, layout=layout):
                    self.assertEqual(self.answers(made, folder, *layout, *spread), expected)

    def test_replicas_of_ranks(self):
        folder = FAMILIES / "llama"
        made = requests(128, 256)
        self.assertEqual(self.answers(made, folder, *tensor(2), "--data-parallel-size", "2"), self.answers(made, folder))

    def test_a_killed_worker(self):
        """All ranks are threads of it, and start again with it."""
        prompts = [[5 + i, 9, 20 + i] for i in range(4)]
        with Server("--tokenizer", DEMO, "--device", CUDA, *tensor(2), model=FAMILIES / "llama", env=DEVICES) as server:
            undisturbed = texts_at_once(server, prompts)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                disturbed = pool.submit(texts_at_once, server, prompts)
                (worker,) = wait_until(lambda: server.status()["requests"]["running"] > 0 and workers_of(server), what="a worker at work")
                os.kill(worker, signal.SIGKILL)
                self.assertEqual(disturbed.result(), undisturbed)
            self.assertNotEqual(workers_of(server), [worker])

    def test_a_module_without_operations_between_ranks(self):
        done = run("-m", DEMO, "-p", "x", "--device", "example", *tensor(2), check=False, env=DEVICES)
        self.assertEqual(done.returncode, 69, done.stderr)
        self.assertIn("use --device cpu", done.stderr)

    def refused(self, code, words, *arguments):
        done = run("-m", FAMILIES / "qwen3_moe", "-p", "x", "--device", CUDA, *arguments, check=False, env=DEVICES)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(words, done.stderr)

    def test_what_cannot_be(self):
        self.refused(69, "need a device each", *tensor(2 * NUM_DEVICES))
        self.refused(69, "need a device each", *tensor(2), "--device", f"{CUDA}:{NUM_DEVICES - 1}")


if __name__ == "__main__":
    unittest.main()
