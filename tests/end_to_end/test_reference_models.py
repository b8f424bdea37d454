"""Greedy ids of real trained models, through the built program, against published references."""

import json
import pathlib
import unittest

from programs import DEMO, SHARED, SOURCE, needs_shared, run_jsonl

# Below these margins between the best and the second logit another choice is a tie of that arithmetic, not a fault. The
# references say "about 0.1" for bfloat16: logits of 12 have a spacing of 0.0625 there.
TIES = {"float32": 0.01, "bfloat16": 0.12}


class ReferenceModels(unittest.TestCase):
    def compare(self, model, cases, dtype):
        requests = [{"prompt_token_ids": case["prompt_ids"], "temperature": 0, "max_tokens": len(case["greedy_ids"])}
                    for case in cases]
        answers = run_jsonl(requests, "--dtype", dtype, model=str(model))
        exact = 0
        for case, answer in zip(cases, answers, strict=True):
            expected = case["greedy_ids"]
            margins = case.get("margins", [case.get("min_margin", 1.0)] * len(expected))
            ties = [step for step, margin in enumerate(margins) if margin < TIES[dtype]]
            upto = ties[0] if ties and answer["token_ids"] != expected else len(expected)
            self.assertEqual(answer["token_ids"][:upto], expected[:upto])
            exact += answer["token_ids"] == expected
        print(f"{model.name} {dtype}: {exact} of {len(cases)} exact to the end")

    def cases(self, path):
        return [json.loads(line) for line in path.read_text().splitlines()]

    @needs_shared("models")
    def test_shared_models(self):
        for name in ("stories260k", "capp-gpt2"):
            model = SHARED / "models" / name
            for dtype in TIES:
                self.compare(model, self.cases(model / "reference" / "greedy.jsonl"), dtype)

    @needs_shared("models/stories260k")
    def test_published_story(self):
        model = SHARED / "models" / "stories260k"
        story = (model / "reference" / "documented_story.txt").read_text()
        answer = run_jsonl([{"prompt_token_ids": [1], "temperature": 0, "max_tokens": 256, "ignore_eos": True}],
                           "--dtype", "float32", model=str(model))[0]
        self.assertEqual(answer["text"].strip()[:len(story.strip())], story.strip())

    @needs_shared("models/stories260k")
    def test_logprobs_of_given_text(self):
        model = SHARED / "models" / "stories260k"
        texts = json.loads((model / "reference" / "perplexity.json").read_text())
        requests = [{"prompt_token_ids": text["ids"], "max_tokens": 1, "prompt_logprobs": 0} for text in texts]
        for text, answer in zip(texts, run_jsonl(requests, "--dtype", "float32", model=str(model)), strict=True):
            losses = [-entry["logprob"] for entry in answer["prompt_logprobs"][1:]]
            self.assertEqual(len(losses), text["predicted_tokens"])
            for ours, expected in zip(losses, text["nll_per_token"]):
                self.assertAlmostEqual(ours, expected, delta=1e-4)
            self.assertAlmostEqual(sum(losses) / len(losses), text["mean_nll"], delta=1e-5)

    def test_bundled_models(self):
        fixtures = SOURCE / "tests" / "fixtures" / "demo"
        self.compare(pathlib.Path(DEMO), self.cases(fixtures / "greedy.jsonl"), "float32")
        self.compare(SOURCE / "models" / "demo-draft", self.cases(fixtures / "draft_greedy.jsonl"), "float32")

    def test_chat_template(self):
        cases = self.cases(SOURCE / "tests" / "fixtures" / "demo" / "chat.jsonl")
        requests = [{"messages": case["messages"], "add_generation_prompt": case["add_generation_prompt"], "max_tokens": 1}
                    for case in cases]
        special = {token["id"] for token in json.loads((pathlib.Path(DEMO) / "tokenizer.json").read_text())["added_tokens"]}
        guarded = run_jsonl(requests)
        for case, answer, plain in zip(cases, run_jsonl(requests, "--allow-special-in-messages"), guarded, strict=True):
            self.assertEqual(answer["prompt_token_ids"], case["ids"])
            # transformers lets contents become special tokens; without the flag only the template places them.
            written = "".join(message["content"] for message in case["messages"])
            if "<|" not in written:
                self.assertEqual(plain["prompt_token_ids"], case["ids"])
            else:
                count = lambda ids: sum(token in special for token in ids)
                self.assertLess(count(plain["prompt_token_ids"]), count(case["ids"]))


if __name__ == "__main__":
    unittest.main()
