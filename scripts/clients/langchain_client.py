"""`langchain-openai` and `langchain`: answers, streams, tools, typed answers by each method, responses, embeddings, agents.

Run by hand with a Python that has the packages; see README.md beside this file.
"""

import unittest

import openai
from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

from scripted_server import DEGREES, EMBEDDER, KEY, PARIS, ScriptedCase, Weather, call


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return DEGREES[city]


class ChainCase(ScriptedCase):
    scenarios = [
        ["Easy.</think>Hello there."],
        ["I should look.</think>One moment." + call("get_weather", city="Paris") + "\n" + call("get_weather", city="Oslo"),
         "Fine.</think>21 in Paris, 4 in Oslo."],
        ['So.</think>{"city": "Paris", "degrees": 21}'],
        ["So.</think>" + call("Weather", city="Paris", degrees=21)],
        ["I should look.</think>" + call("get_weather", city="Paris"), "So.</think>" + call("Weather", city="Paris", degrees=21)],
    ]

    def chat(self, **more):
        return ChatOpenAI(model="m", base_url=self.base_url, api_key=KEY, max_retries=0, **more)

    def agent(self, **more):
        return create_agent(self.chat(), tools=[get_weather], system_prompt="You are helpful.", **more)


class Tests:
    """What holds over either API."""

    def loop(self, ask):
        """The conversation's last message; `ask` gets messages."""
        messages = [HumanMessage("1 What is the weather?")]
        first = ask(messages)
        self.assertEqual([(one["name"], one["args"]) for one in first.tool_calls],
                         [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Oslo"})])
        messages += [first, *(get_weather.invoke(one) for one in first.tool_calls)]
        return ask(messages)

    def streamed(self, chat, messages):
        """The sum of the chunks."""
        chunks = list(chat.stream(messages))
        self.assertGreater(len(chunks), 5)
        whole = chunks[0]
        for chunk in chunks[1:]:
            whole += chunk
        return whole

    def test_a_text(self):
        answer = self.chat().invoke([SystemMessage("Be short."), HumanMessage("0 Hello")])
        self.assertEqual(answer.text, "Hello there.")
        self.assertEqual(answer.response_metadata["model_name"], "m")
        self.assertEqual(answer.usage_metadata["output_token_details"]["reasoning"], len("Easy.</think>"))

    def test_a_stream(self):
        answer = self.streamed(self.chat(stream_usage=True), "0 Hello")
        self.assertEqual(answer.text, "Hello there.")
        self.assertGreater(answer.usage_metadata["output_tokens"], 10)

    def test_the_loop(self):
        self.assertEqual(self.loop(self.chat().bind_tools([get_weather]).invoke).text, "21 in Paris, 4 in Oslo.")

    def test_the_loop_streamed(self):
        chat = self.chat().bind_tools([get_weather])
        self.assertEqual(self.loop(lambda messages: self.streamed(chat, messages)).text, "21 in Paris, 4 in Oslo.")

    def test_a_strict_tool_that_must_be_called(self):
        for choice in ("get_weather", "any", True):
            answer = self.chat().bind_tools([get_weather], tool_choice=choice, strict=True).invoke("4")
            self.assertEqual([one["args"] for one in answer.tool_calls], [{"city": "Paris"}])

    def test_typed_answers(self):
        for method, question in (("json_schema", "2"), ("function_calling", "3"), ("json_mode", "2 as JSON")):
            with self.subTest(method):
                chat = self.chat().with_structured_output(Weather, method=method, include_raw=True)
                self.assertEqual(chat.invoke(question)["parsed"], PARIS)
                self.assertEqual([piece["parsed"] for piece in chat.stream(question) if "parsed" in piece][-1], PARIS)
        chat = self.chat().with_structured_output(Weather.model_json_schema(), method="json_schema", strict=True)
        self.assertEqual(chat.invoke("2"), PARIS.model_dump())

    def test_many_at_once(self):
        answers = self.chat().batch([f"{number % 2 * 2} Hello" for number in range(8)])
        self.assertEqual([answer.text.strip()[0] for answer in answers], ["H", "{"] * 4)


class ByChats(Tests, ChainCase):
    def test_logprobs(self):
        answer = self.chat(logprobs=True, top_logprobs=2).invoke("0 Hello")
        self.assertEqual(len(answer.response_metadata["logprobs"]["content"][0]["top_logprobs"]), 2)

    def test_settings(self):
        chat = self.chat(temperature=0.5, top_p=0.9, max_completion_tokens=9, seed=1, stop=["xyz"], n=2, presence_penalty=0.1,
                         frequency_penalty=0.1, reasoning_effort="low", extra_body={"top_k": 5})
        answer = chat.generate([[HumanMessage("0 Hello")]])
        self.assertEqual(len(answer.generations[0]), 2)
        self.assertEqual(answer.generations[0][0].message.response_metadata["finish_reason"], "length")

    def test_an_error(self):
        with self.assertRaises(openai.BadRequestError):
            self.chat(temperature=9).invoke("0")

    def test_completions(self):
        model = OpenAI(model="m", base_url=self.base_url, api_key=KEY, max_retries=0, max_tokens=4)
        self.assertEqual((model.invoke("...."), "".join(model.stream("...."))), ("Easy", "Easy"))


class ByResponses(Tests, ChainCase):
    def chat(self, **more):
        return super().chat(use_responses_api=True, **more)

    def test_the_server_keeps_the_conversation(self):
        chat = self.chat(use_previous_response_id=True).bind_tools([get_weather])
        self.assertEqual(self.loop(chat.invoke).text, "21 in Paris, 4 in Oslo.")

    def test_both_formats_of_answers(self):
        for version in ("v0", "responses/v1", "v1"):
            chat = self.chat(output_version=version, include=["reasoning.encrypted_content"], store=False).bind_tools([get_weather])
            for ask in (chat.invoke, lambda messages, chat=chat: self.streamed(chat, messages)):
                self.assertEqual(self.loop(ask).text, "21 in Paris, 4 in Oslo.")

    def test_settings(self):
        chat = self.chat(temperature=0.5, top_p=0.9, max_tokens=9, truncation="auto", reasoning={"effort": "low", "summary": "auto"},
                         verbosity="low", metadata={"k": "v"})
        answer = chat.invoke("0 Hello")
        self.assertEqual(answer.response_metadata["incomplete_details"]["reason"], "max_output_tokens")


class Agents(ChainCase):
    def test_an_agent(self):
        question = {"messages": [{"role": "user", "content": "1 What is the weather?"}]}
        self.assertEqual(self.agent().invoke(question)["messages"][-1].text, "21 in Paris, 4 in Oslo.")
        pieces = [piece.text for piece, _ in self.agent().stream(question, stream_mode="messages")]
        self.assertIn("21 in Paris, 4 in Oslo.", "".join(pieces))

    def test_a_typed_answer(self):
        question = {"messages": [{"role": "user", "content": "4"}]}
        self.assertEqual(self.agent(response_format=ToolStrategy(Weather)).invoke(question)["structured_response"], PARIS)


class Embeddings(ScriptedCase):
    scenarios = [["</think>"]]
    arguments = ("--model", f"bi={EMBEDDER}")

    def embeddings(self, **more):
        return OpenAIEmbeddings(model="bi", base_url=self.base_url, api_key=KEY, max_retries=0, **more)

    def test_texts(self):
        embeddings = self.embeddings(check_embedding_ctx_length=False)
        one, two = embeddings.embed_documents(["the cat", "the mat"])
        self.assertNotEqual(one, two)
        self.assertEqual(embeddings.embed_query("the cat"), one)

    def test_token_ids(self):
        """What is sent unless check_embedding_ctx_length is false, here of the model's own tokenizer."""
        texts = ["the cat", "the mat"]
        ids = [self.server.must(self.server.post("/tokenize", {"model": "bi", "prompt": text}))["tokens"] for text in texts]
        rows = self.embeddings().client.create(model="bi", input=ids).data
        self.assertEqual([row.embedding for row in rows], self.embeddings(check_embedding_ctx_length=False).embed_documents(texts))

    def test_the_ids_of_another_tokenizer(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.embeddings().client.create(model="bi", input=[[1820, 8415]])
        self.assertIn("outside of the vocabulary", str(caught.exception))


if __name__ == "__main__":
    unittest.main(warnings="ignore")
