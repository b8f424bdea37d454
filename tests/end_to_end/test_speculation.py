"""Ids, logprobs and texts are the same bit for bit with proposed tokens and without, whatever else happens."""

import json
import os
import pathlib
import re
import signal
import tempfile
import unittest

from programs import DEMO, SHARED, SOURCE, needs_shared, run, run_jsonl, wait_until
from serve_testing import Server

DRAFT = str(SOURCE / "models" / "demo-draft")
HEAD = str(SOURCE / "models" / "demo-eagle3")
TRAINED = {"eagle": str(SOURCE / "models" / "demo-eagle"), "eagle3": HEAD, "mtp": str(SOURCE / "models" / "demo-mtp")}
HEADS = SHARED / "drafts"
STORIES260K = SHARED / "models" / "stories260k"

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


def sequence_steps(steps):
    """The steps that all sequences took together: whatever stood beside whatever."""
    return sum(step["num_sequences"] for step in steps)


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
        plain = sequence_steps(self.steps_with())
        for count in (1, 2, 4, 8):
            steps = self.drafted("--speculative-config", config(count))
            self.assertLess(sequence_steps(steps), plain)
            self.assertLessEqual(max(step["num_draft_tokens"] / max(1, step["num_sequences"]) for step in steps), count)

    def test_batches_chunks_and_blocks(self):
        three = ("--speculative-config", config(3))
        self.drafted(*three, "--max-num-seqs", "1")
        self.drafted(*three, "--max-num-seqs", "64", "--no-enable-prefix-caching")
        self.drafted(*three, "--prefill-chunk-size", "7")
        self.drafted(*three, "--block-size", "1")
        self.drafted(*three, "--block-size", "32", "--max-num-batched-tokens", "48", "--max-num-seqs", "40")

    def test_draft_model(self):
        plain = sequence_steps(self.steps_with())
        for count in (1, 3, 8):
            steps = self.drafted("--speculative-config", config(count, "draft_model", model=DRAFT))
            self.assertLess(sequence_steps(steps), plain)
        always = ("--draft-model", DRAFT, "--speculative-config", '{"adaptive": false}')
        self.drafted(*always, "--max-num-seqs", "3", "--prefill-chunk-size", "7", "--block-size", "1")
        self.drafted(*always, "--block-size", "32", "--max-num-batched-tokens", "48", "--max-num-seqs", "40", "--kv-cache-dtype", "int8",
                     expected=essence(run_jsonl(self.requests, "--kv-cache-dtype", "int8", "--block-size", "32")))
        self.steps_with("--draft-model", DRAFT)
        off = [dict(request, speculative=False) for request in self.requests]
        self.assertEqual(sum(step["num_proposed"] for step in self.steps_with(*always, made=off)), 0)

    def test_model_that_drafts_for_itself(self):
        """Each draft is right, whatever becomes of the blocks that its keys and values lie in."""
        made = [{"prompt": f"{STORIES[0]} {STORIES[index % 4]}", "max_tokens": 150 + index, "temperature": 0.0, "ignore_eos": True}
                for index in range(8)]
        lines = "".join(json.dumps(request) + "\n" for request in made)
        expected = [answer["token_ids"] for answer in run_jsonl(made, model=DRAFT)]
        ranks = int(os.environ.get("NVLLM_TEST_WITH_TENSOR_PARALLEL_SIZE", "1"))  # which share it
        tight = ("--kv-cache-memory-bytes", ranks * 2 * self.pool_bytes(768, DRAFT), "--max-model-len", "512")
        for arguments in ((), ("--prefill-chunk-size", "5", "--block-size", "4"), (*tight, "--preemption-mode", "recompute"),
                          (*tight, "--preemption-mode", "swap", "--swap-space", "4MiB", "--isolation", "process"),
                          (*tight, "--defrag-threshold", "0.05")):
            done = run("-m", DRAFT, "--input-format", "jsonl", "--output-format", "jsonl", "--show-timings", *arguments,
                       "--speculative-config", config(4, "draft_model", model=DRAFT), stdin=lines)
            self.assertEqual([json.loads(line)["token_ids"] for line in done.stdout.splitlines()], expected, arguments)
            accepted, proposed = map(int, re.search(r"(\d+) of (\d+) proposed tokens accepted", done.stderr).groups())
            self.assertGreater(accepted, 500, arguments)
            # What is chosen after the end of an answer is not counted as accepted.
            self.assertGreaterEqual(accepted, 0.97 * proposed, (arguments, done.stderr))

    def test_trees(self):
        """Of a draft model, whose trees are often right away from their first branch."""
        def tree(depth, width, tokens=None, **others):
            more = {"tree_tokens": tokens} if tokens else {}
            return "--speculative-config", config(depth, "draft_model", model=DRAFT, tree_width=width, **more, **others)
        chain = sequence_steps(self.drafted(*tree(4, 1)))
        for depth, width, tokens in ((1, 4, None), (4, 3, 10), (8, 8, 32)):
            steps = self.drafted(*tree(depth, width, tokens))
            self.assertLessEqual(max(step["num_draft_tokens"] / max(1, step["num_sequences"]) for step in steps), tokens or depth * width)
            if depth >= 4:
                self.assertLess(sequence_steps(steps), chain)
        self.drafted(*tree(3, 4, 9), "--max-num-seqs", "1", "--block-size", "1")
        self.drafted(*tree(5, 2, 7), "--max-num-seqs", "64", "--prefill-chunk-size", "7", "--block-size", "4", "--no-enable-prefix-caching")
        self.drafted(*tree(3, 3), "--max-num-batched-tokens", "48", "--max-num-seqs", "40", "--kv-cache-dtype", "int8", "--isolation", "process",
                     expected=essence(run_jsonl(self.requests, "--kv-cache-dtype", "int8")))
        self.steps_with("--speculative-config", json.dumps({"model": DRAFT, "tree_width": 3}))

    @needs_shared("drafts")
    def test_trees_of_heads(self):
        self.drafted("--speculative-config", config(3, "eagle3", model=str(HEADS / "demo-eagle3-narrow"), tree_width=3), "--max-num-seqs", "5",
                     "--block-size", "4")
        made = [{"prompt": f"One day {index}", "max_tokens": 40, "temperature": (0.0, 0.8)[index % 2], "seed": index, "logprobs": 1}
                for index in range(6)]
        plain = essence(run_jsonl(made, model=STORIES260K))
        for name in ("stories260k-eagle", "stories260k-eagle3-speculators"):
            tree = config(4, None, model=str(HEADS / name), tree_width=4, tree_tokens=9)
            self.assertEqual(essence(run_jsonl(made, "--speculative-config", tree, model=STORIES260K)), plain, name)

    def test_next_token_layer(self):
        for settings, arguments in (({"tree_width": 3}, ("--max-num-seqs", "3", "--block-size", "1")),
                                    ({}, ("--max-num-seqs", "3", "--prefill-chunk-size", "7", "--block-size", "4"))):
            self.drafted("--speculative-config", config(2, "mtp", model=TRAINED["mtp"], **settings), *arguments)

    def test_trained_heads(self):
        plain = sequence_steps(self.steps_with())
        for method, head in TRAINED.items():
            for count in (1, 4):
                with self.subTest(method=method, count=count):
                    steps = self.drafted("--speculative-config", config(count, method, model=head))
                    self.assertLess(sequence_steps(steps), (0.8 if count == 1 else 0.65) * plain)
        self.drafted("--draft-model", HEAD, "--speculative-config", '{"adaptive": false, "num_speculative_tokens": 8}', "--max-num-seqs", "5",
                     "--prefill-chunk-size", "7", "--block-size", "4")

    @needs_shared("drafts")
    def test_heads(self):
        """Their weights are random: most drafts are wrong."""
        narrow = str(HEADS / "demo-eagle3-narrow")
        for count in (1, 4):
            self.drafted("--speculative-config", config(count, "eagle3", model=narrow))
        always = ("--draft-model", narrow, "--speculative-config", '{"adaptive": false}')
        self.drafted(*always, "--max-num-seqs", "5", "--prefill-chunk-size", "7", "--block-size", "4")
        self.drafted(*always, "--isolation", "process")
        self.steps_with("--draft-model", narrow)
        requests = [{"prompt": f"One day {index}", "max_tokens": 40, "temperature": (0.0, 0.8)[index % 2], "seed": index, "logprobs": 1}
                    for index in range(6)]
        plain = essence(run_jsonl(requests, model=STORIES260K))
        for name in ("stories260k-eagle", "stories260k-eagle3", "stories260k-eagle3-speculators"):
            for count in (1, 5):
                found = run_jsonl(requests, "--speculative-config", config(count, method=None, model=str(HEADS / name)), model=STORIES260K)
                self.assertEqual(essence(found), plain, name)

    def test_past_answers(self):
        """The second half asks what the first did."""
        suffix = ("--speculative-config", config(4, "suffix"), "--max-num-seqs", "4")
        ngram = ("--speculative-config", config(4), "--max-num-seqs", "4")
        twice = self.requests + self.requests
        more = {"made": twice, "expected": self.expected + self.expected}
        self.assertLess(sequence_steps(self.drafted(*suffix, **more)), sequence_steps(self.drafted(*ngram, **more)))

    def test_adaptive(self):
        self.steps_with("--num-speculative-tokens", "4")
        alone = self.steps_with("--num-speculative-tokens", "4", "--max-num-seqs", "1")
        self.assertGreater(sum(step["num_draft_tokens"] for step in alone), 0)

    def test_preempted_and_lost(self):
        grown = [dict(request, max_tokens=120 + 5 * index, ignore_eos=True)
                 for index, request in enumerate(self.requests[:16]) if "structured_outputs" not in request and "n" not in request]
        expected = essence(run_jsonl(grown))
        of_both = self.pool_bytes(768) + self.pool_bytes(768, DRAFT)
        for bytes_of_pool, drafts in ((self.pool_bytes(768), config(4)), (of_both, config(4, "draft_model", model=DRAFT)),
                                      (of_both, config(4, "draft_model", model=DRAFT, tree_width=3, tree_tokens=8))):
            tight = ("--kv-cache-memory-bytes", bytes_of_pool, "--max-model-len", "512", "--speculative-config", drafts)
            steps = self.drafted(*tight, "--preemption-mode", "recompute", made=grown, expected=expected)
            self.assertGreater(steps[-1]["num_preemptions"], 3)
            steps = self.drafted(*tight, "--preemption-mode", "swap", "--swap-space", "4MiB", "--isolation", "process",
                                 made=grown, expected=expected)
            self.assertGreater(sum(step["swapped_bytes"] for step in steps), 0)

    @staticmethod
    def pool_bytes(tokens, model=DEMO):
        """Size of a cache for so many tokens of the model."""
        settings = json.loads((pathlib.Path(model) / "config.json").read_text())
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
                                (("--speculative-config", '{"method": "medusa"}'), "'medusa'"),
                                (("--draft-model", DRAFT, "--speculative-method", "ngram"), "'ngram'"),
                                (("--draft-model", DRAFT, "--async-scheduling"), "--async-scheduling"),
                                (("--speculative-config", '{"synthetic_acceptance": 1.5}'), "synthetic_acceptance is 1.5"),
                                (("--speculative-config", '{"method": "ngram", "tree_width": 2}'), "tree_width"),
                                (("--speculative-config", '{"method": "suffix", "tree_tokens": 8}'), "tree_tokens"),
                                (("--draft-model", DRAFT, "--speculative-config", '{"tree_width": 17}'), "tree_width is 17"),
                                (("--num-speculative-tokens", "4", "--async-scheduling"), "--async-scheduling")):
            done = run("-m", DEMO, "-p", "Tom", *arguments, check=False)
            self.assertEqual(done.returncode, 64, done.stderr)
            self.assertIn(word, done.stderr)
        fixtures = SOURCE / "tests" / "fixtures"
        for arguments, word in ((("--draft-model", fixtures / "families" / "llama"), "vocabulary"),
                                (("--draft-model", fixtures / "drafts" / "eagle_bias"), "hidden size 64"),
                                (("--draft-model", DRAFT, "--speculative-method", "eagle"), "next-token layers"),
                                (("--speculative-method", "mtp"), "next-token layers")):
            done = run("-m", DEMO, "-p", "Tom", *arguments, check=False)
            self.assertEqual(done.returncode, 65, done.stderr)
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
