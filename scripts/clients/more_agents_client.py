"""Agents of further packages: `langchain-anthropic`, `agno`, `strands-agents`, `autogen-agentchat`, `semantic-kernel`, `outlines`.

Run by hand with a Python that has them; see README.md beside this file. What is not installed is skipped and said so.
"""

import asyncio
import json
import os
import typing
import unittest


from other_clients import get_weather, module
from scripted_server import KEY, PARIS, ScriptedCase, Weather, call

os.environ["AGNO_TELEMETRY"] = "false"
LAST = "21 in Paris, 4 in Oslo."


class AgentCase(ScriptedCase):
    scenarios = [
        ["Easy.</think>Hello there."],
        ["I should look.</think>" + call("get_weather", city="Paris") + "\n" + call("get_weather", city="Oslo"), "Fine.</think>" + LAST],
        ["So.</think>" + json.dumps(PARIS.model_dump())],
        ["So.</think>" + call("Weather", **PARIS.model_dump())],
    ]

    def client(self, kind="AsyncOpenAI"):
        return getattr(module("openai"), kind)(base_url=self.base_url, api_key=KEY, max_retries=0)


class LangchainAnthropic(AgentCase):
    def chat(self):
        return module("langchain_anthropic").ChatAnthropic(model="m", base_url=self.address, api_key=KEY, max_tokens=200, max_retries=0)

    def test_the_loop(self):
        chat, tool = self.chat(), module("langchain_core.tools").tool(get_weather)
        messages = [module("langchain_core.messages").HumanMessage("1 What is the weather?")]
        first = None
        for chunk in chat.bind_tools([tool]).stream(messages):
            first = chunk if first is None else first + chunk
        messages += [first, *(tool.invoke(one) for one in first.tool_calls)]
        self.assertEqual(chat.bind_tools([tool]).invoke(messages).text, LAST)

    def test_typed_answers(self):
        for method, question in (("function_calling", "3"), ("json_schema", "2")):
            self.assertEqual(self.chat().with_structured_output(Weather, method=method).invoke(question), PARIS)


class Agno(AgentCase):
    def models(self):
        module("agno")
        place = {"id": "m", "base_url": self.base_url, "api_key": KEY}
        openai = module("agno.models.openai")
        for made in (openai.OpenAIChat, openai.OpenAIResponses, module("agno.models.vllm").VLLM):
            yield lambda made=made: made(**place)
        yield lambda: module("agno.models.anthropic").Claude(id="m", api_key=KEY, client_params={"base_url": self.address}, max_tokens=200)

    def test_an_agent(self):
        agent = module("agno.agent").Agent
        for make in self.models():
            self.assertTrue(agent(model=make(), tools=[get_weather], telemetry=False).run("1 What is the weather?").content.endswith(LAST))
            events = agent(model=make(), tools=[get_weather], telemetry=False).run("1 What is the weather?", stream=True)
            self.assertTrue("".join(event.content or "" for event in events if event.event == "RunContent").endswith(LAST))
            self.assertEqual(agent(model=make(), output_schema=Weather, telemetry=False).run("2").content, PARIS)


class Strands(AgentCase):
    def test_an_agent(self):
        strands = module("strands")
        place = {"api_key": KEY, "base_url": self.base_url}
        models = [module("strands.models.openai").OpenAIModel(client_args=place, model_id="m"),
                  module("strands.models.openai_responses").OpenAIResponsesModel(client_args=place, model_id="m"),
                  module("strands.models.anthropic").AnthropicModel(client_args={**place, "base_url": self.address}, model_id="m",
                                                                    max_tokens=200)]
        for model in models:
            agent = strands.Agent(model=model, tools=[strands.tool(get_weather)], callback_handler=None)
            self.assertEqual(str(agent("1 What is the weather?")).strip().splitlines()[-1], LAST)


class Autogen(AgentCase):
    def test_an_agent(self):
        agent = module("autogen_agentchat.agents").AssistantAgent
        client = module("autogen_ext.models.openai").OpenAIChatCompletionClient(
            model="m", base_url=self.base_url, api_key=KEY,
            model_info={"vision": False, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": True})

        async def run():
            for is_streamed in (False, True):
                one = agent("a", model_client=client, tools=[get_weather], reflect_on_tool_use=True, model_client_stream=is_streamed)
                self.assertEqual((await one.run(task="1 What is the weather?")).messages[-1].content, LAST)
            typed = agent("a", model_client=client, output_content_type=Weather)
            self.assertEqual((await typed.run(task="2")).messages[-1].content, PARIS)

        asyncio.run(run())


class SemanticKernel(AgentCase):
    def test_agents(self):
        agents = module("semantic_kernel.agents")
        service = module("semantic_kernel.connectors.ai.open_ai").OpenAIChatCompletion

        async def run():
            settings = {"name": "a", "instructions": "Be short."}
            by_chats = agents.ChatCompletionAgent(service=service(ai_model_id="m", async_client=self.client()), **settings)
            by_responses = agents.OpenAIResponsesAgent(ai_model_id="m", client=self.client(), **settings)
            for agent in (by_chats, by_responses):
                self.assertEqual(str(await agent.get_response(messages="0 Hello")), "Hello there.")
            self.assertEqual("".join([str(piece) async for piece in by_chats.invoke_stream(messages="0 Hello")]), "Hello there.")

        asyncio.run(run())


class Outlines(AgentCase):
    def test_what_answers_are_held_to(self):
        outlines = module("outlines")
        for make in (outlines.from_openai, outlines.from_vllm):
            self.assertEqual(Weather.model_validate_json(make(self.client("OpenAI"), "m")("2", Weather)), PARIS)
        model = outlines.from_vllm(self.client("OpenAI"), "m")
        self.assertEqual(model("0", outlines.types.Regex(r"Hello [a-z]+\.")), "Hello there.")
        self.assertEqual(model("0", typing.Literal["Hello there.", "Bye."]), "Hello there.")


if __name__ == "__main__":
    unittest.main(warnings="ignore")
