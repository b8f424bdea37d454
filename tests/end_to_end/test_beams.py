"""Beam search and best_of: the answers of transformers, whatever else the engine does meanwhile."""

import json
import pathlib
import tempfile
import unittest

from programs import DEMO, SHARED, SOURCE, needs_shared, run, run_jsonl

CASES = json.loads((SOURCE / "tests" / "fixtures" / "beams" / "searches.json").read_text())
MODELS = {"demo": SOURCE / "models" / "demo", "draft": SOURCE / "models" / "demo-draft",
          **{f"tiny-{name}": SOURCE / "tests" / "fixtures" / "families" / name for name in ("llama", "qwen3", "gemma3", "mixtral", "gpt2")}}


def requests(cases):
    fields = ("prompt_token_ids", "length_penalty", "early_stopping", "max_tokens", "stop_token_ids")
    return [{**{field: case[field] for field in fields}, "n": case["best_of"], "use_beam_search": True, "ignore_eos": True}
            for case in cases]


class BeamSearch(unittest.TestCase):
    def compare(self, model, cases, *arguments):
        answers = run_jsonl(requests(cases), "--dtype", "float32", *arguments, model=str(model))
        answers.reverse()
        for case in cases:
            for expected in case["answers"]:
                answer = answers.pop()
                self.assertNotIn("error", answer)
                self.assertEqual(answer["token_ids"], expected["token_ids"], case)
                self.assertAlmostEqual(answer["cumulative_logprob"], expected["score"], delta=1e-4)
        self.assertFalse(answers)

    def test_the_searches_of_transformers(self):
        compared = 0
        for name, folder in MODELS.items():
            with self.subTest(name):
                cases = [case for case in CASES if case["model"] == name]
                self.compare(folder, cases)
                compared += len(cases)
        print(f"{compared} searches equal those of transformers")

    @needs_shared("models/stories260k")
    def test_a_trained_model_nobody_here_made(self):
        self.compare(SHARED / "models" / "stories260k", [case for case in CASES if case["model"] == "stories260k"])

    def test_settings_change_nothing(self):
        cases = [case for case in CASES if case["model"] == "demo"][::3]
        tight = ("--kv-cache-memory-bytes", "1200k", "--max-model-len", "64", "--block-size", "2")
        for arguments in (("--no-enable-prefix-caching",), ("--block-size", "1"), ("--prefill-chunk-size", "1"),
                          ("--max-num-seqs", "5"), ("--scheduling-policy", "hybrid"), tight, (*tight, "--no-enable-prefix-caching")):
            with self.subTest(arguments):
                self.compare(MODELS["demo"], cases, *arguments)

    def test_blocks_are_shared(self):
        # A prompt of 1,500 tokens and eight beams, in a cache that holds little more than one prompt.
        request = {"prompt_token_ids": [5 + index % 1900 for index in range(1500)], "max_tokens": 40, "n": 8,
                   "use_beam_search": True, "ignore_eos": True, "early_stopping": "never"}
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "steps.jsonl"
            answers = run_jsonl([request], "--step-log", log, "--no-enable-prefix-caching")
            steps = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual(len(answers), 8)
        # The prompt once, then eight tokens a step.
        self.assertEqual(sum(step["num_tokens"] for step in steps), 1500 + 8 * 39)

    def test_what_cannot_be_combined_is_refused(self):
        for field, value in (("repetition_penalty", 1.2), ("stop", ["x"]), ("logprobs", 2), ("min_tokens", 2)):
            answer = json.loads(run("-m", DEMO, "--input-format", "jsonl", "--output-format", "jsonl",
                                    stdin=json.dumps({"prompt": "a", "use_beam_search": True, "n": 2, "max_tokens": 4, field: value}),
                                    check=False).stdout)
            self.assertIn(field, answer["error"]["message"])


class BestOf(unittest.TestCase):
    def test_the_likeliest_of_all_are_given(self):
        common = {"prompt": "Once upon a time", "max_tokens": 20, "seed": 5}
        every = run_jsonl([{**common, "n": 8, "logprobs": 0}])
        best = run_jsonl([{**common, "best_of": 8, "n": 2}])
        ranked = sorted(every, key=lambda answer: -answer["cumulative_logprob"])
        self.assertEqual([answer["token_ids"] for answer in best], [answer["token_ids"] for answer in ranked[:2]])
        self.assertEqual([answer["choice"] for answer in best], [0, 1])
        self.assertIsNone(best[0]["logprobs"])

    def test_fewer_than_n_is_refused(self):
        done = run("-m", DEMO, "-p", "x", "-n", "4", "--n", "3", "--best-of", "2", check=False)
        self.assertEqual(done.returncode, 65)
        self.assertIn("best_of", done.stderr)


if __name__ == "__main__":
    unittest.main()
