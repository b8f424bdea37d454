"""`litellm`: chats, tools, streams, responses, messages, embeddings and rankings, under each of its names of providers that can
reach a server like this one.

Run by hand with a Python that has the package; see README.md beside this file.
"""

import asyncio
import json
import unittest

from scripted_server import DEGREES, EMBEDDER, KEY, RERANKER, ScriptedCase, Weather, call # before litellm, which reaches out when it is imported

import litellm
import openai

litellm.suppress_debug_info = True

TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
QUERY = "the cat"
DOCUMENTS = ["who sat?", "the cat sat on the mat", "it"]


class LiteCase(ScriptedCase):
    scenarios = [
        ["Easy.</think>Hello there."],
        ["I should look.</think>One moment." + call("get_weather", city="Paris") + "\n" + call("get_weather", city="Oslo"),
         "Fine.</think>21 in Paris, 4 in Oslo."],
        ['So.</think>{"city": "Paris", "degrees": 21}'],
    ]
    # Names of providers, each with the address that it wants.
    providers = {"hosted_vllm": "/v1", "openai": "/v1", "litellm_proxy": "/v1", "lm_studio": "/v1", "anthropic": ""}

    def each(self):
        return [{"model": f"{name}/m", "api_base": self.address + path, "api_key": KEY, "max_tokens": 200, "num_retries": 0}
                for name, path in self.providers.items()]


class Chats(LiteCase):
    def test_a_text(self):
        for target in self.each():
            with self.subTest(target["model"]):
                answer = litellm.completion(**target, messages=[{"role": "user", "content": "0 Hello"}])
                message = answer.choices[0].message
                self.assertEqual((message.content, message.reasoning_content), ("Hello there.", "Easy."))
                self.assertGreater(answer.usage.completion_tokens, 10)

    def test_a_stream(self):
        for target in self.each():
            with self.subTest(target["model"]):
                messages = [{"role": "user", "content": "0 Hello"}]
                chunks = list(litellm.completion(**target, messages=messages, stream=True, stream_options={"include_usage": True}))
                whole = litellm.stream_chunk_builder(chunks)
                message = whole.choices[0].message
                self.assertEqual((message.content, message.reasoning_content), ("Hello there.", "Easy."))
                self.assertGreater(whole.usage.completion_tokens, 10)

    def loop(self, ask):
        messages = [{"role": "user", "content": "1 What is the weather?"}]
        first = ask(messages)
        self.assertEqual((first.choices[0].finish_reason, len(first.choices[0].message.tool_calls)), ("tool_calls", 2))
        messages.append(first.choices[0].message)
        for one in first.choices[0].message.tool_calls:
            city = json.loads(one.function.arguments)["city"]
            messages.append({"role": "tool", "tool_call_id": one.id, "content": DEGREES[city]})
        return ask(messages).choices[0].message.content

    def test_the_loop(self):
        for target in self.each():
            with self.subTest(target["model"]):
                self.assertEqual(self.loop(lambda messages, target=target: litellm.completion(**target, messages=messages, tools=TOOLS)),
                                 "21 in Paris, 4 in Oslo.")

    def test_the_loop_streamed(self):
        for target in self.each():
            with self.subTest(target["model"]):
                def ask(messages, target=target):
                    chunks = list(litellm.completion(**target, messages=messages, tools=TOOLS, stream=True))
                    return litellm.stream_chunk_builder(chunks)

                self.assertEqual(self.loop(ask), "21 in Paris, 4 in Oslo.")

    def test_a_typed_answer(self):
        for target in self.each():
            if target["model"].startswith("anthropic"):
                continue  # it asks by a tool of its own
            with self.subTest(target["model"]):
                answer = litellm.completion(**target, messages=[{"role": "user", "content": "2"}], response_format=Weather)
                self.assertEqual(Weather.model_validate_json(answer.choices[0].message.content), Weather(city="Paris", degrees=21))

    def test_an_error(self):
        for target in self.each():
            with self.subTest(target["model"]), self.assertRaises(openai.BadRequestError):
                litellm.completion(**target, messages=[{"role": "user", "content": "0"}], temperature=9)

    def test_a_text_completion(self):
        answer = litellm.text_completion(model="text-completion-openai/m", api_base=self.base_url, api_key=KEY, prompt="....", max_tokens=4)
        self.assertEqual(answer.choices[0].text, "Easy")


class Responses(LiteCase):
    providers = {"openai": "/v1", "hosted_vllm": "/v1", "anthropic": ""}

    def test_a_text(self):
        for target in self.each():
            with self.subTest(target["model"]):
                target["max_output_tokens"] = target.pop("max_tokens")
                response = litellm.responses(**target, input="0 Hello")
                self.assertEqual(response.output[-1].content[0].text, "Hello there.")

    def test_a_stream(self):
        for target in self.each():
            with self.subTest(target["model"]):
                target["max_output_tokens"] = target.pop("max_tokens")
                events = list(litellm.responses(**target, input="0 Hello", stream=True))
                self.assertEqual("".join(event.delta for event in events if event.type == "response.output_text.delta"), "Hello there.")
                self.assertEqual(events[-1].type, "response.completed")


class Messages(LiteCase):
    providers = {"anthropic": "", "hosted_vllm": "/v1"}

    def test_a_text(self):
        for target in self.each():
            with self.subTest(target["model"]):
                answer = asyncio.run(litellm.anthropic.messages.acreate(**target, messages=[{"role": "user", "content": "0 Hello"}]))
                self.assertEqual(answer["content"][-1]["text"], "Hello there.")


class Vectors(ScriptedCase):
    scenarios = [["</think>"]]
    arguments = ("--model", f"bi={EMBEDDER}", "--model", f"cross={RERANKER}")

    def test_embeddings(self):
        for provider in ("hosted_vllm", "openai", "litellm_proxy", "lm_studio", "infinity", "jina_ai"):
            with self.subTest(provider):
                answer = litellm.embedding(model=f"{provider}/bi", api_base=self.base_url, api_key=KEY, input=["the cat", "the mat"])
                self.assertEqual([len(row["embedding"]) for row in answer.data], [32, 32])

    def test_rankings(self):
        own = self.server.must(self.server.post("/rerank", {"model": "cross", "query": QUERY, "documents": DOCUMENTS, "top_n": 2}))
        wanted = [(row["index"], row["relevance_score"]) for row in own["results"]]
        for provider, path in (("hosted_vllm", ""), ("hosted_vllm", "/v1"), ("jina_ai", ""), ("jina_ai", "/v1/rerank"), ("cohere", ""),
                               ("cohere", "/v1/rerank"), ("infinity", ""), ("infinity", "/v1")):
            with self.subTest(provider + path):
                has_texts = provider != "infinity"  # it has them in a form of its own
                answer = litellm.rerank(model=f"{provider}/cross", api_base=self.address + path, api_key=KEY, query=QUERY,
                                        documents=DOCUMENTS, top_n=2, return_documents=has_texts)
                self.assertEqual([(row["index"], row["relevance_score"]) for row in answer.results], wanted)
                if has_texts:
                    self.assertEqual([row["document"]["text"] for row in answer.results], [DOCUMENTS[index] for index, _ in wanted])


if __name__ == "__main__":
    unittest.main(warnings="ignore")
