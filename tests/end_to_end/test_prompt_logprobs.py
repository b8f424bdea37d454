"""Logprobs of prompt tokens: equal to those of the same tokens when they were generated, whatever the engine does."""

import json
import pathlib
import tempfile
import unittest

from programs import run_jsonl

SETTINGS = {
    "whole": (),
    "chunks of 1": ("--prefill-chunk-size", "1"),
    "chunks of 7": ("--prefill-chunk-size", "7"),
    "one sequence at a time": ("--max-num-seqs", "1"),
    "blocks of 1": ("--block-size", "1"),
}
# Room for about two and a half of the eight sequences.
SMALL_CACHE = ("--kv-cache-memory-bytes", "400k", "--max-model-len", "190", "--block-size", "4")
PROMPTS = [list(range(300 + 40 * index, 300 + 40 * index + 30 + index)) for index in range(8)]


def pairs(entries):
    """What must be the same to the last bit."""
    return [(entry["token_id"], entry["logprob"], entry["rank"], [(top["token_id"], top["logprob"]) for top in entry["top_logprobs"]])
            for entry in entries]


class PromptLogprobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        requests = [{"prompt_token_ids": ids, "max_tokens": 40, "ignore_eos": True, "temperature": 0, "logprobs": 3}
                    for ids in PROMPTS]
        cls.generated = run_jsonl(requests)

    def scored(self, *arguments, **fields):
        requests = [{"prompt_token_ids": ids + answer["token_ids"], "max_tokens": 1, "temperature": 0, "prompt_logprobs": 3, **fields}
                    for ids, answer in zip(PROMPTS, self.generated)]
        return run_jsonl(requests, *arguments)

    def check(self, answers):
        for ids, generated, answer in zip(PROMPTS, self.generated, answers):
            prompt_logprobs = answer["prompt_logprobs"]
            self.assertEqual(len(prompt_logprobs), len(ids) + 40)
            self.assertIsNone(prompt_logprobs[0])
            self.assertEqual([entry["token_id"] for entry in prompt_logprobs[1:]], (ids + generated["token_ids"])[1:])
            self.assertEqual(pairs(prompt_logprobs[len(ids):]), pairs(generated["logprobs"]["content"]))

    def test_equal_those_of_generation(self):
        for name, arguments in SETTINGS.items():
            with self.subTest(name):
                self.check(self.scored(*arguments))

    def test_prompts_computed_again_after_preemption(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "steps.jsonl"
            self.check(self.scored(*SMALL_CACHE, "--step-log", log, max_tokens=60, ignore_eos=True))
            last = json.loads(log.read_text().splitlines()[-1])
        self.assertGreater(last["num_preemptions"], 3)

    def test_several_continuations_get_them_once(self):
        answers = self.scored(n=3)
        self.assertEqual(len(answers), 3 * len(PROMPTS))
        self.check(answers[::3])

    def test_a_cached_prompt_is_computed_all_the_same(self):
        request = {"prompt_token_ids": PROMPTS[0] * 4, "max_tokens": 1, "temperature": 0}
        plain, scored, after = run_jsonl([request, {**request, "prompt_logprobs": 0}, request], "--max-num-seqs", "1")
        self.assertEqual(scored["usage"]["cached_tokens"], 0)
        self.assertEqual(len(scored["prompt_logprobs"]), 4 * len(PROMPTS[0]))
        self.assertNotIn("prompt_logprobs", plain)
        self.assertGreater(after["usage"]["cached_tokens"], 0)
        self.assertEqual(plain["token_ids"], scored["token_ids"])


if __name__ == "__main__":
    unittest.main()
