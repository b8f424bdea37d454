"""Continuous batching and prefix caching, asserted from the step log and from counts."""

import json
import pathlib
import tempfile
import unittest

from programs import run_jsonl


class ContinuousBatching(unittest.TestCase):
    def test_slots_stay_filled(self):
        requests = [{"prompt": "Once upon a time", "max_tokens": 5 + (index * 37) % 60, "ignore_eos": True, "seed": index}
                    for index in range(64)]
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "steps.jsonl"
            run_jsonl(requests, "--max-num-seqs", "8", "--step-log", log)
            steps = [json.loads(line) for line in log.read_text().splitlines()]
        waiting = [step for step in steps if step["num_waiting"] > 0]
        self.assertGreater(len(waiting), 20)
        filled = sum(step["num_sequences"] for step in waiting) / (8 * len(waiting))
        print(f"slots filled while work waits: {100 * filled:.1f} % over {len(waiting)} steps")
        self.assertGreater(filled, 0.95)
        for before, after in zip(waiting, waiting[1:]):
            if before["num_finished"] > 0 and after["plan_number"] == before["plan_number"] + 1:
                self.assertEqual(after["num_sequences"], 8)


class PrefixCaching(unittest.TestCase):
    def test_repeated_prefix_is_not_computed_again(self):
        shared = [(index * 13) % 1500 + 300 for index in range(512)]
        requests = [{"prompt_token_ids": shared + [400 + index] * 5, "max_tokens": 1, "temperature": 0} for index in range(4)]
        with tempfile.TemporaryDirectory() as folder:
            computed = {}
            for flag in ("--enable-prefix-caching", "--no-enable-prefix-caching"):
                log = pathlib.Path(folder) / "steps.jsonl"
                answers = run_jsonl(requests, flag, "--max-num-seqs", "1", "--step-log", log)
                computed[flag] = sum(json.loads(line)["num_tokens"] for line in log.read_text().splitlines())
                cached = [answer["usage"]["cached_tokens"] for answer in answers]
                expected = [0, 512, 512, 512] if flag == "--enable-prefix-caching" else [0, 0, 0, 0]
                self.assertEqual(cached, expected)
        self.assertEqual(computed["--no-enable-prefix-caching"] - computed["--enable-prefix-caching"], 3 * 512)

    def test_whole_prompt_again(self):
        request = {"prompt_token_ids": list(range(300, 300 + 512)), "max_tokens": 1, "temperature": 0}
        answers = run_jsonl([request, request], "--max-num-seqs", "1")
        # The last token is computed anew for its logits, so the last block is not taken from the cache.
        self.assertEqual([answer["usage"]["cached_tokens"] for answer in answers], [0, 496])
        self.assertEqual(answers[0]["token_ids"], answers[1]["token_ids"])


if __name__ == "__main__":
    unittest.main()
