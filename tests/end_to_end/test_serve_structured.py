"""Answers that are held to schemas and grammars, by nvllm-serve."""

import concurrent.futures
import json
import time
import unittest

from serve_testing import ServedTestCase, joined_text
from structured_testing import fault_of, schemas

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}, "sunny": {"type": "boolean"}},
          "required": ["city", "sunny"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "weather", "schema": SCHEMA, "strict": True}}
HOT = {"temperature": 1.5, "max_tokens": 300}
MESSAGES = [{"role": "user", "content": "How is the weather?"}]


class Structured(ServedTestCase):
    def chat_text(self, **fields):
        choice = self.server.chat(MESSAGES, **{**HOT, **fields})["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop")
        return choice["message"]["content"]

    def test_formats(self):
        for seed in range(3):
            self.assertIsNone(fault_of(self.chat_text(response_format=FORMAT, seed=seed), SCHEMA))
        text = self.server.chat(MESSAGES, response_format={"type": "json_object"}, max_tokens=20)["choices"][0]["message"]["content"]
        self.assertTrue(text.startswith("{"), text)
        for fields, pattern in (({"structured_outputs": {"regex": "[a-z]{4}"}}, "^[a-z]{4}$"), ({"guided_choice": ["red", "blue"]}, "^(red|blue)$"),
                                ({"grammar": 'root ::= "<" [0-9]{1,4} ">"'}, "^<[0-9]{1,4}>$"), ({"guided_regex": "ab?c"}, "^ab?c$")):
            self.assertRegex(self.chat_text(**fields), pattern)
        answer = self.server.post(CHAT, {"messages": MESSAGES, "guided_choice": ["x"], "guided_decoding_backend": "xgrammar"})
        self.assertEqual(answer.json()["choices"][0]["message"]["content"], "x")
        self.assertEqual(answer.headers["x-nvllm-ignored"], "guided_decoding_backend")

    def test_several_streams_and_choices(self):
        body = {"messages": MESSAGES, "response_format": FORMAT, "n": 3, "seed": 5, **HOT}
        chunks = self.server.stream(CHAT, body)
        whole = self.server.must(self.server.post(CHAT, body))
        for index in range(3):
            text = joined_text(chunks, index)
            self.assertEqual(text, whole["choices"][index]["message"]["content"])
            self.assertIsNone(fault_of(text, SCHEMA))

    def test_beside_others(self):
        made = schemas(12, seed=1)
        bodies = [{"prompt": f"Number {index}:", "seed": index, "json_schema": schema, **HOT} for index, schema in enumerate(made)]
        with concurrent.futures.ThreadPoolExecutor(16) as threads:
            held = [threads.submit(self.server.post, COMPLETIONS, body) for body in bodies]
            canaries = [threads.submit(self.server.canary) for _ in range(6)]
            for schema, answer in zip(made, held):
                choice = self.server.must(answer.result())["choices"][0]
                if choice["finish_reason"] == "stop":
                    self.assertIsNone(fault_of(choice["text"], schema))
            for canary in canaries:
                self.assertEqual(canary.result(), self.server.known_canary)

    def test_what_is_refused(self):
        body = {"prompt": "a", "max_tokens": 5}
        cases = [({"json_schema": {"type": "object", "properties": 5}}, None), ({"guided_regex": "("}, None),
                 ({"grammar": "root ::= missing"}, None), ({"guided_json": SCHEMA, "guided_regex": "a"}, "guided_regex"),
                 ({"response_format": {"type": "json_schema"}}, "response_format"), ({"structured_outputs": {}}, "structured_outputs"),
                 ({"guided_choice": []}, "guided_choice"), ({"guided_choice": ["a"], "use_beam_search": True, "n": 2}, "use_beam_search"),
                 ({"guided_choice": ["a"], "ignore_eos": True}, "ignore_eos"), ({"guided_whitespace_pattern": " "}, "guided_whitespace_pattern")]
        for fields, field in cases:
            with self.subTest(fields=fields):
                answer = self.server.post(COMPLETIONS, {**body, **fields})
                self.assertEqual(answer.status, 400, answer)
                if field is not None:
                    self.assertEqual(answer.error["param"], field)

    def test_hostile_schemas(self):
        deep = {"type": "string"}
        for _ in range(400):
            deep = {"type": "array", "items": deep}
        wide = {"type": "object", "properties": {f"p{number}": {"enum": [f"{number}-{value}" for value in range(50)]} for number in range(1500)}}
        exponential = {"$defs": {f"d{n}": {"anyOf": [{"type": "array", "prefixItems": [{"$ref": f"#/$defs/d{n + 1}"}] * 2}] * 2}
                                 for n in range(40)} | {"d40": {"type": "string"}}, "$ref": "#/$defs/d0"}
        regex = {"type": "string", "pattern": "^(([a-z]{1,99}){1,99}){1,99}$"}
        for name, schema in (("deep", deep), ("wide", wide), ("exponential", exponential), ("regex", regex)):
            with self.subTest(name):
                begin = time.monotonic()
                answer = self.server.post(COMPLETIONS, {"prompt": "a", "max_tokens": 2, "json_schema": schema})
                self.assertIn(answer.status, (200, 400), answer)
                print(f"{name}: {answer.status} after {time.monotonic() - begin:.2f} s")
        # In the meantime and afterwards others are answered: the canary of the test's end.

    def test_one_that_cannot_go_on_fails_alone(self):
        body = {"prompt": "a", "max_tokens": 30, "guided_regex": "[a-z]{2}", "min_tokens": 20}
        refused = self.server.post(COMPLETIONS, body)
        self.assertIn("no token is left", refused.text)
        self.assertEqual(self.server.canary(), self.server.known_canary)


if __name__ == "__main__":
    unittest.main()
