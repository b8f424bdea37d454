"""What generation_config.json and tokenizer_config.json say is followed or named, as a user of the programs sees it."""

import json
import os
import pathlib
import tempfile
import unittest

from programs import DEMO, environment, run, run_jsonl

PROMPT = "Once upon a time"


class ChangedModel:
    """The demo model with other small files."""

    def __init__(self, **files):
        self.folder = tempfile.TemporaryDirectory()
        for file in pathlib.Path(DEMO).iterdir():
            os.symlink(file, pathlib.Path(self.folder.name) / file.name)
        for name, changes in files.items():
            path = pathlib.Path(self.folder.name) / f"{name}.json"
            known = json.loads(path.read_text()) if path.exists() else {}
            path.unlink(missing_ok=True)
            path.write_text(json.dumps({**known, **changes}))

    def __enter__(self):
        return self.folder.name

    def __exit__(self, *_):
        self.folder.cleanup()


def with_generation(**keys):
    return ChangedModel(generation_config={"do_sample": False, **keys})


def batch(model, requests, exit_code, env=None):
    """Answers to a batch of which a line is wrong, so that the program says so at the end."""
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    done = run("-m", model, "--input-format", "jsonl", "--output-format", "jsonl", stdin=lines, check=False, env=env)
    assert done.returncode == exit_code, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def answers(model, *requests):
    return run_jsonl([{"prompt": PROMPT, "ignore_eos": True, **request} for request in requests], model=model)


class GenerationConfig(unittest.TestCase):
    def test_lengths_hold_where_a_request_says_none(self):
        with with_generation(max_new_tokens=7) as model:
            plain, longer = answers(model, {}, {"max_tokens": 9})
            self.assertEqual([len(plain["token_ids"]), len(longer["token_ids"])], [7, 9])
            done = run("-m", model, "-p", PROMPT, "--ignore-eos", "--output-format", "json")
            self.assertEqual(len(json.loads(done.stdout)["token_ids"]), 7)
        with with_generation(max_length=20) as model:
            plain, longer = answers(model, {}, {"max_tokens": 30})
            too_long = batch(model, [{"prompt": PROMPT * 6}], 65)[0]
            self.assertEqual(len(plain["prompt_token_ids"]) + len(plain["token_ids"]), 20)
            self.assertEqual(len(longer["token_ids"]), 30)
            self.assertIn("max_length 20", json.dumps(too_long["error"]))

    def test_no_end_before_the_least_length_unless_a_shorter_answer_is_asked_for(self):
        with with_generation(max_new_tokens=30) as model:
            end = answers(model, {})[0]["token_ids"][3]
        with with_generation(max_new_tokens=30, eos_token_id=end, min_new_tokens=12) as model:
            kept, short = answers(model, {"ignore_eos": False}, {"ignore_eos": False, "max_tokens": 5})
            self.assertGreaterEqual(len(kept["token_ids"]), 12)
            self.assertNotIn(end, kept["token_ids"][:12])
            self.assertEqual(len(short["token_ids"]), 5)
        with with_generation(max_new_tokens=30, eos_token_id=end, min_length=25) as model:
            kept = answers(model, {"ignore_eos": False})[0]
            least = 25 - len(kept["prompt_token_ids"])
            self.assertNotIn(end, kept["token_ids"][:least])

    def test_tokens_that_are_forbidden_and_forced(self):
        with with_generation(max_new_tokens=24) as model:
            first = answers(model, {})[0]["token_ids"]
        with with_generation(max_new_tokens=24, suppress_tokens=[first[1], 10**6], begin_suppress_tokens=[first[0]]) as model:
            steered, free = answers(model, {}, {"suppress_tokens": [], "begin_suppress_tokens": []})
            self.assertNotIn(first[1], steered["token_ids"])
            self.assertNotEqual(steered["token_ids"][0], first[0])
            self.assertEqual(free["token_ids"], first)
        with with_generation(max_new_tokens=24, bad_words_ids=[first[2:4], [10**6]]) as model:
            pairs = list(zip(answers(model, {})[0]["token_ids"], answers(model, {})[0]["token_ids"][1:]))
            self.assertNotIn(tuple(first[2:4]), pairs)
        with with_generation(max_new_tokens=6, forced_eos_token_id=[first[0]]) as model:
            self.assertEqual(answers(model, {})[0]["token_ids"][-1], first[0])

    def test_no_sequence_comes_twice(self):
        with with_generation(max_new_tokens=40, no_repeat_ngram_size=1) as model:
            strict, free = answers(model, {}, {"no_repeat_ngram_size": 0})
            tokens = strict["prompt_token_ids"] + strict["token_ids"]
            self.assertEqual(len(set(tokens)), len(tokens))
            self.assertLess(len(set(free["token_ids"])), len(free["token_ids"]))
            flags = run("-m", model, "-p", PROMPT, "--ignore-eos", "--no-repeat-ngram-size", "0", "--output-format", "json")
            self.assertEqual(json.loads(flags.stdout)["token_ids"], free["token_ids"])

    def test_stop_strings(self):
        with with_generation(max_new_tokens=40) as model:
            text = answers(model, {})[0]["text"]
        stop = text.split()[3]
        with with_generation(max_new_tokens=40, stop_strings=stop) as model:
            self.assertEqual(answers(model, {})[0]["text"], text[:text.index(stop)])


class TokenizerConfig(unittest.TestCase):
    def test_a_broken_template_stops_no_plain_prompt(self):
        with ChangedModel(tokenizer_config={"chat_template": {"default": 7}}) as model:
            plain, chat = batch(model, [{"prompt": PROMPT, "max_tokens": 2},
                                        {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}], 65)
            self.assertEqual(len(plain["token_ids"]), 2)
            self.assertIn("chat template", json.dumps(chat["error"]))

    def test_the_time_of_templates_can_be_set(self):
        template = "{{ strftime_now('%Y-%m-%d') }} {{ image_token }}{{ messages[0].content }}"
        with ChangedModel(tokenizer_config={"chat_template": template, "image_token": "<|pad|>"}) as model:
            request = [{"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}]
            days = [run_jsonl(request, model=model, env=environment(NVLLM_NOW=day))[0]["prompt_token_ids"]
                    for day in ("2026-01-02", "2026-01-03", "2026-01-02")]
            self.assertEqual(days[0], days[2])
            self.assertNotEqual(days[0], days[1])
            wrong = batch(model, request, 78, env=environment(NVLLM_NOW="soon"))[0]
            self.assertIn("NVLLM_NOW", json.dumps(wrong["error"]))


if __name__ == "__main__":
    unittest.main()
