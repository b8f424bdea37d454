"""`pydantic-ai`: agents with tools, typed answers and streams, over chats, responses and messages.

Run by hand with a Python that has the package; see README.md beside this file.
"""

import asyncio
import unittest

from pydantic_ai import (
    Agent,
    ModelHTTPError,
    ModelRetry,
    NativeOutput,
    PromptedOutput,
    ThinkingPart,
    ToolOutput,
    UsageLimitExceeded,
    UsageLimits,
)
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from scripted_server import DEGREES, KEY, PARIS, ScriptedCase, Weather, call


class AgentCase(ScriptedCase):
    scenarios = [
        ["Easy.</think>Hello there."],
        ["I should look.</think>One moment." + call("get_weather", city="Paris") + "\n" + call("get_weather", city="Oslo"),
         "Fine.</think>21 in Paris, 4 in Oslo.", "Easy.</think>It is still so."],
        ["So.</think>" + PARIS.model_dump_json()],
        ["I should look.</think>" + call("get_weather", city="Paris"), "So.</think>" + call("final_result", **PARIS.model_dump())],
        ["So.</think>" + call("weather_of", **PARIS.model_dump())],
        ["I should look.</think>" + call("get_weather", city="Rome"), "Oh.</think>" + call("get_weather", city="Oslo"),
         "So.</think>4 in Oslo."],
    ]

    def model(self, **more):
        raise NotImplementedError

    def agent(self, **more):
        agent = Agent(self.model(), instructions="You are helpful.", **more)

        @agent.tool_plain(retries=2)
        def get_weather(city: str) -> str:
            """The weather of a city."""
            if city not in ("Paris", "Oslo"):
                raise ModelRetry("There is no such city.")
            return DEGREES[city]

        return agent


class Tests:
    """What holds over each API."""

    def thought(self, part):
        return part.content

    def test_a_text(self):
        result = Agent(self.model(), instructions="Be short.").run_sync("0 Hello")
        self.assertEqual(result.output, "Hello there.")
        self.assertGreater(result.usage.output_tokens, 10)
        parts = result.all_messages()[-1].parts
        self.assertEqual([self.thought(part) for part in parts if isinstance(part, ThinkingPart)], ["Easy."])

    def test_a_tool(self):
        result = self.agent().run_sync("1 What is the weather?")
        self.assertEqual(result.output, "21 in Paris, 4 in Oslo.")
        self.assertEqual((result.usage.requests, result.usage.tool_calls), (2, 2))

    def test_a_tool_that_asks_again(self):
        self.assertEqual(self.agent().run_sync("5").output, "4 in Oslo.")

    def test_a_conversation_goes_on(self):
        agent = self.agent()
        first = agent.run_sync("1 What is the weather?")
        self.assertEqual(agent.run_sync("And now?", message_history=first.all_messages()).output, "It is still so.")

    def test_a_stream(self):
        async def run():
            async with self.agent().run_stream("0 Hello") as result:
                return [piece async for piece in result.stream_text(delta=True, debounce_by=None)]

        self.assertEqual("".join(asyncio.run(run())), "Hello there.")

    def test_a_tool_streamed(self):
        async def run():
            kinds = []
            async with self.agent().run_stream_events("1 What is the weather?") as events:
                async for event in events:
                    kinds.append(event.event_kind)
            return kinds, event.result.output

        kinds, output = asyncio.run(run())
        self.assertEqual(output, "21 in Paris, 4 in Oslo.")
        self.assertEqual((kinds.count("function_tool_call"), kinds.count("function_tool_result")), (2, 2))

    def test_typed_answers(self):
        kinds = {"3": Weather, "4": ToolOutput(Weather, name="weather_of"), "2": NativeOutput(Weather), "2 as JSON": PromptedOutput(Weather)}
        for question, output in kinds.items():
            with self.subTest(type(output).__name__):
                self.assertEqual(self.agent(output_type=output).run_sync(question).output, PARIS)

                async def run(output=output, question=question):
                    async with self.agent(output_type=output).run_stream(question) as result:
                        return [piece async for piece in result.stream_output(debounce_by=None)]

                self.assertEqual(asyncio.run(run())[-1], PARIS)

    def test_settings(self):
        settings = {"max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "parallel_tool_calls": False, "timeout": 30, "seed": 1,
                    "stop_sequences": ["xyz"], "extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}
        result = self.agent().run_sync("0 Hello", model_settings=settings)
        self.assertIn(result.all_messages()[-1].finish_reason, ("length", "stop"))

    def test_an_error(self):
        with self.assertRaises(ModelHTTPError) as caught:
            self.agent().run_sync("0", model_settings={"temperature": 9})
        self.assertEqual(caught.exception.status_code, 400)


class Counts:
    """Where the API counts tokens without an answer."""

    def test_a_limit_of_tokens(self):
        limits = UsageLimits(input_tokens_limit=2, count_tokens_before_request=True)
        with self.assertRaises(UsageLimitExceeded):
            self.agent().run_sync("0 Hello", usage_limits=limits)
        limits = UsageLimits(input_tokens_limit=9, count_tokens_before_request=True)
        self.assertEqual(self.agent().run_sync("0 Hello", usage_limits=limits).output, "Hello there.")


class ByChats(Tests, AgentCase):
    def model(self):
        return OpenAIChatModel("m", provider=OpenAIProvider(base_url=self.base_url, api_key=KEY))


class ByResponses(Tests, Counts, AgentCase):
    def model(self):
        return OpenAIResponsesModel("m", provider=OpenAIProvider(base_url=self.base_url, api_key=KEY))

    def thought(self, part):
        """What is no summary is kept elsewhere."""
        return "".join(part.provider_details["raw_content"])

    def test_the_server_keeps_the_conversation(self):
        settings = {"openai_previous_response_id": "auto", "openai_reasoning_effort": "low", "openai_reasoning_summary": "auto"}
        self.assertEqual(self.agent().run_sync("1", model_settings=settings).output, "21 in Paris, 4 in Oslo.")


class ByMessages(Tests, Counts, AgentCase):
    def model(self):
        return AnthropicModel("m", provider=AnthropicProvider(base_url=self.address, api_key=KEY),
                              profile=ModelProfile(supports_json_schema_output=True))


if __name__ == "__main__":
    unittest.main(warnings="ignore")
