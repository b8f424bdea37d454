"""nvllm-bench perplexity and task: what is scored, and what the scores add up to."""

import json
import math
import unittest

from bench_testing import BAD_DATA, NO_INPUT, USAGE, BenchTest
from programs import DEMO, SHARED, needs_shared, run


TEXT = "Once upon a time there was a little dog. The dog liked to play with a red ball in the park.\n" * 6


class Perplexity(BenchTest):
    def logprobs(self, text):
        """Of a text's tokens from the second on, as nvllm-run reports them."""
        answer = json.loads(run("-m", DEMO, "-p", text, "-n", 1, "--temperature", 0, "--prompt-logprobs", 0,
                                "--output-format", "json").stdout)
        return [token["logprob"] for token in answer["prompt_logprobs"] if token]

    def test_one_window_is_the_mean_of_the_prompts_logprobs(self):
        text = self.file("text.txt", TEXT)
        logprobs = self.logprobs(TEXT)
        result, table = self.result("perplexity", "-f", text)
        self.check_environment(result)
        self.assertEqual(result["num_tokens"], len(logprobs))
        self.assertAlmostEqual(result["perplexity"], math.exp(-sum(logprobs) / len(logprobs)), places=5)
        self.assertEqual((result["ppl_convention"], result["num_windows"]), ("hf", 1))
        self.assertIn("Final estimate: PPL = ", table)
        self.assertIn("convention hf", table)

    @needs_shared("models/stories260k")
    def test_the_perplexities_of_another_implementation(self):
        model = SHARED / "models" / "stories260k"
        for known in json.loads((model / "reference" / "perplexity.json").read_text()):
            text = self.file("text.txt", known["text"])
            result, _ = self.result("perplexity", "-m", model, "--dtype", "float32", "-f", text)
            self.assertEqual(result["num_tokens"], known["predicted_tokens"])
            self.assertAlmostEqual(result["perplexity"] / known["perplexity"], 1.0, delta=1e-5)

    def test_windows(self):
        text = self.file("text.txt", TEXT)
        total = self.result("perplexity", "-f", text)[0]["num_tokens"] + 1
        result, _ = self.result("perplexity", "-f", text, "-c", 32)
        self.assertEqual((result["num_windows"], result["num_tokens"]), (total // 32, total // 32 * 31))
        result, _ = self.result("perplexity", "-f", text, "-c", 32, "--ppl-convention", "llama.cpp")
        self.assertEqual((result["num_windows"], result["num_tokens"]), (total // 32, total // 32 * 15))
        result, _ = self.result("perplexity", "-f", text, "-c", 32, "--stride", 8)
        self.assertEqual(result["num_tokens"], total - 1)

    def test_divergence(self):
        text, base = self.file("text.txt", TEXT), self.folder / "base.rows"
        plain, _ = self.result("perplexity", "-f", text, "-c", 32, "--save-all-logits", base)
        same, table = self.result("perplexity", "--kl-divergence", "--kl-divergence-base", base)
        self.check_environment(same)
        self.assertEqual((same["mean_kld"], same["max_kld"], same["same_top"]), (0, 0, 1))
        self.assertEqual(same["num_tokens"], plain["num_tokens"])
        self.assertAlmostEqual(same["perplexity"], plain["perplexity"], places=5)
        self.assertIn("Mean KLD", table)
        other, _ = self.result("perplexity", "--kl-divergence", "--kl-divergence-base", base, "--dtype", "float32")
        self.assertGreater(other["mean_kld"], 0)
        self.assertLess(other["mean_kld"], 0.01)
        self.fails(USAGE, "perplexity", "--kl-divergence", says=["--kl-divergence-base"])
        self.fails(BAD_DATA, "perplexity", "--kl-divergence", "--kl-divergence-base", text, says=["text.txt"])
        base.write_bytes(base.read_bytes()[:-100])
        self.fails(BAD_DATA, "perplexity", "--kl-divergence", "--kl-divergence-base", base, says=["ends after"])
        self.fails(NO_INPUT, "perplexity", "--kl-divergence", "--kl-divergence-base", "/no/such", says=["/no/such"])

    def test_the_batch_changes_nothing(self):
        text = self.file("text.txt", TEXT)
        values = {self.result("perplexity", "-f", text, "-c", 24, "--max-num-seqs", batch)[0]["perplexity"]
                  for batch in (1, 7)}
        self.assertEqual(len(values), 1)

    def test_bad_input(self):
        text = self.file("text.txt", TEXT)
        self.fails(USAGE, "perplexity", says=["-f"])
        self.fails(NO_INPUT, "perplexity", "-f", "/no/such/file", says=["/no/such/file"])
        self.fails(BAD_DATA, "perplexity", "-f", self.file("empty.txt", ""), says=["empty.txt"])
        self.fails(USAGE, "perplexity", "-f", text, "--ppl-convention", "mine", says=["hf, llama.cpp"])
        self.fails(USAGE, "perplexity", "-f", text, "-c", 100000, says=["2048"])
        self.fails(USAGE, "perplexity", "-f", text, "-c", 8, "--stride", 9, says=["--stride"])


class Task(BenchTest):
    @needs_shared("models/stories260k")
    def test_the_sums_of_transformers(self):
        # Computed by transformers in float32: logprobs of the tokens that a choice adds to its context, summed.
        known = [("Once upon a time, there was a little girl named", ["Lily", "dog", "sad"], 0, [-0.0766, -10.2200, -18.8897]),
                 ("The cat sat on the", ["mat", "the the", "Once upon"], 0, [-8.4255, -14.6201, -18.2729]),
                 ("Tom was very happy. He", ["smiled", "cried and was sad", "x"], 1, [-9.8230, -15.8293, -14.8732])]
        lines = [json.dumps({"context": context, "choices": choices, "gold": gold}) for context, choices, gold, _ in known]
        tasks = self.file("tasks.jsonl", "\n".join(lines) + "\n")
        result, _ = self.result("task", tasks, "-m", SHARED / "models" / "stories260k", "--dtype", "float32")
        for sample, (_, _, _, sums) in zip(result["samples"], known, strict=True):
            for ours, expected in zip(sample["logprobs"], sums, strict=True):
                self.assertAlmostEqual(ours, expected, delta=2e-4)
        self.assertEqual([sample["acc"] for sample in result["samples"]], [1, 1, 0])
        self.assertEqual([sample["acc_norm"] for sample in result["samples"]], [1, 0, 1])

    def test_accuracy(self):
        lines = self.file("questions.jsonl", """
{"query": "Once upon a", "choices": ["time", "zebra", "quickly"], "gold": 0}
{"context": "Tom had a red ball. Tom liked to play with the red", "choices": ["moon.", "ball."], "answer": 1}

{"question": "Once upon a", "choices": ["zebra", "time"], "label": 0}
""")
        result, table = self.result("task", lines)
        self.check_environment(result)
        self.assertEqual([sample["acc"] for sample in result["samples"]], [1, 1, 0])
        self.assertEqual([len(sample["logprobs"]) for sample in result["samples"]], [3, 2, 2])
        self.assertAlmostEqual(result["acc"], 2 / 3)
        self.assertAlmostEqual(result["acc_stderr"], 1 / 3)
        self.assertEqual(result["samples"][0]["logprobs"][0], result["samples"][2]["logprobs"][1])
        self.assertIn("acc_norm", table)

    def test_bad_input(self):
        good = '{"query": "a", "choices": ["b", "c"], "gold": 0}\n'
        for bad in ('{"query": "a", "choices": ["b", "c"], "gold": 2}', '{"query": "a", "choices": ["b"], "gold": 0}',
                    '{"query": "a", "choices": ["b", ""], "gold": 0}', '{"choices": ["b", "c"], "gold": 0}', "[]",
                    '{"query": "a", "choices": ["b", "c"], "gold"', '{"query": 1, "choices": ["b", "c"], "gold": 0}'):
            self.fails(BAD_DATA, "task", self.file("bad.jsonl", good + bad), says=["bad.jsonl:2"])
        self.fails(BAD_DATA, "task", self.file("none.jsonl", "\n"), says=["none.jsonl"])
        self.fails(NO_INPUT, "task", "/no/such/file", says=["/no/such/file"])
        self.fails(USAGE, "task", says=["JSONL"])


if __name__ == "__main__":
    unittest.main()
