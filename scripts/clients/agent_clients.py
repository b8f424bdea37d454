"""Tools, reasoning, structured answers and the newer routes through the official `openai` and `anthropic` packages.

The model says what is written here (tests/end_to_end/scripted_model.py). Run by hand with a Python that has the packages;
see README.md beside this file.
"""

import json
import unittest

import anthropic
import openai

from scripted_server import DEGREES, KEY, ScriptedCase, Weather, call

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class AgentCase(ScriptedCase):
    scenarios = [
        ["Easy.</think>Hello there."],
        ["I should look.</think>" + call("get_weather", city="Paris") + "\n" + call("get_weather", city="Oslo"),
         "Fine.</think>21 in Paris, 4 in Oslo."],
        ['So.</think>{"city": "Paris", "degrees": 21}'],
    ]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.openai = openai.OpenAI(base_url=cls.base_url, api_key=KEY, max_retries=0)
        cls.anthropic = anthropic.Anthropic(base_url=cls.address, api_key=KEY, max_retries=0)


class Chats(AgentCase):
    tools = [{"type": "function", "function": {"name": "get_weather", "description": "d", "parameters": SCHEMA}}]

    def answer_calls(self, message):
        """What the tools say, as messages."""
        results = []
        for one in message.tool_calls:
            city = json.loads(one.function.arguments)["city"]
            results.append({"role": "tool", "tool_call_id": one.id, "content": DEGREES[city]})
        return results

    def test_the_loop(self):
        messages = [{"role": "user", "content": "1 What is the weather?"}]
        first = self.openai.chat.completions.create(model="m", messages=messages, tools=self.tools).choices[0]
        self.assertEqual(first.finish_reason, "tool_calls")
        self.assertIsNone(first.message.content)
        self.assertEqual(first.message.reasoning_content, "I should look.")
        messages += [first.message, *self.answer_calls(first.message)]
        last = self.openai.chat.completions.create(model="m", messages=messages, tools=self.tools).choices[0]
        self.assertEqual((last.message.content, last.finish_reason), ("21 in Paris, 4 in Oslo.", "stop"))

    def test_the_loop_streamed(self):
        messages = [{"role": "user", "content": "1 What is the weather?"}]
        with self.openai.chat.completions.stream(model="m", messages=messages, tools=self.tools) as stream:
            kinds = {event.type for event in stream}
            first = stream.get_final_completion().choices[0]
        self.assertIn("tool_calls.function.arguments.done", kinds)
        self.assertEqual(len(first.message.tool_calls), 2)
        messages += [first.message.to_dict(), *self.answer_calls(first.message)]
        chunks = self.openai.chat.completions.create(model="m", messages=messages, tools=self.tools, stream=True)
        self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks), "21 in Paris, 4 in Oslo.")

    def test_parse(self):
        answer = self.openai.chat.completions.parse(model="m", messages=[{"role": "user", "content": "2"}], response_format=Weather)
        self.assertEqual(answer.choices[0].message.parsed, Weather(city="Paris", degrees=21))

    def test_usage_tells_of_reasoning(self):
        usage = self.openai.chat.completions.create(model="m", messages=[{"role": "user", "content": "0"}]).usage
        self.assertEqual(usage.completion_tokens_details.reasoning_tokens, len("Easy.</think>"))


class Responses(AgentCase):
    tools = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]

    def outputs(self, response):
        return [{"type": "function_call_output", "call_id": item.call_id, "output": DEGREES[json.loads(item.arguments)["city"]]}
                for item in response.output if item.type == "function_call"]

    def test_a_text(self):
        response = self.openai.responses.create(model="m", input="0 Hello", instructions="Be short.")
        self.assertEqual((response.output_text, response.status), ("Hello there.", "completed"))
        self.assertEqual(response.output[0].content[0].text, "Easy.")

    def test_the_loop_by_items(self):
        history = [{"role": "user", "content": "1 Weather?"}]
        first = self.openai.responses.create(model="m", input=history, tools=self.tools, store=False)
        history += [*first.output, *self.outputs(first)]
        last = self.openai.responses.create(model="m", input=history, tools=self.tools)
        self.assertEqual(last.output_text, "21 in Paris, 4 in Oslo.")

    def test_the_loop_by_the_last_response(self):
        first = self.openai.responses.create(model="m", input="1 Weather?", tools=self.tools)
        last = self.openai.responses.create(model="m", input=self.outputs(first), previous_response_id=first.id, tools=self.tools)
        self.assertEqual(last.output_text, "21 in Paris, 4 in Oslo.")
        self.assertEqual(self.openai.responses.retrieve(first.id).id, first.id)
        self.openai.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError):
            self.openai.responses.retrieve(first.id)

    def test_counting(self):
        self.assertEqual(self.openai.responses.input_tokens.count(model="m", input="0", tools=self.tools).input_tokens, 4)

    def test_a_stream(self):
        with self.openai.responses.stream(model="m", input="1 Weather?", tools=self.tools) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_response()
        self.assertEqual((kinds[0], kinds[-1]), ("response.created", "response.completed"))
        self.assertEqual([item.type for item in final.output], ["reasoning", "function_call", "function_call"])

    def test_parse(self):
        response = self.openai.responses.parse(model="m", input="2", text_format=Weather)
        self.assertEqual(response.output_parsed, Weather(city="Paris", degrees=21))


class Messages(AgentCase):
    tools = [{"name": "get_weather", "description": "d", "input_schema": SCHEMA}]

    def results(self, message):
        return {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": block.id, "content": DEGREES[block.input["city"]]}
            for block in message.content if block.type == "tool_use"]}

    def test_the_loop(self):
        messages = [{"role": "user", "content": "1 Weather?"}]
        first = self.anthropic.messages.create(model="m", max_tokens=200, messages=messages, tools=self.tools)
        self.assertEqual(first.stop_reason, "tool_use")
        self.assertEqual([block.type for block in first.content], ["thinking", "tool_use", "tool_use"])
        messages += [{"role": "assistant", "content": first.content}, self.results(first)]
        last = self.anthropic.messages.create(model="m", max_tokens=200, messages=messages, tools=self.tools)
        self.assertEqual((last.content[-1].text, last.stop_reason), ("21 in Paris, 4 in Oslo.", "end_turn"))

    def test_the_loop_streamed(self):
        messages = [{"role": "user", "content": "1 Weather?"}]
        with self.anthropic.messages.stream(model="m", max_tokens=200, messages=messages, tools=self.tools) as stream:
            kinds = [event.type for event in stream]
            first = stream.get_final_message()
        self.assertIn("input_json", kinds)
        messages += [{"role": "assistant", "content": first.content}, self.results(first)]
        with self.anthropic.messages.stream(model="m", max_tokens=200, messages=messages, tools=self.tools) as stream:
            self.assertEqual("".join(stream.text_stream), "21 in Paris, 4 in Oslo.")
            self.assertEqual(stream.get_final_message().stop_reason, "end_turn")

    def test_counting(self):
        count = self.anthropic.messages.count_tokens(model="m", messages=[{"role": "user", "content": "0"}], tools=self.tools)
        self.assertEqual(count.input_tokens, 4)

    def test_errors(self):
        with self.assertRaises(anthropic.NotFoundError):
            self.anthropic.messages.create(model="x", max_tokens=9, messages=[{"role": "user", "content": "0"}])
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.anthropic.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "0"}],
                                           extra_body={"temperature": 9})
        self.assertTrue(caught.exception.request_id)
        client = anthropic.Anthropic(base_url=str(self.anthropic.base_url), api_key="wrong", max_retries=0)
        with self.assertRaises(anthropic.AuthenticationError):
            client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "0"}])


if __name__ == "__main__":
    unittest.main()
