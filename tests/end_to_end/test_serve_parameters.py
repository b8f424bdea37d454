"""Row Q3 of the table of faults: every parameter at the ends of its range, beyond them, of a wrong type, and null."""

import unittest

from serve_testing import ServedTestCase

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
VOCABULARY = 2048
MESSAGES = [{"role": "user", "content": "Hi"}]


class Parameters(ServedTestCase):
    # name: (path, least, most, fields it needs); None: no end on that side.
    numbers = {
        "temperature": (COMPLETIONS, 0, 2, {}), "top_p": (COMPLETIONS, 0.001, 1, {}), "min_p": (COMPLETIONS, 0, 1, {}),
        "typical_p": (COMPLETIONS, 0.001, 1, {}), "top_n_sigma": (COMPLETIONS, 0, 100, {}), "top_h": (COMPLETIONS, 0, 1, {}),
        "epsilon_cutoff": (COMPLETIONS, 0, 1, {}), "eta_cutoff": (COMPLETIONS, 0, 1, {}),
        "repetition_penalty": (COMPLETIONS, 0.001, 10, {}), "presence_penalty": (COMPLETIONS, -2, 2, {}),
        "frequency_penalty": (COMPLETIONS, -2, 2, {}), "length_penalty": (COMPLETIONS, -10, 10, {}),
    }
    counts = {
        "n": (COMPLETIONS, 1, 128, {}), "best_of": (COMPLETIONS, 1, 128, {}), "top_k": (COMPLETIONS, -1, 2**31 - 1, {}),
        "max_tokens": (COMPLETIONS, 1, 2**31 - 1, {"stop": "e"}), "min_tokens": (COMPLETIONS, 0, 2, {"max_tokens": 2}),
        "no_repeat_ngram_size": (COMPLETIONS, 0, 2**31 - 1, {}), "min_length": (COMPLETIONS, 0, 2**31 - 1, {"max_tokens": 2}),
        "forced_bos_token_id": (COMPLETIONS, 0, VOCABULARY - 1, {}),
        "logprobs": (COMPLETIONS, 0, 20, {}), "prompt_logprobs": (COMPLETIONS, 0, 20, {}),
        "seed": (COMPLETIONS, -2**63, 2**63 - 1, {}), "priority": (COMPLETIONS, -2**31, 2**31 - 1, {}),
        "truncate_prompt_tokens": (COMPLETIONS, -1, 2**31 - 1, {}),
        "max_completion_tokens": (CHAT, 1, 2**31 - 1, {"stop": "e"}), "top_logprobs": (CHAT, 0, 20, {"logprobs": True}),
    }
    flags = {"stream": CHAT, "echo": COMPLETIONS, "ignore_eos": COMPLETIONS, "include_stop_str_in_output": COMPLETIONS,
             "skip_special_tokens": COMPLETIONS, "use_beam_search": COMPLETIONS, "return_progress": COMPLETIONS,
             "return_token_ids": COMPLETIONS, "return_tokens_as_token_ids": COMPLETIONS, "logprobs": CHAT}
    # name: (path, good values, values of a wrong type, values of the right type that are out of range)
    others = {
        "stop": (COMPLETIONS, ["a", ["a"] * 1024, "x" * 4096], [5, {}, [1], [["a"]]],
                 ["", ["a"] * 1025, "x" * 4097, [""], "é" * 2049, ["x" * 4096] * 5]),
        "stop_token_ids": (COMPLETIONS, [[], [1], [5] * 1024], ["1", {}, ["a"], [1.5]], [[-1], [VOCABULARY], [5] * 1025]),
        "allowed_token_ids": (COMPLETIONS, [[5], [5] * VOCABULARY], ["1", {}, ["a"]], [[-1], [VOCABULARY], [5] * (VOCABULARY + 1)]),
        "suppress_tokens": (COMPLETIONS, [[], [5], [5] * VOCABULARY], ["1", {}, ["a"]], [[-1], [VOCABULARY], [5] * (VOCABULARY + 1)]),
        "begin_suppress_tokens": (COMPLETIONS, [[], [5]], ["1", {}, ["a"]], [[-1], [VOCABULARY]]),
        "forced_eos_token_id": (COMPLETIONS, [5, [], [5, 6]], ["1", {}, ["a"]], [-1, [-1], [VOCABULARY]]),
        "exponential_decay_length_penalty": (COMPLETIONS, [[0, 1.5], [5, 0.5]], ["1", 5, {}, [1], ["a", 1.5], [1.5, 1.5]], [[-1, 1.5], [1, 0], [1, 11]]),
        "bad_words": (COMPLETIONS, [[], ["the"], ["a"] * 500], ["the", {}, [1]], [["a"] * 1025, ["x y " * 100]]),
        "logit_bias": (COMPLETIONS, [{}, {"5": 100}, {"5": -100}, {str(id): 1 for id in range(1024)}],
                       [[], "5", {"x": 1}, {"5": "a"}, {"5": None}, {"1.5": 1}, {"": 1}, {" 5": 1}],
                       [{"-1": 1}, {str(VOCABULARY): 1}, {"5": 100.1}, {"5": -101}, {str(id): 1 for id in range(1025)}]),
        "prompt": (COMPLETIONS, ["a", [1], ["a", "b"], [[1], [2, 3]], ["a"] * 2048], [5, True, {}, [None], [{}], [1, "a"], ["a", 1], [["a"]], [[1], "a"], [1.5]],
                   [[], [[]], [-1], [VOCABULARY], [[1], [VOCABULARY]], ["a"] * 2049]),
        "messages": (CHAT, [MESSAGES], ["a", 5, {}, [5], ["a"], [[]]], [[]]),
        "model": (COMPLETIONS, [], [5, [], {}, True], []),
        "stream_options": (CHAT, [], [5, "a", [], {"include_usage": 1}], []),
        "response_format": (CHAT, [{"type": "text"}, {"type": "json_object"}], ["text", 5, [], {}, {"type": 5}], [{"type": "sound"}]),
        "structured_outputs": (COMPLETIONS, [{"regex": "a+"}, {"json": True}], [5, "a", [], {}, {"regex": 5}], [{"color": "red"}]),
        "tools": (CHAT, [[]], ["x", 5, {}], [[{}] * 129]),
        "samplers": (COMPLETIONS, [["top_k", "top_p"]], ["top_k", 5, [1]], [["no_such"]]),
        "early_stopping": (COMPLETIONS, [True, False, "never"], [5, "sometimes", []], []),
        "cache_salt": (COMPLETIONS, ["", "a", "x" * 1000], [5, [], {}], []),
        "chat_template_kwargs": (CHAT, [{}, {"a": 1}], [5, "a", []], []),
    }

    def parameter_cases(self):
        """(path, fields, name, whether it must be taken, a number the message must hold or None)."""
        for name, (path, least, most, more) in self.numbers.items():
            for value in (least, most, (least + most) / 2):
                yield path, {**more, name: value}, name, True, None
            for value, end in ((most + 0.01, most), (most + 1, most), (1e30, most)):
                yield path, {**more, name: value}, name, False, end
            for value in (least - 0.01, least - 1, -1e30):
                yield path, {**more, name: value}, name, False, 0 if least == 0.001 else least
            for value in ("1", True, [], {}, [1]):
                yield path, {**more, name: value}, name, False, None
        for name, (path, least, most, more) in self.counts.items():
            for value in {least, most, least + 1}:
                yield path, {**more, name: value}, name, True, None
            for value in (least - 1, most + 1, least - 1000):
                yield path, {**more, name: value}, name, False, None
            for value in ("1", True, [], {}, 1.5):
                if not (name == "logprobs" and value is True):
                    yield path, {**more, name: value}, name, False, None
        for name, path in self.flags.items():
            for value in (True, False):
                yield path, {name: value}, name, True, None
            for value in (1, 0, "true", "", [], {}):
                yield path, {name: value}, name, False, None
        for name, (path, good, wrong, out_of_range) in self.others.items():
            for value in good:
                yield path, {name: value}, name, True, None
            for value in (*wrong, *out_of_range):
                more = {"stream": True} if name == "stream_options" else {}
                yield path, {**more, name: value}, name, False, None
        for name in (*self.numbers, *self.counts, *self.flags, *self.others):
            path = {**self.numbers, **self.counts, **self.others}[name][0] if name not in self.flags else self.flags[name]
            if name not in ("prompt", "messages"):
                yield path, {name: None}, name, True, None

    def test_Q3_parameters(self):
        connection = self.server.connection()
        num_cases = 0
        for path, fields, name, is_good, end in self.parameter_cases():
            base = {"prompt": "a"} if path == COMPLETIONS else {"messages": MESSAGES}
            body = {**base, "max_tokens": 1, **fields}
            if "max_completion_tokens" in fields:
                del body["max_tokens"]
            with self.subTest(name, value=str(fields[name])[:60]):
                answer = self.server.post(path, body, connection=connection)
                num_cases += 1
                if is_good:
                    self.assertEqual(answer.status, 200, answer)
                    continue
                self.assertEqual(answer.status, 400, answer)
                self.assertEqual(answer.error["type"], "invalid_request_error")
                self.assertIsNotNone(answer.error["param"], answer)
                self.assertRegex(answer.error["param"], rf"^{name}\b|^max_tokens$|^logprobs$", answer)
                self.assertIn(answer.error["param"].split("[")[0], answer.error["message"])
                if end is not None:
                    self.assertIn(str(end), answer.error["message"])
        connection.close()
        print(f"{num_cases} values of parameters")
        self.assertGreater(num_cases, 400)


if __name__ == "__main__":
    unittest.main()
