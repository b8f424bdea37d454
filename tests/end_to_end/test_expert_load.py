"""Experts by their load: counted, placed by the counts with copies of the hottest, and with a capacity that drops what is beyond."""

import json
import math
import os
import tempfile
import unittest

from family_testing import FAMILIES
from programs import DEMO, run, run_jsonl
from serve_testing import Server
from test_equality import essence
from test_ranks import BOUND, MPI, difference, requests, tensor, text_config

FAMILY = FAMILIES / "mixtral"
CONFIG = text_config(FAMILY)
EXPERTS = CONFIG["num_local_experts"]
PER_TOKEN = CONFIG["num_experts_per_tok"]
LAYERS = CONFIG["num_hidden_layers"]
SHARED = ("--data-parallel-size", "2", "--enable-expert-parallel")
CUT = tensor(2) + ("--enable-expert-parallel",)


class ExpertLoad(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.file = os.path.join(folder.name, "load.json")
        cls.requests = requests(CONFIG)
        cls.answers = run_jsonl(cls.requests, "--record-expert-load", cls.file, "--no-enable-prefix-caching", model=FAMILY)
        cls.load = cls.read(cls.file)

    @staticmethod
    def read(file):
        with open(file, encoding="utf-8") as text:
            return json.load(text)

    def recorded(self, *arguments, made=None):
        """The answers, what was recorded, and the steps."""
        file, log = (os.path.join(self.folder, name) for name in ("other.json", "steps.jsonl"))
        answers = run_jsonl(made or self.requests, "--record-expert-load", file, "--step-log", log, *arguments, model=FAMILY)
        with open(log, encoding="utf-8") as text:
            return answers, self.read(file)["blocks"], [json.loads(line) for line in text]

    def test_counts_are_those_of_all_tokens(self):
        self.assertEqual(self.load["schema"], "nanovllm.expert-load/1")
        self.assertEqual(len(self.load["blocks"]), LAYERS)
        self.assertEqual(essence(self.answers), essence(run_jsonl(self.requests, model=FAMILY)))
        for arguments in ((), tensor(2), tensor(2) + ("--pipeline-parallel-size", "2"), CUT, SHARED, ("--data-parallel-size", "2"),
                          SHARED + ("--isolation", "process")):
            with self.subTest(arguments=arguments):
                _, blocks, steps = self.recorded("--no-enable-prefix-caching", *arguments)
                tokens = sum(step["num_tokens"] for step in steps)
                self.assertEqual([sum(counts) for counts in blocks.values()], [tokens * PER_TOKEN] * LAYERS)
                self.assertEqual(sum(step["dropped_experts"] for step in steps), 0)
        _, blocks, _ = self.recorded("--no-enable-prefix-caching", *CUT)
        self.assertEqual(blocks, self.load["blocks"])

    def test_no_bit_depends_on_where_experts_are(self):
        placed = ("--expert-load", self.file)
        for copies in (0, 2, EXPERTS):
            with self.subTest(copies=copies):
                answers = run_jsonl(self.requests, *SHARED, *placed, "--num-redundant-experts", str(copies), model=FAMILY)
                self.assertEqual(essence(answers), essence(self.answers))
        for arguments in (SHARED + MPI, SHARED + ("--isolation", "process")):
            with self.subTest(arguments=arguments):
                answers = run_jsonl(self.requests, *arguments, *placed, "--num-redundant-experts", "2", model=FAMILY)
                self.assertEqual(essence(answers), essence(self.answers))
        for arguments in (CUT, CUT + ("--pipeline-parallel-size", "2"), CUT + SHARED[:2], CUT + MPI):
            with self.subTest(arguments=arguments):
                answers = run_jsonl(self.requests, *arguments, "--num-redundant-experts", str(EXPERTS), model=FAMILY)
                self.assertEqual([answer["token_ids"] for answer in answers], [answer["token_ids"] for answer in self.answers])
                self.assertLess(difference(answers, self.answers), BOUND)

    def test_capacity(self):
        made = [dict(self.requests[-1], max_tokens=1, logprobs=0)]
        for factor in (0.25, 0.5, 1.0, 1.25, EXPERTS / PER_TOKEN):
            for arguments in ((), tensor(2), CUT):
                with self.subTest(factor=factor, arguments=arguments):
                    answers, blocks, steps = self.recorded("--expert-capacity-factor", str(factor), *arguments, made=made)
                    (tokens,) = {step["num_tokens"] for step in steps if step["num_tokens"]}
                    capacity = math.ceil(factor * PER_TOKEN * tokens / EXPERTS)
                    beyond = sum(max(0, count - capacity) for counts in blocks.values() for count in counts)
                    self.assertEqual(sum(step["dropped_experts"] for step in steps), beyond)
                    if factor < 1:
                        self.assertGreater(beyond, 0)
                    if beyond == 0:
                        self.assertEqual([answer["token_ids"] for answer in answers],
                                         [answer["token_ids"] for answer in run_jsonl(made, model=FAMILY)])

    def test_drops_are_said_and_counted(self):
        with Server("--tokenizer", DEMO, "--expert-capacity-factor", "0.5", model=FAMILY) as server:
            server.complete(self.requests[-1]["prompt_token_ids"], max_tokens=4)
            sums = [line for line in server.get("/metrics").text.splitlines() if line.startswith("nvllm_dropped_expert_choices_total")]
            self.assertGreater(float(sums[0].split()[-1]), 0)
            self.assertIn("depend on what else is computed", server.log)


class Refusals(unittest.TestCase):
    def refused(self, code, words, *arguments, model=FAMILY):
        done = run("-m", model, "-p", "x", *arguments, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(words, done.stderr)

    def test_what_cannot_be(self):
        self.refused(64, "use --enable-expert-parallel", "--num-redundant-experts", "2", *tensor(2))
        self.refused(64, "use 2 or 4", "--num-redundant-experts", "3", *CUT)
        self.refused(64, f"use {EXPERTS}", "--num-redundant-experts", str(2 * EXPERTS), *CUT)
        # One rank has them all, and three cannot have as many of four.
        self.refused(64, "as many of each", "--num-redundant-experts", "2", "--enable-expert-parallel")
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "load.json")
            made = [{"prompt_token_ids": [5, 6, 7], "max_tokens": 1}]
            run_jsonl(made, "--record-expert-load", file, model=FAMILY)
            self.refused(64, "as many of each", "--expert-load", file, *tensor(3), "--enable-expert-parallel")
        for option in (("--expert-capacity-factor", "1"), ("--record-expert-load", os.devnull),
                       ("--num-redundant-experts", "2", "--enable-expert-parallel", *tensor(2))):
            self.refused(64, "has no experts", *option, model=FAMILIES / "llama")

    def test_files_of_something_else(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "load.json")
            self.refused(66, file, "--expert-load", file, *CUT)
            for text, words in (("", "load.json"), ("[]", "schema"), ('{"schema": "nanovllm.expert-load/1"}', "no blocks"),
                                ('{"schema": "nanovllm.expert-load/1", "blocks": {"model.layers.0": [1, -2]}}', "counts"),
                                ('{"schema": "nanovllm.expert-load/1", "blocks": {"model.layers.0": [1, 2]}}', "another model"),
                                ('{"schema": "nanovllm.expert-load/1", "blocks": {"model.layers.0": [1, 2], "model.layers.1": [1, 2]}}',
                                 "2 in the file"),
                                ('{"schema": "nanovllm.expert-load/1", "blocks": {}}', "another model")):
                with open(file, "w", encoding="utf-8") as out:
                    out.write(text)
                self.refused(65, words, "--expert-load", file, *CUT)


if __name__ == "__main__":
    unittest.main()
