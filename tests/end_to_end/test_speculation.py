"""Ids, logprobs and texts are the same bit for bit with proposed tokens and without, whatever else happens."""

import json
import os
import pathlib
import re
import signal
import tempfile
import unittest

from programs import DEMO, run, run_jsonl, wait_until
from serve_testing import Server

# Texts that repeat themselves, so that there is something to propose, and some that do not.
STORIES = ("Tom had a red ball. Tom had a red ball. Tom had a red",
           "The cat sat on the mat. The dog sat on the mat. The cat sat on the",
           "one two three four one two three four one two three",
           "Once upon a time there was a little girl who lived in a house by the sea. One day")
IS_SANITIZED = bool(os.environ.get("NVLLM_SANITIZED"))
NUM_REQUESTS = 16 if IS_SANITIZED else 32
# Threads that wait for each other take many times as long where other programs hold the processors.
ONE_THREAD = ("--threads", "1")


def requests(count):
    """Greedy and sampled ones, with penalties, stop strings, several answers and grammars."""
    made = []
    for index in range(count):
        prompt = f"{'So it was. ' * (index % 5)}{STORIES[index % 4]}"
        request = {"prompt": prompt, "max_tokens": 12 + index % 23, "logprobs": 2, "seed": index,
                   "temperature": (0.0, 0.0, 0.7, 0.0)[index % 4]}
        kind = index % 8
        if kind in (0, 2, 4):
            request["ignore_eos"] = True
        if kind == 1:
            request.update(stop=["mat", " so"], ignore_eos=True)
        if kind == 3:
            request["structured_outputs"] = {"regex": r"(red |ball |had ){4,12}"}
        if kind == 5:
            request.update(repetition_penalty=1.2, frequency_penalty=0.3, no_repeat_ngram_size=3)
        if kind == 6:
            request.update(n=3, top_k=20, top_p=0.9, temperature=0.9)
        if kind == 7:
            request.update(min_tokens=5, logit_bias={"17": 2.0}, presence_penalty=0.5)
        made.append(request)
    return made


def essence(answers):
    """What must not change."""
    return [(answer["token_ids"], answer["logprobs"], answer["text"], answer["finish_reason"]) for answer in answers]


def config(count, method="ngram", **others):
    """Always as many as are proposed, after a single equal token: many are wrong."""
    return json.dumps({"method": method, "num_speculative_tokens": count, "prompt_lookup_min": 1, "adaptive": False, **others})


class Speculation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.requests = requests(NUM_REQUESTS)
        cls.expected = essence(run_jsonl(cls.requests))

    def steps_with(self, *arguments, made=None, expected=None):
        """Compares the answers; the lines of the step log."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "steps.jsonl"
            answers = run_jsonl(made or self.requests, "--step-log", log, *ONE_THREAD, *arguments)
            steps = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual(essence(answers), expected or self.expected, arguments)
        return steps

    def drafted(self, *arguments, **others):
        steps = self.steps_with(*arguments, **others)
        self.assertGreater(sum(step["num_draft_tokens"] for step in steps), 0, arguments)
        return steps

    def test_numbers_of_tokens(self):
        plain = len(self.steps_with())
        for count in (1, 2, 4, 8):
            steps = self.drafted("--speculative-config", config(count))
            self.assertLess(len(steps), plain)
            self.assertLessEqual(max(step["num_draft_tokens"] / max(1, step["num_sequences"]) for step in steps), count)

    def test_batches_chunks_and_blocks(self):
        three = ("--speculative-config", config(3))
        self.drafted(*three, "--max-num-seqs", "1")
        self.drafted(*three, "--max-num-seqs", "64", "--no-enable-prefix-caching")
        self.drafted(*three, "--prefill-chunk-size", "7")
        self.drafted(*three, "--block-size", "1")
        self.drafted(*three, "--block-size", "32", "--max-num-batched-tokens", "48", "--max-num-seqs", "40")

    def test_past_answers(self):
        """The second half asks what the first did."""
        suffix = ("--speculative-config", config(4, "suffix"), "--max-num-seqs", "4")
        ngram = ("--speculative-config", config(4), "--max-num-seqs", "4")
        twice = self.requests + self.requests
        more = {"made": twice, "expected": self.expected + self.expected}
        self.assertLess(len(self.drafted(*suffix, **more)), len(self.drafted(*ngram, **more)))

    def test_adaptive(self):
        self.steps_with("--num-speculative-tokens", "4")
        alone = self.steps_with("--num-speculative-tokens", "4", "--max-num-seqs", "1")
        self.assertGreater(sum(step["num_draft_tokens"] for step in alone), 0)

    def test_preempted_and_lost(self):
        grown = [dict(request, max_tokens=120 + 5 * index, ignore_eos=True)
                 for index, request in enumerate(self.requests[:16]) if "structured_outputs" not in request and "n" not in request]
        expected = essence(run_jsonl(grown))
        tight = ("--kv-cache-memory-bytes", self.pool_bytes(768), "--max-model-len", "512", "--speculative-config", config(4))
        steps = self.drafted(*tight, "--preemption-mode", "recompute", made=grown, expected=expected)
        self.assertGreater(steps[-1]["num_preemptions"], 3)
        steps = self.drafted(*tight, "--preemption-mode", "swap", "--swap-space", "4MiB", "--isolation", "process",
                             made=grown, expected=expected)
        self.assertGreater(sum(step["swapped_bytes"] for step in steps), 0)

    @staticmethod
    def pool_bytes(tokens):
        """Size of a cache for so many tokens of the model under test."""
        settings = json.loads((pathlib.Path(DEMO) / "config.json").read_text())
        return tokens * settings["num_hidden_layers"] * settings["num_key_value_heads"] * settings["head_dim"] * 2 * 2

    def test_off_for_one_request(self):
        off = [dict(request, speculative=False) for request in self.requests]
        steps = self.steps_with("--speculative-config", config(4), made=off)
        self.assertEqual(sum(step["num_draft_tokens"] for step in steps), 0)

    def test_settings_in_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            settings = pathlib.Path(folder) / "settings.yaml"
            settings.write_text(f"speculative-config: '{config(2)}'\n")
            self.drafted("--config", settings)

    def test_refused(self):
        for arguments, word in ((("--speculative-config", '{"method": "ngram", "lookup": 3}'), "'lookup'"),
                                (("--speculative-config", '{"method": "eagle"}'), "'eagle'"),
                                (("--speculative-config", '{"synthetic_acceptance": 1.5}'), "synthetic_acceptance is 1.5"),
                                (("--num-speculative-tokens", "4", "--async-scheduling"), "--async-scheduling")):
            done = run("-m", DEMO, "-p", "Tom", *arguments, check=False)
            self.assertEqual(done.returncode, 64, done.stderr)
            self.assertIn(word, done.stderr)


class ServedSpeculation(unittest.TestCase):
    """One server without proposed tokens, one with; every request to both, streamed and whole."""

    def counts(self, server):
        """The four counters under vLLM's names, over all positions."""
        found = {}
        for name, value in re.findall(r"^vllm:spec_decode_num_(\w+)_total{[^}]*} ([\d.]+)", server.get("/metrics").text, re.M):
            found[name] = found.get(name, 0) + float(value)
        return found

    def answers(self, server, **more):
        bodies = [{"prompt": prompt, "max_tokens": 30, "seed": 3, "temperature": 0.8 * (index % 2), "logprobs": 1,
                   "return_token_ids": True, **more} for index, prompt in enumerate(STORIES)]
        whole = [server.complete(**body)["choices"][0] for body in bodies]
        for body, choice in zip(bodies, whole):
            chunks = [chunk["choices"][0] for chunk in server.stream("/v1/completions", body) if chunk["choices"]]
            self.assertEqual("".join(chunk["text"] for chunk in chunks), choice["text"])
            self.assertEqual([token for chunk in chunks for token in chunk.get("token_ids") or ()], choice["token_ids"])
        return [(choice["token_ids"], choice["text"], choice["logprobs"], choice["finish_reason"]) for choice in whole]

    def state(self, server):
        """What SIGUSR1 writes into the log, when all of it is there."""
        parts = [part for line in list(server.lines) if (part := re.search(r"state of \S+, part \d+ of (\d+): (.*)", line))]
        return json.loads("".join(part[2] for part in parts)) if parts and len(parts) == int(parts[0][1]) else None

    def test_served(self):
        with Server() as plain:
            expected = self.answers(plain)
            self.assertEqual(sum(self.counts(plain).values()), 0)
        with Server("--speculative-config", config(4)) as server:
            self.assertEqual(self.answers(server, speculative=False), expected)
            self.assertEqual(sum(self.counts(server).values()), 0)
            self.assertEqual(self.answers(server), expected)
            counts = self.counts(server)
            self.assertEqual(counts["accepted_tokens"], counts["accepted_tokens_per_pos"])
            self.assertLess(0, counts["accepted_tokens"])
            self.assertLess(counts["accepted_tokens"], counts["draft_tokens"])
            self.assertLess(counts["draft_tokens"], 4 * counts["drafts"] + 1)
            server.signal(signal.SIGUSR1)
            self.assertIn("scheduler", wait_until(lambda: self.state(server), what="the state in the log"))


if __name__ == "__main__":
    unittest.main()
