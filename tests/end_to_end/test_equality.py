"""Ids and logprobs are the same bit for bit with every speed feature on or off, and whatever else runs beside.

With NVLLM_TEST_ADAPTERS two of three requests have an adapter, and of both only one may be in a step. With
NVLLM_TEST_PREFIX_CACHE_DIR all runs but the first share a folder of blocks."""

import json
import os
import pathlib
import random
import tempfile
import unittest

from adapter_testing import modules
from programs import DEMO, SOURCE, run_jsonl

WORDS = ("Once upon a time there was little girl who found a red ball in the garden and her friend said "
         "let us play until mother calls for dinner").split()
# Of requests in turn.
ADAPTERS = (None, "verse", "fields") if os.environ.get("NVLLM_TEST_ADAPTERS") else (None,)


def prompts(count, seed=7):
    """Prompts of unequal length; a third share a long beginning, so that blocks are shared."""
    generator = random.Random(seed)
    shared = " ".join(generator.choices(WORDS, k=40))
    texts = []
    for index in range(count):
        text = " ".join(generator.choices(WORDS, k=generator.randint(1, 60)))
        texts.append(f"{shared} {text}" if index % 3 == 0 else text)
    return texts


def requests(count):
    """Greedy and sampled requests of unequal length, with logprobs."""
    made = []
    for index, text in enumerate(prompts(count)):
        request = {"prompt": text, "max_tokens": 8 + index % 17, "logprobs": 3, "ignore_eos": True, "seed": index}
        request["temperature"] = 0.0 if index % 2 == 0 else 0.8
        if adapter := ADAPTERS[index % len(ADAPTERS)]:
            request["adapter"] = adapter
        if index % 4 == 1:
            request.update(top_k=40, top_p=0.95, repetition_penalty=1.1)
        made.append(request)
    return made


def essence(answers):
    """What must not change."""
    return [(answer["token_ids"], answer["logprobs"], answer["text"], answer["finish_reason"]) for answer in answers]


# Set where a folder is used.
CACHE_FOLDER = []


def answered(made, *arguments):
    """That of the answers to these requests."""
    if len(ADAPTERS) > 1:
        arguments = ("--max-loras", "1", *modules({name: SOURCE / "models" / f"demo-{name}" for name in ADAPTERS if name}), *arguments)
    if CACHE_FOLDER and "--no-enable-prefix-caching" not in arguments:
        arguments = ("--prefix-cache-dir", CACHE_FOLDER[0], *arguments)
    return essence(run_jsonl(made, *arguments))


# Sanitizers look for wrong accesses, not for wrong answers: fewer requests lead everywhere.
IS_SANITIZED = bool(os.environ.get("NVLLM_SANITIZED"))
NUM_REQUESTS = 24 if IS_SANITIZED else 64
PREEMPTION_MODES = ("swap",) if IS_SANITIZED else ("auto", "recompute", "swap")


def grown(made):
    """The first ones, with answers far longer than prompts."""
    return [dict(request, max_tokens=150 + 5 * index) for index, request in enumerate(made[:20])]


class Equality(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"{NUM_REQUESTS} requests, adapters {ADAPTERS}, preemption by {', '.join(PREEMPTION_MODES)}")
        cls.requests = requests(NUM_REQUESTS)
        cls.expected = answered(cls.requests)
        if os.environ.get("NVLLM_TEST_PREFIX_CACHE_DIR"):
            folder = tempfile.TemporaryDirectory()
            cls.addClassCleanup(folder.cleanup)
            cls.expected_grown = answered(grown(cls.requests))
            CACHE_FOLDER.append(folder.name)

    def same_with(self, *arguments):
        self.assertEqual(answered(self.requests, *arguments), self.expected)

    def test_alone(self):
        for index in (0, 1, 5, NUM_REQUESTS // 2 + 1, NUM_REQUESTS - 1):
            alone = answered([self.requests[index]])
            self.assertEqual(alone[0], self.expected[index])

    def test_one_after_the_other(self):
        self.same_with("--max-num-seqs", "1")

    def test_chunks(self):
        for size in ("1", "7", "64"):
            self.same_with("--prefill-chunk-size", size)
        self.same_with("--max-num-batched-tokens", "8192", "--no-enable-chunked-prefill")

    def test_block_sizes(self):
        for size in ("1", "16", "32"):
            self.same_with("--block-size", size)

    def test_prefix_cache_off(self):
        self.same_with("--no-enable-prefix-caching")

    def tight(self, *arguments, tokens=1024):
        """Answers far longer than prompts, in a pool that holds a few of them whole; and the last line of the step log."""
        if not hasattr(type(self), "expected_grown"):
            type(self).expected_grown = answered(grown(self.requests))
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "steps.jsonl"
            answers = answered(grown(self.requests), "--kv-cache-memory-bytes", self.pool_bytes(tokens), "--max-model-len", "512", "--step-log", log,
                              *arguments)
            steps = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual(answers, self.expected_grown, arguments)
        return steps

    def test_preempted(self):
        steps = self.tight()
        print(f"preemptions: {steps[-1]['num_preemptions']}")
        self.assertGreater(steps[-1]["num_preemptions"], 10)

    def test_evicted_blocks_come_back(self):
        # Replicas share the pool.
        tokens = 1280 if "NVLLM_TEST_WITH_DATA_PARALLEL_SIZE" in os.environ else 640
        steps = self.tight("--kv-offloading-size", "16MiB", "--preemption-mode", "recompute", tokens=tokens)
        self.assertGreater(sum(step["swapped_bytes"] for step in steps), 0)

    def test_policies_evictions_and_preemption_modes(self):
        policies = ("fcfs", "sjf", "round-robin", "priority", "hybrid")
        evictions = ("lru", "lfu", "size", "cost")
        paused = swapped = 0
        for index, (policy, mode) in enumerate((policy, mode) for policy in policies for mode in PREEMPTION_MODES):
            with self.subTest(policy=policy, mode=mode):
                steps = self.tight("--scheduling-policy", policy, "--preemption-mode", mode, "--swap-space", "4MiB",
                                   "--eviction-policy", evictions[index % 4], "--max-num-seqs", "8", "--defrag-threshold", "0.2")
                moved = sum(step["swapped_bytes"] for step in steps)
                self.assertGreater(steps[-1]["num_preemptions"], 3)
                if not CACHE_FOLDER:  # which moves blocks of its own
                    self.assertEqual(moved > 0, mode == "swap" or (mode == "auto" and moved > 0))
                swapped += moved > 0
                paused += any(step["num_paused"] for step in steps)
        self.assertGreaterEqual(swapped, 5)
        # Which replica has so many sequences that some pause depends on when others end, and how many wait for files on the disk.
        depends = CACHE_FOLDER or "NVLLM_TEST_WITH_DATA_PARALLEL_SIZE" in os.environ
        self.assertGreaterEqual(paused, 1 if depends else len(PREEMPTION_MODES))

    def test_budgets(self):
        self.same_with("--step-time-target", "2")
        self.same_with("--mixed-prefill-tokens", "3")
        self.same_with("--long-prefill-token-threshold", "16", "--max-num-partial-prefills", "1")

    @staticmethod
    def pool_bytes(tokens):
        """Size of a cache for so many tokens of the model under test."""
        config = json.loads((pathlib.Path(DEMO) / "config.json").read_text())
        return tokens * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"] * 2 * 2

    def test_worker_in_a_process_of_its_own(self):
        self.same_with("--isolation", "process")
        steps = self.tight("--isolation", "process", "--preemption-mode", "swap", "--swap-space", "4MiB")
        self.assertGreater(sum(step["swapped_bytes"] for step in steps), 0)

    def test_threads(self):
        for threads in ("1", "2", "4"):
            self.same_with("--threads", threads)


if __name__ == "__main__":
    unittest.main()
