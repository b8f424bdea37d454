"""Agents of the `openai-agents` package: tools, streams, typed answers and handoffs, over responses and over chats.

Run by hand with a Python that has the package; see README.md beside this file.
"""

import asyncio
import unittest

import agents
import openai
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool

from scripted_server import DEGREES, KEY, ScriptedCase, Weather, call

agents.set_tracing_disabled(True)


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return DEGREES[city]


class AgentCase(ScriptedCase):
    scenarios = [
        ["Easy.</think>Hello there."],
        ["I should look.</think>One moment." + call("get_weather", city="Paris") + "\n" + call("get_weather", city="Oslo"),
         "Fine.</think>21 in Paris, 4 in Oslo.", "Easy.</think>It is still so."],
        ['So.</think>{"city": "Paris", "degrees": 21}'],
        ["Spanish.</think>" + call("transfer_to_spanish_agent"), "Bien.</think>Hola."],
        ["I should look.</think>" + call("get_weather", city="Paris"), 'So.</think>{"city": "Paris", "degrees": 21}'],
    ]

    def model(self):
        raise NotImplementedError

    def client(self):
        return openai.AsyncOpenAI(base_url=self.base_url, api_key=KEY, max_retries=0)


class Tests:
    """What holds over either API."""

    def agent(self, **more):
        return Agent(name="Assistant", instructions="You are helpful.", model=self.model(), **more)

    def ask(self, question, **more):
        return Runner.run_sync(self.agent(**more), question)

    def streamed(self, question, **more):
        """The result of a streamed run, the text that came in pieces, and the names of what happened."""
        async def run():
            text, items = "", []
            result = Runner.run_streamed(self.agent(**more), input=question)
            async for event in result.stream_events():
                if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                    text += event.data.delta
                if event.type == "run_item_stream_event":
                    items.append(event.name)
            return result, text, items

        return asyncio.run(run())

    def test_a_text(self):
        self.assertEqual(self.ask("0 Hello").final_output, "Hello there.")

    def test_a_tool(self):
        result = self.ask("1 What is the weather?", tools=[get_weather])
        self.assertEqual(result.final_output, "21 in Paris, 4 in Oslo.")
        kinds = [item.type for item in result.new_items]
        self.assertEqual((kinds.count("tool_call_item"), kinds.count("tool_call_output_item")), (2, 2))
        self.assertEqual([answer.usage.requests for answer in result.raw_responses], [1, 1])

    def test_a_tool_streamed(self):
        counts = agents.ModelSettings(include_usage=True)
        result, text, items = self.streamed("1 What is the weather?", tools=[get_weather], model_settings=counts)
        self.assertEqual(result.final_output, "21 in Paris, 4 in Oslo.")
        self.assertEqual(text, "One moment.21 in Paris, 4 in Oslo.")
        self.assertEqual((items.count("tool_called"), items.count("tool_output")), (2, 2))
        self.assertGreater(result.context_wrapper.usage.output_tokens, 100)

    def test_a_typed_answer(self):
        self.assertEqual(self.ask("2", output_type=Weather).final_output, Weather(city="Paris", degrees=21))
        result, _, _ = self.streamed("4", output_type=Weather, tools=[get_weather])
        self.assertEqual(result.final_output, Weather(city="Paris", degrees=21))

    def test_a_handoff(self):
        def spanish():
            return Agent(name="Spanish agent", instructions="You speak Spanish.", model=self.model())

        result = self.ask("3 Hola", handoffs=[spanish()])
        self.assertEqual((result.final_output, result.last_agent.name), ("Hola.", "Spanish agent"))
        result, text, items = self.streamed("3 Hola", handoffs=[spanish()])
        self.assertEqual((result.final_output, text), ("Hola.", "Hola."))
        self.assertIn("handoff_occured", items)

    def test_a_conversation_goes_on(self):
        first = self.ask("1 What is the weather?", tools=[get_weather])
        more = first.to_input_list() + [{"role": "user", "content": "And now?"}]
        self.assertEqual(self.ask(more).final_output, "It is still so.")

    def test_settings(self):
        settings = agents.ModelSettings(temperature=0.5, top_p=0.9, max_tokens=200, parallel_tool_calls=False, tool_choice="required",
                                        store=False, metadata={"k": "v"}, include_usage=True,
                                        truncation="auto", verbosity="low", reasoning={"effort": "low"})
        result = self.ask("4", tools=[get_weather], model_settings=settings)
        self.assertIn("21", result.final_output)


class ByResponses(Tests, AgentCase):
    def model(self):
        return OpenAIResponsesModel(model="m", openai_client=self.client())

    def test_the_server_keeps_the_conversation(self):
        first = self.ask("1 What is the weather?", tools=[get_weather])
        result = Runner.run_sync(self.agent(), "And now?", previous_response_id=first.last_response_id)
        self.assertEqual(result.final_output, "It is still so.")


class ByChats(Tests, AgentCase):
    def model(self):
        return OpenAIChatCompletionsModel(model="m", openai_client=self.client())


class ByName(AgentCase):
    def test_the_model_s_name_alone(self):
        """As the first example has it: the default client, which asks for responses."""
        agents.set_default_openai_client(self.client(), use_for_tracing=False)
        agent = Agent(name="Assistant", instructions="You are helpful.", model="m")
        self.assertEqual(Runner.run_sync(agent, "0 Hello").final_output, "Hello there.")


if __name__ == "__main__":
    unittest.main(warnings="ignore")
