"""First examples of further packages: batches of `openai`, `cohere`, `smolagents`, `haystack-ai`, `dspy`, `llama-index`.

Run by hand with a Python that has them; see README.md beside this file. What is not installed is skipped and said so.
"""

import importlib
import io
import json
import tempfile
import unittest

from scripted_server import KEY, RERANKER, ScriptedCase, call, wait_until  # first: others reach out when they are imported

CITY = {"Paris": "21", "Oslo": "4"}


def module(name):
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise unittest.SkipTest(f"{name} is not installed") from error


def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: its name
    """
    return CITY[city]


class OtherCase(ScriptedCase):
    scenarios = [
        ["Easy.</think>Hello there."],
        ["I should look.</think>" + call("get_weather", city="Paris") + "\n" + call("get_weather", city="Oslo"),
         "Fine.</think>21 in Paris, 4 in Oslo."],
    ]


class Batches(OtherCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.arguments = ("--batch-dir", folder.name)
        super().setUpClass()

    def test_a_batch(self):
        client = module("openai").OpenAI(base_url=self.base_url, api_key=KEY, max_retries=0)
        lines = [{"custom_id": str(number), "method": "POST", "url": "/v1/chat/completions",
                  "body": {"model": "m", "messages": [{"role": "user", "content": "0 Hello"}]}} for number in range(3)]
        text = "\n".join(map(json.dumps, lines)).encode()
        file = client.files.create(file=("in.jsonl", io.BytesIO(text)), purpose="batch")
        batch = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
        wait_until(lambda: client.batches.retrieve(batch.id).status == "completed", what="the batch")
        batch = client.batches.retrieve(batch.id)
        self.assertEqual((batch.request_counts.completed, batch.request_counts.failed), (3, 0))
        for row in client.files.content(batch.output_file_id).text.splitlines():
            self.assertEqual(json.loads(row)["response"]["body"]["choices"][0]["message"]["content"], "Hello there.")
        self.assertEqual([one.id for one in client.batches.list()], [batch.id])
        self.assertTrue(client.files.delete(file.id).deleted)


class Smolagents(ScriptedCase):
    scenarios = [
        ["I should look.</think>" + call("get_weather", city="Paris"), "Fine.</think>" + call("final_answer", answer="21 in Paris")],
        ["Easy.</think>Hello there."],
    ]

    def model(self):
        return module("smolagents").OpenAIModel(model_id="m", api_base=self.base_url, api_key=KEY)

    def test_a_text(self):
        messages = [module("smolagents").ChatMessage(role="user", content=[{"type": "text", "text": "1 Hello"}])]
        self.assertEqual(self.model().generate(messages).content, "Hello there.")
        self.assertEqual("".join(delta.content or "" for delta in self.model().generate_stream(messages)), "Hello there.")

    def test_an_agent(self):
        smolagents = module("smolagents")
        for is_streamed in (False, True):
            agent = smolagents.ToolCallingAgent(tools=[smolagents.tool(get_weather)], model=self.model(), verbosity_level=0,
                                                stream_outputs=is_streamed, max_steps=3)
            self.assertEqual(agent.run("What is the weather?"), "21 in Paris")


class Haystack(OtherCase):
    def generators(self):
        chat = module("haystack.components.generators.chat")
        secret = module("haystack.utils").Secret.from_token(KEY)
        for made in (chat.OpenAIChatGenerator, chat.OpenAIResponsesChatGenerator):
            yield lambda made=made, **more: made(api_key=secret, model="m", api_base_url=self.base_url, **more)

    def test_the_loop(self):
        message = module("haystack.dataclasses").ChatMessage
        tools = [module("haystack.tools").create_tool_from_function(get_weather)]
        for make in self.generators():
            for callback in (None, lambda chunk: None):
                generator = make(tools=tools, streaming_callback=callback)
                messages = [message.from_user("1 What is the weather?")]
                first = generator.run(messages=messages)["replies"][0]
                self.assertEqual([one.arguments for one in first.tool_calls], [{"city": "Paris"}, {"city": "Oslo"}])
                messages += [first, *(message.from_tool(CITY[one.arguments["city"]], origin=one) for one in first.tool_calls)]
                self.assertEqual(generator.run(messages=messages)["replies"][0].text, "21 in Paris, 4 in Oslo.")

    def test_an_agent(self):
        agents = module("haystack.components.agents")
        tools = [module("haystack.tools").create_tool_from_function(get_weather)]
        for make in self.generators():
            agent = agents.Agent(chat_generator=make(), tools=tools)
            result = agent.run(messages=[module("haystack.dataclasses").ChatMessage.from_user("1 What is the weather?")])
            self.assertEqual(result["messages"][-1].text, "21 in Paris, 4 in Oslo.")


class Cohere(OtherCase):
    arguments = ("--model", f"cross={RERANKER}")

    def test_rankings(self):
        cohere = module("cohere")
        for client in (cohere.Client(KEY, base_url=self.address), cohere.ClientV2(KEY, base_url=self.address)):
            answer = client.rerank(model="cross", query="the cat", documents=["who sat?", "the cat sat on the mat", "it"], top_n=2)
            scores = [row.relevance_score for row in answer.results]
            self.assertEqual((len(scores), scores), (2, sorted(scores, reverse=True)))


class Dspy(OtherCase):
    scenarios = [["Easy.</think>[[ ## answer ## ]]\nHello there.\n\n[[ ## completed ## ]]"]]

    def test_a_signature(self):
        dspy = module("dspy")
        with dspy.context(lm=dspy.LM("openai/m", api_base=self.base_url, api_key=KEY, cache=False)):
            self.assertEqual(dspy.Predict("question -> answer")(question="0 Hello").answer, "Hello there.")


class LlamaIndex(OtherCase):
    def llm(self):
        return module("llama_index.llms.openai_like").OpenAILike(
            model="m", api_base=self.base_url, api_key=KEY, is_chat_model=True, is_function_calling_model=True,
            context_window=8192, max_retries=0)

    def test_texts(self):
        message = module("llama_index.core.llms").ChatMessage(role="user", content="0 Hello")
        self.assertEqual(self.llm().chat([message]).message.content, "Hello there.")
        self.assertEqual("".join(piece.delta for piece in self.llm().stream_chat([message])), "Hello there.")

    def test_tools(self):
        tool = module("llama_index.core.tools").FunctionTool.from_defaults(get_weather)
        calls = self.llm().chat_with_tools([tool], user_msg="1 What is the weather?").message.additional_kwargs["tool_calls"]
        self.assertEqual(len(calls), 2)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
