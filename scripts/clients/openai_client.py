"""nvllm-serve through the official `openai` package: what that client reads, raises, retries and gives up.

Run by hand with a Python that has the package; see README.md beside this file.
"""

import asyncio
import math
import pathlib
import sys
import threading
import time
import unittest

import openai

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "end_to_end"))

from programs import DEMO, SOURCE  # noqa: E402
from serve_testing import Server, wait_until  # noqa: E402

MODEL = "org/demo"
STORY = "Once upon a time"
QUESTION = [{"role": "user", "content": "What is the sun?"}]
KEY, ONE_AT_A_TIME, FEW = "sk-first-0123456789", "sk-one-0123456789", "sk-few-0123456789"
NEVER_ENDING = {"max_tokens": 1900, "extra_body": {"ignore_eos": True}}


class ClientTestCase(unittest.TestCase):
    arguments = ()
    key = "none"

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--served-model-name", MODEL, "--served-model-name", "other", *cls.arguments, model=DEMO,
                            key=cls.key)
        cls.addClassCleanup(cls.server.stop)
        cls.server.learn_canary()

    def setUp(self):
        self.num_requests = 0
        self.client = self.new_client()
        self.addCleanup(self.client.close)

    def tearDown(self):
        self.server.check()

    def new_client(self, **more):
        """A client that counts what it really sends."""
        def count(_):
            self.num_requests += 1

        http_client = openai.DefaultHttpxClient(event_hooks={"request": [count]})
        return openai.OpenAI(**{"base_url": f"http://127.0.0.1:{self.server.port}/v1", "api_key": self.key,
                                "http_client": http_client, **more})

    def new_async_client(self):
        return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{self.server.port}/v1", api_key=self.key)


class Answers(ClientTestCase):
    def test_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], [MODEL, "other"])
        for name in (MODEL, "other"):
            model = self.client.models.retrieve(name)
            self.assertEqual((model.id, model.object, model.owned_by), (name, "model", "nvllm"))

    def test_completion(self):
        answer = self.client.completions.create(model=MODEL, prompt=[STORY, "One day"], max_tokens=8, temperature=0, n=2,
                                                logprobs=2, stop=["@"], seed=1, logit_bias={"5": -1}, user="me", best_of=2)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2, 3])
        self.assertEqual(answer.choices[0].text, self.server.complete(max_tokens=8)["choices"][0]["text"])
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)
        logprobs = answer.choices[0].logprobs
        for token, logprob, top, offset in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, logprobs.text_offset):
            self.assertEqual(top[token], logprob)
            self.assertTrue(answer.choices[0].text[offset:].startswith(token))

    def test_chat(self):
        answer = self.client.chat.completions.create(
            model=MODEL, messages=[{"role": "developer", "content": "Be brief."}, *QUESTION], max_completion_tokens=8,
            temperature=0, logprobs=True, top_logprobs=2, n=2, store=False, metadata={"a": "b"}, service_tier="auto")
        for choice in answer.choices:
            self.assertEqual((choice.message.role, choice.message.refusal, choice.message.tool_calls), ("assistant", None, None))
            self.assertEqual("".join(token.token for token in choice.logprobs.content), choice.message.content)
            for token in choice.logprobs.content:
                self.assertEqual(bytes(token.bytes).decode(), token.token)
                self.assertEqual(len(token.top_logprobs), 2)
        self.assertEqual(answer.usage.completion_tokens, 16)
        self.assertEqual(answer.usage.prompt_tokens_details.cached_tokens, 0)

    def test_streams(self):
        whole = self.client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=16, temperature=0)
        stream = self.client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=16, temperature=0, stream=True,
                                                     stream_options={"include_usage": True})
        *chunks, last = list(stream)
        self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks), whole.choices[0].message.content)
        self.assertEqual(chunks[0].choices[0].delta.role, "assistant")
        self.assertEqual(chunks[-1].choices[0].finish_reason, whole.choices[0].finish_reason)
        self.assertEqual((last.choices, last.usage.completion_tokens), ([], whole.usage.completion_tokens))
        stream = self.client.completions.create(model=MODEL, prompt=STORY, max_tokens=16, temperature=0, stream=True)
        text = "".join(chunk.choices[0].text for chunk in stream)
        self.assertEqual(text, self.server.complete(max_tokens=16)["choices"][0]["text"])

    def test_stream_helper(self):
        with self.client.chat.completions.stream(model=MODEL, messages=QUESTION, temperature=0) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_completion()
        self.assertIn("content.delta", kinds)
        whole = self.client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0)
        self.assertEqual(final.choices[0].message.content, whole.choices[0].message.content)

    def test_stream_that_is_left(self):
        stream = self.client.completions.create(model=MODEL, prompt=STORY, stream=True, **NEVER_ENDING)
        next(iter(stream))
        stream.close()
        wait_until(lambda: self.server.status()["calls"]["aborted"] >= 1, 10, "the end of a stream that was left")

    def test_raw_responses(self):
        raw = self.client.completions.with_raw_response.create(model=MODEL, prompt=STORY, max_tokens=1,
                                                               extra_headers={"X-Request-Id": "mine-1"}, user="me")
        self.assertEqual(raw.headers["x-request-id"], "mine-1")
        self.assertEqual(raw.headers["x-nvllm-ignored"], "user")
        self.assertEqual(raw.parse()._request_id, "mine-1")
        with self.client.chat.completions.with_streaming_response.create(model=MODEL, messages=QUESTION, max_tokens=4) as response:
            self.assertEqual(response.headers["content-type"], "application/json")
            self.assertGreater(len(response.read()), 0)

    def test_extensions(self):
        answer = self.client.completions.create(model=MODEL, prompt=STORY, max_tokens=4, extra_body={"top_k": 1, "return_token_ids": True})
        self.assertEqual(len(answer.choices[0].token_ids), 4)

    def test_async(self):
        async def ask(client, number):
            answer = await client.completions.create(model=MODEL, prompt=STORY, max_tokens=4 + number, temperature=0)
            return answer.choices[0].text

        async def stream(client):
            chunks = await client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=8, temperature=0, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])

        async def all_of_them():
            async with self.new_async_client() as client:
                return await asyncio.gather(stream(client), stream(client), *(ask(client, number) for number in range(16)))

        one, other, *texts = asyncio.run(all_of_them())
        self.assertEqual(one, other)
        longest = max(texts, key=len)
        self.assertTrue(all(longest.startswith(text) for text in texts))

    def test_embeddings(self):
        for form in ("float", "base64"):
            answer = self.client.embeddings.create(model=MODEL, input=["a b", "c d", "a b"], encoding_format=form)
            self.assertEqual([each.index for each in answer.data], [0, 1, 2])
        vectors = [each.embedding for each in self.client.embeddings.create(model=MODEL, input=["a b", "c d", "a b"]).data]
        self.assertEqual(vectors[0], vectors[2])
        self.assertTrue(all(math.isfinite(value) for value in vectors[1]))


class Errors(ClientTestCase):
    def assert_raises(self, kind, status, code, param, ask):
        self.num_requests = 0
        with self.assertRaises(kind) as caught:
            ask()
        error = caught.exception
        self.assertIs(type(error), kind)
        self.assertEqual((error.status_code, error.code, error.param), (status, code, param))
        self.assertTrue(error.message and error.type and error.request_id)
        self.assertEqual(self.num_requests, 1, "asked again although the answer would be the same")

    def test_kinds(self):
        complete, chat = self.client.completions.create, self.client.chat.completions.create
        self.assert_raises(openai.BadRequestError, 400, None, "temperature",
                           lambda: complete(model=MODEL, prompt=STORY, temperature=3))
        self.assert_raises(openai.BadRequestError, 400, "context_length_exceeded", "prompt",
                           lambda: complete(model=MODEL, prompt=[5] * 3000))
        self.assert_raises(openai.BadRequestError, 400, "context_length_exceeded", "prompt",
                           lambda: complete(model=MODEL, prompt=[5] * 3000, stream=True))
        self.assert_raises(openai.BadRequestError, 400, None, "messages[0].content",
                           lambda: chat(model=MODEL, messages=[{"role": "user", "content": 5}]))
        self.assert_raises(openai.BadRequestError, 400, "unsupported_parameter", "tools[0].type", lambda: chat(
            model=MODEL, messages=QUESTION, tools=[{"type": "custom", "custom": {"name": "f"}}]))
        self.assert_raises(openai.NotFoundError, 404, "model_not_found", "model", lambda: complete(model="gpt-5", prompt=STORY))
        self.assert_raises(openai.NotFoundError, 404, "model_not_found", "model", lambda: self.client.models.retrieve("gpt-5"))
        self.assert_raises(openai.NotFoundError, 404, "not_found", None, lambda: self.client.moderations.create(input="Hi"))
        self.assert_raises(openai.APIStatusError, 413, "request_too_large", None,
                           lambda: complete(model=MODEL, prompt="a" * (17 << 20)))

    def test_client_timeout(self):
        client = self.client.with_options(timeout=0.3, max_retries=0)
        aborted = self.server.status()["calls"]["aborted"]
        with self.assertRaises(openai.APITimeoutError):
            client.completions.create(model=MODEL, prompt=STORY, n=16, **NEVER_ENDING)
        wait_until(lambda: self.server.status()["calls"]["aborted"] > aborted, 10, "the end of a request that was given up")

    def test_no_server(self):
        client = self.new_client(base_url="http://127.0.0.1:9/v1", max_retries=0)
        with self.assertRaises(openai.APIConnectionError):
            client.models.list()


class ServerTimeouts(ClientTestCase):
    arguments = ("--request-timeout", "0.5")

    def test_deadline(self):
        client = self.client.with_options(max_retries=0)
        with self.assertRaises(openai.InternalServerError) as caught:
            client.completions.create(model=MODEL, prompt=STORY, n=16, **NEVER_ENDING)
        self.assertEqual((caught.exception.status_code, caught.exception.code), (504, "deadline_exceeded"))
        with self.assertRaises(openai.APIError) as caught:
            for _ in client.completions.create(model=MODEL, prompt=STORY, n=16, stream=True, **NEVER_ENDING):
                pass
        self.assertEqual(caught.exception.code, "deadline_exceeded")


class Keys(ClientTestCase):
    key = KEY

    @classmethod
    def setUpClass(cls):
        import tempfile
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, "keys.txt")
        path.write_text(f"first:{KEY}\none:{ONE_AT_A_TIME} concurrency=1\nfew:{FEW} rpm=20\n")
        cls.arguments = ("--api-key-file", path)
        super().setUpClass()

    def test_wrong_key(self):
        client = self.new_client(api_key="sk-wrong")
        for ask in (lambda: client.models.list(), lambda: client.completions.create(model=MODEL, prompt=STORY),
                    lambda: client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True)):
            self.num_requests = 0
            with self.assertRaises(openai.AuthenticationError) as caught:
                ask()
            self.assertEqual((caught.exception.code, self.num_requests), ("invalid_api_key", 1))

    def test_refused_for_now_is_asked_again_when_the_server_says(self):
        client = self.new_client(api_key=ONE_AT_A_TIME)
        stream = client.completions.create(model=MODEL, prompt=STORY, stream=True, **NEVER_ENDING)
        next(iter(stream))
        threading.Timer(0.4, stream.close).start()
        self.num_requests, begun = 0, time.monotonic()
        answer = client.completions.create(model=MODEL, prompt=STORY, max_tokens=1)
        self.assertEqual(answer.usage.completion_tokens, 1)
        self.assertEqual(self.num_requests, 2)
        self.assertGreaterEqual(time.monotonic() - begun, 1.0, "Retry-After: 1 was not waited for")

    def test_rate_limit(self):
        client = self.new_client(api_key=FEW, max_retries=0)
        with self.assertRaises(openai.RateLimitError) as caught:
            for _ in range(30):
                client.completions.create(model=MODEL, prompt=STORY, max_tokens=1)
        self.assertEqual((caught.exception.code, caught.exception.type), ("rate_limit_exceeded", "rate_limit_error"))
        self.assertTrue(1 <= int(caught.exception.response.headers["retry-after"]) <= 3)
        self.num_requests = 0
        self.new_client(api_key=FEW, max_retries=1).completions.create(model=MODEL, prompt=STORY, max_tokens=1)
        self.assertEqual(self.num_requests, 2)


if __name__ == "__main__":
    print(f"openai {openai.__version__}; programs of {SOURCE}")
    unittest.main()
