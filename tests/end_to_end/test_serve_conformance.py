"""The requests that other servers' tests and the API's reference agree on, against nvllm-serve: data/server/conformance.jsonl
of the shared test data, each line of `must_hold` checked by a function here."""

import base64
import functools
import json
import struct
import pathlib
import threading
import time
import unittest

from programs import SHARED, needs_shared
from serve_testing import JSON_HEADERS, ServedTestCase, Server, joined_text, request_bytes
from structured_testing import fault_of

CASES = SHARED / "server" / "conformance.jsonl"
MODEL = SHARED / "models" / "stories260k"
KEY = "sk-conformance-0123456789"
ANY_TOKEN = 300
WITH_GRAMMARS = "structured output"  # which every build for tests has
WITH_KEY = "a server started with an API key"
WITH_EMBEDDINGS = "an embedding model"  # which any model is
GOOD = {"prompt": "Once", "max_tokens": 2, "temperature": 0}


# --- From a case to bytes ---

def expanded(text):
    """The two short forms of long or binary texts."""
    if text.startswith("repeat:"):
        _, unit, count = text.split(":")
        return (unit * int(count)).encode()
    if text.startswith("base64:"):
        return base64.b64decode(text.removeprefix("base64:"))
    return text.encode()


def filled(value, values):
    """`value` with its placeholders replaced, in keys as well; longer names first, as one begins with another."""
    if isinstance(value, dict):
        return {filled(name, values): filled(each, values) for name, each in value.items()}
    if isinstance(value, list):
        return [filled(each, values) for each in value]
    if isinstance(value, str):
        for name in sorted(values, key=len, reverse=True):
            value = value.replace(name, str(values[name]))
    return value


def chunked(body):
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


def body_bytes(case, headers):
    if "raw_body" in case:
        return expanded(case["raw_body"])
    if "body" not in case:
        return b""
    body = json.dumps(case["body"]).encode()
    return chunked(body) if headers.get("Transfer-Encoding") == "chunked" else body


def case_bytes(server, case):
    headers = {name: expanded(value).decode() for name, value in case.get("headers", {}).items()}
    fields = {"Host": f"127.0.0.1:{server.port}", **headers}
    if case["method"] == "POST" and "Content-Type" not in fields:
        fields.update(JSON_HEADERS)
    return request_bytes(case["method"], case["path"], fields, body_bytes(case, headers))


class Run:
    """One case under way: what was sent, the answer, and the means to ask further."""

    def __init__(self, test, server, case):
        self.test, self.server, self.case = test, server, case
        self.request = case_bytes(server, case)
        self.body = case.get("body")
        self.connection = server.raw()
        self.answer = None

    def send(self):
        """A server that refuses need not read to the end: what it says counts, not that all was sent."""
        try:
            self.connection.send(self.request)
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.answer = self.connection.answer()

    def again(self, **changes):
        """The answer to the same body with other fields."""
        body = {name: value for name, value in {**self.body, **changes}.items() if value is not None}
        return self.server.post(self.case["path"], body)

    def json(self):
        return self.answer.json()

    def chunks(self):
        return self.answer.chunks()

    @property
    def choices(self):
        return self.json()["choices"]

    @property
    def usage(self):
        return self.json()["usage"]

    def text(self):
        return text_of(self.answer)

    def is_stream(self):
        return self.answer.headers["Content-Type"].startswith("text/event-stream")

    def finish_reasons(self):
        parts = self.chunks() if self.is_stream() else [self.json()]
        return [choice["finish_reason"] for part in parts for choice in part["choices"] if choice["finish_reason"]]


def text_of(answer, index=0):
    choice = answer.json()["choices"][index]
    return choice["text"] if "text" in choice else choice["message"]["content"]


# --- What must hold, phrase by phrase ---

CHECKERS = {}


def holds(*phrases):
    def keep(checker):
        for phrase in phrases:
            CHECKERS[phrase] = checker
        return checker
    return keep


def simply(*phrases):
    """For phrases of which a function of the run says whether they hold."""
    def keep(is_true):
        @functools.wraps(is_true)
        def checker(run):
            run.test.assertTrue(is_true(run), run.answer)
        return holds(*phrases)(checker)
    return keep


@simply('object is "list"')
def object_is_list(run):
    return run.json()["object"] == "list"


@holds('data has at least one entry; each has id (text), object "model", created (integer), owned_by (text)')
def data_lists_models(run):
    data = run.json()["data"]
    run.test.assertGreaterEqual(len(data), 1)
    for entry in data:
        run.test.assertIsInstance(entry["id"], str)
        run.test.assertEqual(entry["object"], "model")
        run.test.assertIs(type(entry["created"]), int)
        run.test.assertIsInstance(entry["owned_by"], str)


@simply('object "text_completion"')
def is_text_completion(run):
    return run.json()["object"] == "text_completion"


@holds('one choice, index 0, text non-empty, finish_reason "length"')
def one_choice_cut_by_length(run):
    choice, = run.choices
    run.test.assertEqual((choice["index"], choice["finish_reason"]), (0, "length"))
    run.test.assertTrue(choice["text"])


@simply('content is exactly "42" with its quotes')
def is_quoted_constant(run):
    return run.text() == '"42"'


@holds('if finish_reason is "stop" the content is valid under the schema')
def is_valid_under_schema(run):
    if run.choices[0]["finish_reason"] == "stop":
        run.test.assertIsNone(fault_of(run.text(), run.body["response_format"]["json_schema"]["schema"]))


@simply("usage.completion_tokens 5")
def five_tokens(run):
    return run.usage["completion_tokens"] == 5


@simply("usage.completion_tokens 1")
def one_token(run):
    return run.usage["completion_tokens"] == 1


@simply("usage.completion_tokens <= 5")
def at_most_five_tokens(run):
    return 1 <= run.usage["completion_tokens"] <= 5


def adds_up(usage):
    return usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@simply("usage.total_tokens = prompt_tokens + completion_tokens")
def total_is_sum(run):
    return adds_up(run.usage)


@simply("id is text, created is an integer, model is text")
def head_has_types(run):
    answer = run.json()
    return isinstance(answer["id"], str) and type(answer["created"]) is int and isinstance(answer["model"], str)


@simply("usage.prompt_tokens 5 (no BOS added to token ids)")
def five_prompt_tokens(run):
    return run.usage["prompt_tokens"] == 5


@holds("text equals that of the same prompt given as text, where the tokenizer adds BOS")
def ids_answer_as_text_does(run):
    prompt = run.server.must(run.server.post("/detokenize", {"tokens": run.body["prompt"][1:]}))["prompt"]
    as_text = run.again(prompt=prompt)
    run.test.assertEqual(as_text.json()["usage"]["prompt_tokens"], len(run.body["prompt"]))
    run.test.assertEqual(run.text(), text_of(as_text))


@simply("two choices")
def two_choices(run):
    return [choice["index"] for choice in run.choices] == [0, 1]


@simply("two choices with index 0 and 1 in prompt order")
def two_choices_in_order(run):
    return [choice["index"] for choice in run.choices] == [0, 1]


@holds("each equals the answer to its prompt alone")
def batch_answers_as_alone(run):
    alone = [text_of(run.again(prompt=prompt)) for prompt in run.body["prompt"]]
    run.test.assertEqual([choice["text"] for choice in run.choices], alone)


@holds("sent four times: the same text each time")
def four_times_the_same(run):
    run.test.assertEqual({text_of(run.again()) for _ in range(3)}, {run.text()})


@holds("sent twice alone on the server: the same text")
def twice_the_same(run):
    run.test.assertEqual(text_of(run.again()), run.text())


@simply('finish_reason "stop"')
def finished_by_stop(run):
    return run.finish_reasons() == ["stop"]


@simply('finish_reason "length"')
def finished_by_length(run):
    return run.finish_reasons() == ["length"]


@simply('text holds no "."')
def text_without_stop(run):
    return run.text() != "" and "." not in run.text()


@holds("the stop text spans two tokens: no part of it may have been sent in an earlier chunk")
def stop_is_held_back(run):
    stop, = run.body["stop"]
    whole = text_of(run.again(stop=None, stream=None))
    run.test.assertIn(stop, whole)
    run.test.assertEqual(joined_text(run.chunks()), whole[:whole.index(stop)])


@simply("text begins with the prompt")
def text_begins_with_prompt(run):
    return run.text().startswith(run.body["prompt"]) and len(run.text()) > len(run.body["prompt"])


@simply("choices[0].logprobs is null or absent")
def no_logprobs(run):
    return run.choices[0].get("logprobs") is None


def token_ids(run):
    return run.again(return_token_ids=True).json()["choices"][0]["token_ids"]


@holds("the banned token never appears")
def banned_token_is_absent(run):
    banned, = run.body["logit_bias"]
    ids = token_ids(run)
    run.test.assertGreater(len(ids), 0)
    run.test.assertNotIn(int(banned), ids)


@holds("every token is that token")
def forced_token_is_everywhere(run):
    forced, = run.body["logit_bias"]
    run.test.assertEqual(token_ids(run), [int(forced)] * run.body["max_tokens"])


@holds("ignored, or refused with a clear error: not 500", "an answer from BOS alone, or a clear error: not 500, no crash",
       "treated as system, or a clear error", "an empty tools list is ignored or refused clearly",
       "an empty text or a clear error: not 500")
def answered_or_refused_clearly(run):
    if run.answer.status == 200:
        run.test.assertGreaterEqual(len(run.choices), 1)
    else:
        is_error_object(run)


@holds("vLLM refuses with 415 or 4xx; llama.cpp takes it: either, never 500")
def type_answered_or_refused(run):
    answered_or_refused_clearly(run)


@holds("vLLM 404, SGLang 400, llama.cpp single-model server ignores it; if refused the error names the model")
def unknown_model_is_named(run):
    answered_or_refused_clearly(run)
    if run.answer.status != 200:
        run.test.assertIn(run.body["model"], run.answer.error["message"])


@simply("Content-Type begins with text/event-stream")
def is_event_stream(run):
    return run.is_stream()


@holds('each event is one line "data: {json}" followed by an empty line')
def events_are_framed(run):
    run.test.assertGreater(len(run.answer.events()), 1)
    for event in run.answer.events()[:-1]:
        run.test.assertIsInstance(json.loads(event), dict)


@simply('ends with "data: [DONE]"')
def ends_with_mark(run):
    return run.answer.body.endswith(b"data: [DONE]\n\n")


@holds("joined text equals the answer without stream", "joined content equals the answer without stream")
def stream_says_the_same(run):
    whole = text_of(run.again(stream=None))
    run.test.assertTrue(whole)
    run.test.assertEqual(joined_text(run.chunks()), whole)


@simply("exactly one chunk has a non-null finish_reason")
def one_finish_reason(run):
    return len(run.finish_reasons()) == 1


@simply("all chunks but the last have usage null or absent")
def usage_comes_last(run):
    return all(chunk.get("usage") is None for chunk in run.chunks()[:-1])


@simply("the last chunk before [DONE] has choices [] and usage with total = prompt + completion",
        "final chunk: choices [] and usage")
def last_chunk_is_usage(run):
    last = run.chunks()[-1]
    return last["choices"] == [] and adds_up(last["usage"]) and last["usage"]["completion_tokens"] > 0


@simply("chunks carry index 0, 1, 2")
def three_indices(run):
    return {choice["index"] for chunk in run.chunks() for choice in chunk["choices"]} == {0, 1, 2}


@simply("three finish reasons in all")
def three_finish_reasons(run):
    return len(run.finish_reasons()) == 3


@simply('object "chat.completion.chunk"')
def chunks_are_of_a_chat(run):
    return {chunk["object"] for chunk in run.chunks()} == {"chat.completion.chunk"}


@simply("same id in all chunks")
def one_id(run):
    return len({chunk["id"] for chunk in run.chunks()}) == 1


@simply('first delta has role "assistant"; no later delta has a role')
def role_comes_first(run):
    deltas = [choice["delta"] for chunk in run.chunks() for choice in chunk["choices"]]
    return deltas[0]["role"] == "assistant" and all("role" not in delta for delta in deltas[1:])


@holds("one finish_reason, in the last chunk with a choice")
def finish_reason_comes_last(run):
    reasons = [choice["finish_reason"] for chunk in run.chunks() for choice in chunk["choices"]]
    run.test.assertIsNotNone(reasons[-1])
    run.test.assertEqual(set(reasons[:-1]), {None})


@holds("200 clients that give up after 0.5 s; a later short request is answered within 5 s")
def given_up_requests_cost_nothing(run):
    clients = []
    for _ in range(200):
        client = run.server.raw()
        client.send(run.request)
        clients.append((client, time.monotonic() + 0.5))
    for client, gives_up in clients:
        time.sleep(max(0.0, gives_up - time.monotonic()))
        client.close()
    begun = time.monotonic()
    run.test.assertEqual(run.server.post("/v1/completions", GOOD).status, 200)
    run.test.assertLess(time.monotonic() - begun, 5.0)


@holds("200; the texts are joined")
def parts_are_joined(run):
    parts = run.body["messages"][0]["content"]
    for joint in ("", " ", "\n"):
        as_text = run.again(messages=[{"role": "user", "content": joint.join(part["text"] for part in parts)}],
                            temperature=0)
        if text_of(as_text) == text_of(run.again(temperature=0)):
            run.test.assertEqual(as_text.json()["usage"]["prompt_tokens"], run.usage["prompt_tokens"])
            return
    run.test.fail("the answer is that of no joined text")


@simply("top_logprobs empty")
def top_logprobs_are_empty(run):
    content = run.choices[0]["logprobs"]["content"]
    return len(content) == run.usage["completion_tokens"] and all(token["top_logprobs"] == [] for token in content)


@holds("the answer continues the last message")
def continues_the_last_message(run):
    text = "".join(message["content"] for message in run.body["messages"])
    # What a template writes is all there is: no token is put before it.
    ids = run.server.must(run.server.post("/tokenize", {"content": text, "add_special_tokens": False}))["tokens"]
    whole = run.server.complete(ids, max_tokens=run.body["max_tokens"])
    run.test.assertEqual(text_of(run.again(temperature=0)), whole["choices"][0]["text"])
    run.test.assertEqual(run.usage["prompt_tokens"], whole["usage"]["prompt_tokens"])


@simply("200")
def is_answered(run):
    return run.answer.status == 200


@holds('the body is JSON with an object "error" holding a non-empty text "message"')
def is_error_object(run):
    if run.answer.status == 200 and 200 in run.case["expect_status"]:
        return
    run.test.assertIsInstance(run.answer.error, dict)
    run.test.assertIsInstance(run.answer.error["message"], str)
    run.test.assertTrue(run.answer.error["message"])


@holds("error object")
def has_error_object(run):
    is_error_object(run)


@holds("the server answers a good request afterwards")
def answers_a_good_request(run):
    run.test.assertEqual(run.server.post("/v1/completions", GOOD).status, 200)


@holds("no crash; the answer is valid UTF-8")
def answer_is_utf8(run):
    run.answer.body.decode("utf-8")
    answers_a_good_request(run)


@holds("detokenizing the tokens gives the text back")
def tokens_are_the_text(run):
    back = run.server.post("/detokenize", {"tokens": run.json()["tokens"]})
    run.test.assertEqual(run.server.must(back)["content"], run.body["content"])


@holds("three vectors in order; first and third equal within 1e-3")
def vectors_are_in_order(run):
    data = run.json()["data"]
    run.test.assertEqual([each["index"] for each in data], [0, 1, 2])
    first, second, third = (each["embedding"] for each in data)
    run.test.assertLess(max(abs(a - b) for a, b in zip(first, third)), 1e-3)
    run.test.assertGreater(max(abs(a - b) for a, b in zip(first, second)), 1e-3)
    run.test.assertAlmostEqual(sum(value * value for value in first), 1.0, places=4)


@holds("base64 of little-endian float32, same values as the float form within 1e-3")
def base64_is_the_same_vector(run):
    packed = base64.b64decode(run.json()["data"][0]["embedding"], validate=True)
    plain = run.again(encoding_format="float").json()["data"][0]["embedding"]
    values = struct.unpack(f"<{len(packed) // 4}f", packed)
    run.test.assertEqual(len(values), len(plain))
    run.test.assertLess(max(abs(a - b) for a, b in zip(values, plain)), 1e-3)


@holds("two requests on one kept-open connection: two answers in order")
def second_on_the_same_connection(run):
    longer = run.server.raw_post(run.case["path"], {**run.body, "max_tokens": 3})
    run.connection.send(run.request + longer)
    counts = [run.connection.answer().json()["usage"]["completion_tokens"] for _ in range(2)]
    run.test.assertEqual(counts, [run.body["max_tokens"], 3])


@holds("no crash; connection closed or next request parsed cleanly", "connection closed, no crash",
       "refused: request smuggling")
def connection_is_closed(run):
    run.test.assertTrue(run.connection.is_closed(timeout_s=30.0), "what follows could be taken for a request")
    answers_a_good_request(run)


@holds("no crash")
def is_not_crashed(run):
    answers_a_good_request(run)


@holds("refused without holding the server up")
def others_are_served_meanwhile(run):
    again = Run(run.test, run.server, run.case)
    with again.connection:
        upload = threading.Thread(target=again.send)
        upload.start()
        answers_a_good_request(run)
        upload.join()
    run.test.assertIn(again.answer.status, run.case["expect_status"])


# --- The tests: one a case ---

@needs_shared("server/conformance.jsonl")
@needs_shared("models/stories260k/config.json")
class Conformance(ServedTestCase):
    arguments = ("--chat-template", "{% for m in messages %}{{ m.content }}{% endfor %}")
    model = MODEL

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        first = cls.server.complete(max_tokens=1, return_token_ids=True)["choices"][0]["token_ids"][0]
        cls.values = {"$MODEL": str(MODEL), "$KEY": KEY, "$KEY_WITHOUT_LAST_CHARACTER": KEY[:-1],
                      "$LONGER_THAN_CONTEXT": "Once upon a time " * 512, "$FIRST_GREEDY_TOKEN": first,
                      "$ANY_TOKEN": ANY_TOKEN}

    def run_case(self, case, server):
        case = filled(case, self.values)
        run = Run(self, server, case)
        with run.connection:
            run.send()
            self.assertIn(run.answer.status, case["expect_status"], run.answer)
            for phrase in case["must_hold"]:
                with self.subTest(phrase):
                    self.assertIn(phrase, CHECKERS, "no checker knows this phrase")
                    CHECKERS[phrase](run)


class EveryCase(unittest.TestCase):
    @needs_shared("server/conformance.jsonl")
    def test_is_understood(self):
        """No case is passed over: what it needs and what must hold are known."""
        for case in read_cases():
            self.assertIn(case.get("needs"), (None, WITH_KEY, WITH_EMBEDDINGS, WITH_GRAMMARS), case["id"])


def read_cases():
    return [json.loads(line) for line in CASES.read_text().splitlines()]


def test_of(case):
    needs = case.get("needs")

    def test(self):
        if needs != WITH_KEY:
            return self.run_case(case, self.server)
        with Server(*self.arguments, "--api-key", KEY, model=MODEL, key=KEY) as server:
            self.run_case(case, server)
            server.check()

    return test


if CASES.exists():
    for each in read_cases():
        setattr(Conformance, f"test_{each['id']}", test_of(each))

if __name__ == "__main__":
    unittest.main()
