"""Answers that are held to schemas, expressions, choices and grammars, by nvllm-run: whatever else is in the batch, however
hot, however few blocks there are, and whatever becomes of the worker."""

import json
import os
import re
import signal
import subprocess
import time
import unittest

from programs import BIN, DEMO, MODULES, RUN, FolderTest, children, environment, run, run_jsonl, wait_until
from structured_testing import fault_of, schemas

USAGE, BAD_DATA = 64, 65
SCHEMA = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0,
                                                                                              "maximum": 120}},
          "required": ["name", "age"], "additionalProperties": False}
SANITIZED = bool(os.environ.get("NVLLM_SANITIZED"))


def held(index, schema, **more):
    return {"prompt": f"Story {index}: once upon a time", "max_tokens": 500, "temperature": 1.5, "seed": index,
            "structured_outputs": {"json": schema}, **more}


def free(index):
    return {"prompt": f"Tale {index}: once upon a time", "max_tokens": 30 + index, "temperature": 0.8 * (index % 2), "seed": index,
            "ignore_eos": True}


def tokens_of(answers):
    """The token ids of every choice, which has a line of its own."""
    return [(answer["index"], answer["token_ids"]) for answer in answers]


def lines_of(requests, *arguments):
    """The answers of a batch in which some fail."""
    done = run("-m", DEMO, "--input-format", "jsonl", "--output-format", "jsonl", *arguments, check=False,
               stdin="".join(json.dumps(request) + "\n" for request in requests))
    return [json.loads(line) for line in done.stdout.splitlines()]


class StructuredOutput(FolderTest):
    def assert_valid(self, requests, answers):
        """Every answer that came to its end is valid, and nearly all come to it."""
        num_ended = num_choices = 0
        for answer in answers:
            self.assertNotIn("error", answer)
            schema = requests[answer["index"]].get("structured_outputs", {}).get("json")
            num_choices += schema is not None
            if schema is not None and answer["finish_reason"] == "stop":
                num_ended += 1
                self.assertIsNone(fault_of(answer["text"], schema), (answer["text"], schema))
        self.assertGreater(num_ended, 0.7 * num_choices)

    def test_the_same_valid_answers_every_way(self):
        made = [held(index, schema, n=3 if index % 3 == 0 else 1) for index, schema in enumerate(schemas(4 if SANITIZED else 8))]
        others = [free(index) for index in range(len(made))]
        mixed = [request for pair in zip(made, others) for request in pair]
        answers = run_jsonl(mixed)
        self.assert_valid(mixed, answers)
        # Those that are held to nothing are as they are alone.
        alone = [answer["token_ids"] for answer in run_jsonl(others)]
        beside = [answer["token_ids"] for answer in answers if answer["index"] % 2]
        self.assertEqual(beside, alone)
        log = self.folder / "steps.jsonl"
        for ways in (("--max-num-seqs", "2", "--threads", "1"), ("--isolation", "process", "--prefill-chunk-size", "7"),
                     ("--max-blocks", "44", "--block-size", "16", "--max-model-len", "640", "--step-log", log)):
            with self.subTest(ways=ways):
                self.assertEqual(tokens_of(run_jsonl(mixed, *ways)), tokens_of(answers))
        steps = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertGreater(steps[-1]["num_preemptions"], 0)

    def test_a_worker_that_is_killed(self):
        made = [held(index, schema) for index, schema in enumerate(schemas(6))]
        expected = tokens_of(run_jsonl(made))
        env = environment(NVLLM_FAULTS="worker.step:*=sleep=3")
        process = subprocess.Popen([RUN, "-m", DEMO, "--input-format", "jsonl", "--output-format", "jsonl", "--isolation", "process"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)
        with process:
            process.stdin.write("".join(json.dumps(request) + "\n" for request in made))
            process.stdin.close()
            process.stdin = None
            killed = set()
            for _ in range(2):
                # A worker that was killed may be a child for a while yet.
                worker = wait_until(lambda: next((pid for pid in children(process.pid) if pid not in killed), None))
                time.sleep(0.15)
                self.assertIsNone(process.poll(), "the answers ended before a worker was killed")
                os.kill(worker, signal.SIGKILL)
                killed.add(worker)
            out, _ = process.communicate()
        self.assertEqual(tokens_of([json.loads(line) for line in out.splitlines()]), expected)

    @unittest.skipUnless((MODULES / "libnanovllm_cuda_emulated.so").exists(), "this build has no emulated kernels")
    def test_an_emulated_device(self):
        made = [{"prompt": "Hi", "temperature": 1.5, "structured_outputs": {"choice": ["<<ok>>", "<<no>>"]}}]  # a token takes a second
        env = environment(NVLLM_BACKEND_PATH=str(MODULES))
        answer, = run_jsonl(made, "--device", "cuda_emulated", "--async-scheduling", env=env)
        self.assertIn(answer["text"], made[0]["structured_outputs"]["choice"])
        self.assertEqual(answer["finish_reason"], "stop")

    def test_texts_that_must_follow_come_in_few_steps(self):
        """Those that the model would write as well; of others it may choose other tokens."""
        prompts = ["Once upon a time", "Two friends", "In a small village"]
        free = run_jsonl([{"prompt": prompt, "max_tokens": 40, "temperature": 0} for prompt in prompts])
        made = [{"prompt": prompt, "temperature": 0, "logprobs": 1, "structured_outputs": {"regex": re.escape(answer["text"]) + "[AB]"}}
                for prompt, answer in zip(prompts, free)]
        made += [held(index, schema, logprobs=1) for index, schema in enumerate(schemas(2))]
        answers, steps = {}, {}
        for speculative in (True, False):
            requests = [dict(request, speculative=speculative) for request in made]
            answers[speculative] = [(answer["token_ids"], answer["logprobs"], answer["text"]) for answer in run_jsonl(requests)]
            log = self.folder / f"{speculative}.jsonl"
            run_jsonl(requests[:3], "--step-log", log)
            steps[speculative] = sum(json.loads(line)["num_sequences"] for line in log.read_text().splitlines())
        self.assertEqual(answers[True], answers[False])
        self.assertLess(steps[True], 0.4 * steps[False])

    def test_flags(self):
        file = self.folder / "schema.json"
        file.write_text(json.dumps(SCHEMA))
        rules = self.folder / "rules.gbnf"
        rules.write_text('root ::= ("yes" | "no") " " [0-9]{2}\n')
        hot = ("-m", DEMO, "-p", "Once", "--temperature", "1.5", "-n", "200")
        for flags in (("--json-schema", file), ("--json-schema", json.dumps(SCHEMA)), ("-j", json.dumps(SCHEMA)),
                      ("--json-schema-file", file)):
            self.assertIsNone(fault_of(run(*hot, *flags).stdout, SCHEMA))
        for flags, expected in ((("--regex", "[A-Z][a-z]{3}-[0-9]"), r"[A-Z][a-z]{3}-[0-9]"), (("--choice", '["left", "right"]'), "left|right"),
                                (("--grammar", rules), "(yes|no) [0-9]{2}"), (("--grammar-file", rules), "(yes|no) [0-9]{2}"),
                                (("--grammar", 'root ::= "a"{3}'), "aaa")):
            self.assertRegex(run(*hot, *flags).stdout.removesuffix("\n"), f"^({expected})$", flags)
        self.assertTrue(run(*hot[:4], "--temperature", "0", "-n", "20", "--json-object").stdout.startswith("{"))
        for flags, says in ((("--regex", "a", "--choice", '["b"]'), "--regex and --choice"), (("--choice", "b"), "--choice"), (("--choice", "[5]"), "--choice")):
            failed = run(*hot, *flags, check=False)
            self.assertEqual(failed.returncode, USAGE)
            self.assertIn(says, failed.stderr)
        # What is wrong with a grammar is that request's fault.
        for flags in (("--json-schema", '{"type": "nonsense"}'), ("--regex", "("), ("--grammar", "root ::= other")):
            self.assertEqual(run(*hot, *flags, check=False).returncode, BAD_DATA, flags)

    def test_fields(self):
        same = [{"structured_outputs": {"json": SCHEMA}}, {"guided_json": SCHEMA}, {"guided_json": json.dumps(SCHEMA)},
                {"json_schema": SCHEMA}, {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}},
                {"response_format": {"type": "json_object", "schema": SCHEMA}}]
        body = {"prompt": "Once", "max_tokens": 200, "temperature": 1.5, "seed": 3}
        answers = run_jsonl([{**body, **fields} for fields in same])
        self.assertEqual([answer["token_ids"] for answer in answers], [answers[0]["token_ids"]] * len(same))
        self.assertIsNone(fault_of(answers[0]["text"], SCHEMA))
        expected = {"structured_outputs": {"regex": "x[0-9]{2}"}, "guided_regex": "x[0-9]{2}"}
        answers = run_jsonl([{**body, name: value} for name, value in expected.items()]
                            + [{**body, "guided_choice": ["a b", "c\nd"]}, {**body, "grammar": 'root ::= "é" [a-c]'},
                               {**body, "structured_outputs": {"choice": ["ö"]}}, {**body, "response_format": {"type": "text"}, "max_tokens": 5}],
                            "--regex", "never")
        for answer, pattern in zip(answers, ("x[0-9]{2}", "x[0-9]{2}", "a b|c\nd", "é[a-c]", "ö")):
            self.assertRegex(answer["text"], f"^({pattern})$")
            self.assertEqual(answer["finish_reason"], "stop")
        # A line that says what it is held to goes before the flag, also when that is nothing.
        self.assertEqual(answers[5]["finish_reason"], "length")
        self.assertEqual(run_jsonl([body], "--regex", "never")[0]["text"], "never")

    def test_what_contradicts_a_grammar(self):
        body = {"prompt": "Once", "max_tokens": 50, "temperature": 1.0, "seed": 1, "guided_regex": "[a-z]{3}"}
        answers = lines_of([{**body, "json_schema": {}}, {**body, "use_beam_search": True, "n": 2, "temperature": 0}, {**body, "ignore_eos": True},
                            {**body, "min_tokens": 40}, {**body, "allowed_token_ids": [1]}, body])
        for answer, parts in zip(answers, (("guided_regex", "json_schema"), ("use_beam_search",), ("ignore_eos",), ("min_tokens", "grammar"),
                                           ("no token is left",))):
            for part in parts:
                self.assertIn(part, json.dumps(answer))
        self.assertRegex(answers[5]["text"], "^[a-z]{3}$")

    def test_a_stop_string_and_a_length_end_an_answer_early(self):
        body = {"prompt": "Once", "temperature": 1.0, "seed": 1, "guided_regex": "[a-c]{9}END[a-c]{9}", "max_tokens": 90}
        stopped, cut = run_jsonl([{**body, "stop": "END"}, {**body, "max_tokens": 3}])
        self.assertTrue(re.fullmatch("[a-c]{9}", stopped["text"]) and stopped["finish_reason"] == "stop")
        self.assertEqual(cut["finish_reason"], "length")


if __name__ == "__main__":
    unittest.main()
