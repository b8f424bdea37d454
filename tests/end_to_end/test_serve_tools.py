"""Tools and reasoning in chats, by models that say what is written here (scripted_model.py)."""

import json
import pathlib
import tempfile
import unittest

from scripted_model import write_scripted_model
from serve_testing import Server

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "%s"}}\n</tool_call>'
LONG_CITY = 'Llanfair, where the \\"river\\" bends twice before it reaches the old bridge, the mill and the sea'
ARGUMENTS = '{"city": "%s"}' % LONG_CITY
STRICT = {"type": "function", "function": {**WEATHER["function"], "strict": True}}
NAMED = {"type": "function", "function": {"name": "get_weather"}}
THINKER = [
    ["Easy.\n</think>\n\nHello there."],
    ["I should look.\n</think>\n\nOne moment." + CALL % "Paris" + "\n" + CALL % "Oslo", "Fine.</think>It is 21 degrees."],
    ["Hm.</think>" + '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par'],
    ["I never stop thinking"],
    ["</think>" + CALL % "Rome"],
    ["Long.</think>" + CALL % LONG_CITY],
    ["Long.</think>" + CALL % LONG_CITY[:30] + "\n" + CALL % "Oslo"],
]
PLAIN = [["[TOOL_CALLS][{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\"}}]", "Snow."], ["Good <b>day</b>."]]


def joined(chunks, index=0):
    """A stream's deltas of a choice put together as clients do it, and how it finished."""
    message, finish = {"tool_calls": []}, None
    for chunk in chunks:
        for choice in chunk["choices"]:
            if choice["index"] != index:
                continue
            finish = choice["finish_reason"] or finish
            for key in ("role", "content", "reasoning_content", "reasoning"):
                if key in choice["delta"]:
                    message[key] = message.get(key, "") + choice["delta"][key]
            for call in choice["delta"].get("tool_calls", []):
                calls = message["tool_calls"]
                if call["index"] == len(calls):
                    calls.append({"id": call["id"], "type": call["type"],
                                  "function": {"name": call["function"]["name"], "arguments": ""}})
                calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]
    return message, finish


def call_deltas(chunks, index=0):
    """Of the call of this number in a stream."""
    return [call for chunk in chunks for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", [])
            if call["index"] == index]


class ToolTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = pathlib.Path(folder.name)
        thinker = write_scripted_model(path / "thinker", THINKER, "tools <tool_call> </think>", thinks=True)
        plain = write_scripted_model(path / "plain", PLAIN, "tools [TOOL_CALLS]", special=["[TOOL_CALLS]"])
        cls.server = Server("--model", f"plain={plain}", "--enable-auto-tool-choice", model=f"thinker={thinker}")
        cls.addClassCleanup(cls.server.stop)

    def chat(self, scenario, model="thinker", **fields):
        body = {"model": model, "messages": [{"role": "user", "content": f"{scenario} What is the weather?"}],
                "temperature": 0, **fields}
        return self.server.post("/v1/chat/completions", body)

    def choice(self, scenario, **fields):
        """Of a whole answer; a stream must give the same, ids included."""
        whole = self.server.must(self.chat(scenario, **fields))["choices"][0]
        chunks = self.chat(scenario, stream=True, **fields).chunks()
        message, finish = joined(chunks)
        self.assertEqual(finish, whole["finish_reason"])
        self.assertEqual(message.get("content") or "", whole["message"]["content"] or "")
        self.assertEqual(message.get("reasoning_content"), whole["message"].get("reasoning_content"))
        self.assertEqual([call["function"] for call in message["tool_calls"]],
                         [call["function"] for call in whole["message"].get("tool_calls", [])])
        return whole

    def test_the_formats_are_found(self):
        self.assertIn("tool calls are read as hermes", self.server.log)
        self.assertIn("reasoning is told apart as qwen3", self.server.log)
        self.assertIn("tool calls are read as mistral", self.server.log)

    def test_reasoning_is_told_apart_and_counted(self):
        choice = self.choice(0)
        message = choice["message"]
        self.assertEqual((message["content"], message["reasoning_content"]), ("Hello there.", "Easy."))
        self.assertEqual(message["reasoning"], "Easy.")
        self.assertEqual(choice["finish_reason"], "stop")
        usage = self.server.must(self.chat(0))["usage"]
        self.assertEqual(usage["completion_tokens_details"]["reasoning_tokens"], len("Easy.\n</think>"))
        hidden = self.choice(0, include_reasoning=False)["message"]
        self.assertNotIn("reasoning_content", hidden)
        self.assertEqual(hidden["content"], "Hello there.")

    def test_a_thought_that_the_template_leaves_out(self):
        for fields in ({"chat_template_kwargs": {"enable_thinking": False}}, {"enable_thinking": False},
                       {"reasoning_effort": "none"}):
            message = self.choice(0, **fields)["message"]
            self.assertEqual(message["content"], "Easy.\n</think>\n\nHello there.", fields)
            self.assertNotIn("reasoning_content", message)

    def test_a_thought_without_an_end(self):
        message = self.choice(3)["message"]
        self.assertEqual((message["content"], message["reasoning_content"]), (None, "I never stop thinking"))

    def test_calls_and_their_answer(self):
        choice = self.choice(1, tools=[WEATHER])
        message = choice["message"]
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertEqual(message["content"], "One moment.")
        self.assertEqual(message["reasoning_content"], "I should look.")
        calls = message["tool_calls"]
        self.assertEqual([json.loads(call["function"]["arguments"]) for call in calls], [{"city": "Paris"}, {"city": "Oslo"}])
        self.assertEqual({call["type"] for call in calls}, {"function"})
        self.assertEqual(len({call["id"] for call in calls}), 2)
        for call in calls:
            self.assertRegex(call["id"], "^[A-Za-z0-9]{9}$")
        history = [{"role": "user", "content": "1 What is the weather?"}, message,
                   *({"role": "tool", "tool_call_id": call["id"], "content": "21"} for call in calls)]
        last = self.server.must(self.server.post("/v1/chat/completions", {
            "model": "thinker", "messages": history, "tools": [WEATHER], "temperature": 0}))["choices"][0]
        self.assertEqual((last["message"]["content"], last["finish_reason"]), ("It is 21 degrees.", "stop"))

    def test_no_two_requests_have_the_same_ids(self):
        ids = set()
        for _ in range(3):
            message = self.server.must(self.chat(4, tools=[WEATHER]))["choices"][0]["message"]
            ids.add(message["tool_calls"][0]["id"])
        self.assertEqual(len(ids), 3)

    def test_a_broken_call_is_text(self):
        choice = self.choice(2, tools=[WEATHER])
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertEqual(choice["message"]["content"], '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par')
        self.assertNotIn("tool_calls", choice["message"])

    def test_cut_off_is_no_call(self):
        choice = self.choice(1, tools=[WEATHER], max_tokens=60)
        self.assertEqual(choice["finish_reason"], "length")

    def test_without_tools_calls_are_text(self):
        for fields in ({}, {"tools": [WEATHER], "tool_choice": "none"}):
            message = self.choice(4, **fields)["message"]
            self.assertEqual(message["content"], CALL % "Rome")
            self.assertNotIn("tool_calls", message)

    def test_markers_that_are_special_tokens(self):
        choice = self.choice(0, model="plain", tools=[WEATHER])
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertEqual(choice["message"]["tool_calls"][0]["function"], {"name": "get_weather", "arguments": '{"city": "Bern"}'})
        self.assertIsNone(choice["message"]["content"])
        self.assertEqual(self.choice(0, model="plain")["message"]["content"],
                         '[{"name": "get_weather", "arguments": {"city": "Bern"}}]')

    def test_several_choices(self):
        whole = self.server.must(self.chat(1, tools=[WEATHER], n=2))
        self.assertEqual([len(choice["message"]["tool_calls"]) for choice in whole["choices"]], [2, 2])
        ids = [call["id"] for choice in whole["choices"] for call in choice["message"]["tool_calls"]]
        self.assertEqual(len(set(ids)), 4)
        chunks = self.chat(1, tools=[WEATHER], n=2, stream=True).chunks()
        for index in (0, 1):
            self.assertEqual(len(joined(chunks, index)[0]["tool_calls"]), 2)

    def held(self, scenario, **fields):
        """An answer that a grammar holds to something; None where no grammar engine is built in."""
        answer = self.chat(scenario, max_tokens=200, **fields)
        if answer.status == 503 and "NVLLM_GRAMMAR=OFF" in answer.text:
            self.skipTest("no grammar engine is built in")
        return self.server.must(answer)["choices"][0]

    def test_a_model_that_would_not_call_is_made_to(self):
        one = {"type": "function", "function": {"name": "go", "parameters": {
            "type": "object", "properties": {"where": {"enum": ["home"]}}, "required": ["where"], "additionalProperties": False}}}
        for choice in ("required", {"type": "function", "function": {"name": "go"}}):
            for model, thought in (("thinker", "Easy."), ("plain", None)):
                tools = [one] if choice == "required" else [one, WEATHER]
                made = self.held(0 if thought else 1, model=model, tools=tools, tool_choice=choice, parallel_tool_calls=False)
                self.assertEqual(made["finish_reason"], "tool_calls", made)
                self.assertEqual([call["function"]["name"] for call in made["message"]["tool_calls"]], ["go"])
                self.assertEqual(json.loads(made["message"]["tool_calls"][0]["function"]["arguments"]), {"where": "home"})
                self.assertEqual(made["message"].get("reasoning_content"), thought)

    def test_strict_calls_fit_their_schema(self):
        strict = {"type": "function", "function": {"name": "get_weather", "strict": True, "parameters": {
            "type": "object", "properties": {"city": {"enum": ["Lima"]}}, "required": ["city"], "additionalProperties": False}}}
        made = self.held(4, tools=[strict])
        self.assertEqual(json.loads(made["message"]["tool_calls"][0]["function"]["arguments"]), {"city": "Lima"})
        self.assertEqual(self.held(0, tools=[strict])["message"]["content"], "Hello there.")

    def test_arguments_that_a_grammar_holds_come_in_pieces(self):
        for fields in ({"tools": [WEATHER], "tool_choice": "required"}, {"tools": [WEATHER], "tool_choice": NAMED},
                       {"tools": [WEATHER], "tool_choice": "required", "parallel_tool_calls": False}, {"tools": [STRICT]},
                       {"tools": [WEATHER], "response_format": {"type": "json_object"}}):
            self.held(5, **fields)
            whole = self.choice(5, **fields, max_tokens=200)
            self.assertEqual(whole["finish_reason"], "tool_calls", fields)
            self.assertEqual([call["function"]["arguments"] for call in whole["message"]["tool_calls"]], [ARGUMENTS])
            first, *rest = call_deltas(self.chat(5, stream=True, max_tokens=200, **fields).chunks())
            self.assertEqual((first["type"], first["function"]["name"]), ("function", "get_weather"))
            self.assertRegex(first["id"], "^[A-Za-z0-9]{9}$")
            self.assertGreater(len(rest), 1, fields)
            for delta in rest:
                self.assertEqual((set(delta), set(delta["function"])), ({"index", "function"}, {"arguments"}))
            self.assertEqual(first["function"]["arguments"] + "".join(delta["function"]["arguments"] for delta in rest), ARGUMENTS)

    def test_several_calls_in_pieces(self):
        whole = self.choice(6, tools=[STRICT], max_tokens=240)
        arguments = [call["function"]["arguments"] for call in whole["message"]["tool_calls"]]
        self.assertEqual(arguments, ['{"city": "%s"}' % LONG_CITY[:30], '{"city": "Oslo"}'])
        chunks = self.chat(6, stream=True, tools=[STRICT], max_tokens=240).chunks()
        for index in (0, 1):
            self.assertGreater(len(call_deltas(chunks, index)), 1)

    def test_calls_that_no_grammar_holds_come_whole(self):
        chunks = self.chat(5, stream=True, tools=[WEATHER], max_tokens=200).chunks()
        self.assertEqual([call["function"]["arguments"] for call in call_deltas(chunks)], [ARGUMENTS])

    def test_a_held_call_that_is_cut(self):
        self.held(5, tools=[WEATHER], tool_choice="required")
        for fields, finish, begins in (({"max_tokens": 80}, "length", '{"city": "Llan'),
                                       ({"max_tokens": 200, "stop": ["bends"]}, "stop", '{"city": "Llanfair, where the \\"river\\" ')):
            cut = self.choice(5, tools=[WEATHER], tool_choice="required", **fields)
            self.assertEqual(cut["finish_reason"], finish)
            self.assertIsNone(cut["message"]["content"])
            (call,) = cut["message"]["tool_calls"]
            arguments = call["function"]["arguments"]
            self.assertTrue(ARGUMENTS.startswith(arguments) and arguments.startswith(begins), arguments)
            if finish == "stop":
                self.assertEqual((arguments, cut["stop_reason"]), (begins, "bends"))

    def test_a_format_begins_after_the_thought(self):
        schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": {"a": True}}}}
        made = self.held(0, response_format=schema)
        self.assertEqual(made["message"]["reasoning_content"], "Easy.")
        self.assertEqual(json.loads(made["message"]["content"]), {"a": True})

    def test_beside_a_format_calls_may_be_made(self):
        schema = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": {"a": True}}}}
        made = self.held(4, response_format=schema, tools=[WEATHER])
        self.assertEqual(made["finish_reason"], "tool_calls")
        self.assertEqual(json.loads(made["message"]["tool_calls"][0]["function"]["arguments"]), {"city": "Rome"})

    def test_wrong_tools_are_named(self):
        named = {"type": "function", "function": {"name": "other"}}
        for fields, field in (
                ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
                ({"tools": [{"type": "web_search"}]}, "tools[0].type"), ({"tools": [5]}, "tools[0].type"),
                ({"tools": {}}, "tools"), ({"tool_choice": "required"}, "tool_choice"),
                ({"tools": [WEATHER], "tool_choice": named}, "tool_choice"),
                ({"tools": [WEATHER], "tool_choice": "sometimes"}, "tool_choice"),
                ({"tools": [WEATHER], "parallel_tool_calls": 1}, "parallel_tool_calls"),
                ({"functions": [{"name": "f"}]}, "functions")):
            answer = self.chat(0, **fields)
            self.assertEqual((answer.status, answer.error["param"]), (400, field), answer.text)


if __name__ == "__main__":
    unittest.main()
