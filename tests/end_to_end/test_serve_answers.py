"""What nvllm-serve answers to good requests: the same text by every way, whole, streamed, over WebSocket and from
nvllm-run; logprobs, offsets and counts that agree with each other."""

import json
import time
import unittest

from programs import DEMO, SOURCE, run_jsonl
from serve_testing import ServedTestCase, Server, request_bytes

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
STORY = "Once upon a time"
QUESTION = [{"role": "user", "content": "What is the sun?"}]
SAMPLED = {"temperature": 1.0, "top_p": 1.0, "seed": 11}

# Every kind of answer that can be streamed; greedy unless said otherwise.
KINDS = {
    "plain": (COMPLETIONS, {"prompt": STORY, "max_tokens": 24}),
    "several": (COMPLETIONS, {"prompt": STORY, "max_tokens": 16, "n": 3, **SAMPLED}),
    "prompts": (COMPLETIONS, {"prompt": [STORY, "One day", "The"], "max_tokens": 8}),
    "ids": (COMPLETIONS, {"prompt": [0, 1156, 1660], "max_tokens": 8, "return_token_ids": True}),
    "stop": (COMPLETIONS, {"prompt": STORY, "max_tokens": 64, "stop": ["Omar", ". He"], "return_token_ids": True}),
    "kept stop": (COMPLETIONS, {"prompt": STORY, "max_tokens": 64, "stop": "clever b", "include_stop_str_in_output": True}),
    "logprobs": (COMPLETIONS, {"prompt": STORY, "max_tokens": 12, "logprobs": 3, "n": 2, **SAMPLED}),
    "echo": (COMPLETIONS, {"prompt": [STORY, "One day"], "max_tokens": 6, "echo": True, "n": 2, **SAMPLED}),
    "echo of ids": (COMPLETIONS, {"prompt": [[0, 1156, 1660], [1156]], "max_tokens": 6, "echo": True, "logprobs": 2}),
    "prompt logprobs": (COMPLETIONS, {"prompt": STORY, "max_tokens": 4, "prompt_logprobs": 2}),
    "to the end": (CHAT, {"messages": QUESTION}),
    "chat": (CHAT, {"messages": QUESTION, "max_tokens": 16}),
    "several chats": (CHAT, {"messages": QUESTION, "max_tokens": 16, "n": 3, **SAMPLED}),
    "chat logprobs": (CHAT, {"messages": QUESTION, "max_tokens": 8, "logprobs": True, "top_logprobs": 3, "n": 2, **SAMPLED}),
    "chat stop": (CHAT, {"messages": QUESTION, "max_tokens": 64, "stop": ["big", "ball"], "logprobs": True}),
    "special tokens": (CHAT, {"messages": QUESTION, "skip_special_tokens": False, "include_stop_str_in_output": True}),
}


def added_up(logprobs):
    """The logprobs of several chunks as those of one answer."""
    total = {}
    for part in logprobs:
        for name, values in (part or {}).items():
            if values is not None:
                total.setdefault(name, []).extend(values)
    return total or None


def choices_of(chunks):
    """What chunks (or one whole answer) say of each choice, put together."""
    parts = {}
    for chunk in chunks:
        for choice in chunk["choices"]:
            parts.setdefault(choice["index"], []).append(choice)
    choices = []
    for index in sorted(parts):
        texts = [part["text"] if "text" in part else part.get("delta", part.get("message")).get("content") or ""
                 for part in parts[index]]
        ends = [(part["finish_reason"], part["stop_reason"]) for part in parts[index] if part["finish_reason"]]
        ids = [part["token_ids"] for part in parts[index] if "token_ids" in part]
        prompt_logprobs = [part["prompt_logprobs"] for part in parts[index] if "prompt_logprobs" in part]
        choices.append({"text": "".join(texts), "ends": ends, "ids": sum(ids, []) if ids else None,
                        "logprobs": added_up(part["logprobs"] for part in parts[index]),
                        "prompt_logprobs": prompt_logprobs})
    return choices


def counts(usage):
    return usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]


class SameEveryWay(ServedTestCase):
    def test_greedy_text_is_that_of_nvllm_run(self):
        prompts = [STORY, "One day", "The sun", "In the garden", ""]
        bodies = [{"prompt": prompt, "max_tokens": 32, "temperature": 0} for prompt in prompts]
        bodies += [{"messages": [{"role": "user", "content": text}], "max_tokens": 32, "temperature": 0}
                   for text in ("Hello", "Who are you?", "Count to three")]
        for body, known in zip(bodies, run_jsonl(bodies)):
            path = CHAT if "messages" in body else COMPLETIONS
            answer = self.server.must(self.server.post(path, {**body, "return_token_ids": True}))
            choice, = choices_of([answer])
            self.assertEqual(choice["text"], known["text"])
            self.assertEqual(choice["ids"], known["token_ids"])
            self.assertEqual(choice["ends"][0][0], known["finish_reason"])
            self.assertEqual(answer["usage"]["prompt_tokens"], known["usage"]["prompt_tokens"])
            self.assertEqual(answer["usage"]["completion_tokens"], known["usage"]["completion_tokens"])
            self.assertEqual(answer["usage"]["completion_tokens"], len(choice["ids"]))

    def test_stream_and_websocket_say_what_the_whole_answer_says(self):
        """K3 among the rest: the counts of all ways are equal."""
        for name, (path, fields) in KINDS.items():
            with self.subTest(name), self.server.websocket(path) as socket:
                body = {"temperature": 0, **fields}
                streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
                whole = self.server.must(self.server.post(path, body))
                chunks = self.server.stream(path, streamed)
                messages = socket.answers(streamed)
                socket.send(body)
                whole_message = json.loads(socket.receive())
                choices = choices_of([whole])
                self.assertTrue(all(len(choice["ends"]) == 1 for choice in choices), choices)
                self.assertEqual(choices_of(chunks), choices)
                self.assertEqual(choices_of(messages), choices)
                self.assertEqual(choices_of([whole_message]), choices)
                for answer in (chunks[-1], messages[-1], whole_message):
                    self.assertEqual(counts(answer["usage"]), counts(whole["usage"]))

    def test_number_of_choices_and_their_order(self):
        answer = self.server.complete([STORY, "One day", "The"], max_tokens=4, n=2, best_of=2)
        self.assertEqual([choice["index"] for choice in answer["choices"]], list(range(6)))
        texts = [choice["text"] for choice in answer["choices"]]
        alone = [self.server.complete(prompt, max_tokens=4)["choices"][0]["text"] for prompt in (STORY, "One day", "The")]
        self.assertEqual(texts, [text for text in alone for _ in range(2)])

    def test_best_of_gives_the_likeliest(self):
        body = {"prompt": STORY, "max_tokens": 8, "n": 1, "best_of": 5, "logprobs": 0, **SAMPLED}
        best = choices_of([self.server.must(self.server.post(COMPLETIONS, body))])[0]
        all_of_them = choices_of([self.server.must(self.server.post(COMPLETIONS, {**body, "n": 5}))])
        sums = [sum(choice["logprobs"]["token_logprobs"]) for choice in all_of_them]
        self.assertEqual(best["text"], all_of_them[sums.index(max(sums))]["text"])

    def test_head_of_an_answer(self):
        before = int(time.time())
        body = {"prompt": STORY, "max_tokens": 4, "n": 2}
        answers = [self.server.must(self.server.post(COMPLETIONS, body)) for _ in range(2)]
        chunks = self.server.stream(COMPLETIONS, body)
        self.assertEqual(len({chunk["id"] for chunk in chunks}), 1)
        self.assertEqual(len({chunk["created"] for chunk in chunks}), 1)
        self.assertEqual(len({answers[0]["id"], answers[1]["id"], chunks[0]["id"]}), 3)
        for answer in (*answers, *chunks):
            self.assertEqual(answer["object"], "text_completion")
            self.assertTrue(before <= answer["created"] <= time.time())
        self.assertEqual(self.server.chat(max_tokens=1)["object"], "chat.completion")

    def test_shape_of_a_chat(self):
        choice, = self.server.chat(max_tokens=4)["choices"]
        self.assertEqual(set(choice["message"]), {"role", "content", "refusal"})
        self.assertEqual((choice["message"]["role"], choice["message"]["refusal"]), ("assistant", None))
        chunks = self.server.stream(CHAT, {"messages": QUESTION, "max_tokens": 8, "n": 2})
        for index in range(2):
            deltas = [each["delta"] for chunk in chunks for each in chunk["choices"] if each["index"] == index]
            self.assertEqual(deltas[0], {"role": "assistant", "content": ""})
            self.assertTrue(all("role" not in delta for delta in deltas[1:]))

    def test_usage_of_a_stream(self):
        body = {"prompt": STORY, "max_tokens": 6, "n": 2}
        self.assertTrue(all("usage" not in chunk for chunk in self.server.stream(COMPLETIONS, body)))
        *chunks, last = self.server.stream(COMPLETIONS, {**body, "stream_options": {"include_usage": True}})
        self.assertTrue(all(chunk["usage"] is None for chunk in chunks))
        self.assertEqual((last["choices"], counts(last["usage"])), ([], (5, 12, 17)))
        options = {"include_usage": True, "continuous_usage_stats": True}
        for path, more in ((COMPLETIONS, {}), (CHAT, {"messages": QUESTION, "prompt": None})):
            *chunks, last = self.server.stream(path, {**body, **more, "stream_options": options})
            generated = [chunk["usage"]["completion_tokens"] for chunk in chunks]
            self.assertEqual(generated, sorted(generated))
            self.assertEqual(generated[-1], last["usage"]["completion_tokens"])

    def test_fields_without_effect_are_named(self):
        fields = {"user": "me", "service_tier": "auto", "no_such_field": 1}
        answer = self.server.post(COMPLETIONS, {"prompt": STORY, "max_tokens": 1, **fields})
        self.assertEqual(answer.status, 200)
        self.assertEqual(set(answer.headers["x-nvllm-ignored"].split(", ")), set(fields))
        plain = self.server.post(COMPLETIONS, {"prompt": STORY, "max_tokens": 1})
        self.assertNotIn("x-nvllm-ignored", plain.headers)
        streamed = self.server.post(COMPLETIONS, {"prompt": STORY, "max_tokens": 1, "stream": True, "user": "me"})
        self.assertEqual(streamed.headers["x-nvllm-ignored"], "user")


class Ends(ServedTestCase):
    """How answers end: what they say of it, and when they do where nothing was asked."""

    def ends(self, path, **fields):
        """(finish_reason, stop_reason) of the whole answer and of the stream, which must be the same."""
        body = {"temperature": 0, "max_tokens": 64, **fields}
        whole, = choices_of([self.server.must(self.server.post(path, body))])
        streamed, = choices_of(self.server.stream(path, body))
        self.assertEqual(streamed["ends"], whole["ends"])
        return whole["ends"][0]

    def test_stop_reasons(self):
        first = self.server.complete(STORY, max_tokens=3, return_token_ids=True)["choices"][0]["token_ids"]
        for path, ask in ((COMPLETIONS, {"prompt": STORY}), (CHAT, {"messages": QUESTION})):
            self.assertEqual(self.ends(path, **ask, stop=["zebra", "e", "a"])[0], "stop")
            self.assertIn(self.ends(path, **ask, stop=["zebra", "e", "a"])[1], ("e", "a"))
            self.assertEqual(self.ends(path, **ask, max_tokens=2, ignore_eos=True), ("length", None))
        self.assertEqual(self.ends(COMPLETIONS, prompt=STORY, stop_token_ids=[first[2], 7]), ("stop", first[2]))
        self.assertEqual(self.ends(COMPLETIONS, prompt=STORY, stop="clever b", include_stop_str_in_output=True),
                         ("stop", "clever b"))

    def test_the_end_token_is_no_reason_unless_it_was_asked_for(self):
        end = self.server.get("/tokenizer_info").json()["eos_token"]
        token, = self.server.must(self.server.post("/tokenize", {"prompt": end, "add_special_tokens": False}))["tokens"]
        self.assertEqual(self.ends(CHAT, messages=QUESTION), ("stop", None))
        self.assertEqual(self.ends(CHAT, messages=QUESTION, stop_token_ids=[token]), ("stop", None))
        self.assertEqual(self.ends(CHAT, messages=QUESTION, stop_token_ids=[token], ignore_eos=True), ("stop", token))

    def test_a_completion_that_says_no_length_has_16_tokens(self):
        for fields in ({}, {"max_tokens": None}, {"n": 2}):
            answer = self.server.complete(STORY, ignore_eos=True, **fields)
            self.assertEqual(answer["usage"]["completion_tokens"], 16 * fields.get("n", 1))
            self.assertEqual({choice["finish_reason"] for choice in answer["choices"]}, {"length"})
        self.assertEqual(self.server.complete(STORY, ignore_eos=True, max_completion_tokens=20)["usage"]["completion_tokens"], 20)
        self.assertGreaterEqual(self.server.chat(ignore_eos=True, min_tokens=20, stop=["e", "a"])["usage"]["completion_tokens"], 20)

    def test_a_hundred_and_twenty_eight_choices(self):
        answer = self.server.must(self.server.post(COMPLETIONS, {"prompt": STORY, "max_tokens": 12, "n": 128, **SAMPLED}))
        self.assertEqual([choice["index"] for choice in answer["choices"]], list(range(128)))
        self.assertGreater(len({choice["text"] for choice in answer["choices"]}), 16)
        many = {"prompt": ["a"] * 200, "n": 128, "max_tokens": 1}
        self.assert_refused(self.server.post(COMPLETIONS, many), 400, None, "n", says=("25600", "16384"))

    def test_prompts_are_cut_at_their_beginning(self):
        words = " ".join(f"word{number}" for number in range(40))
        encode = lambda text: self.server.must(self.server.post("/tokenize", {"prompt": text}))["tokens"]
        ids = encode(words)
        body = {"prompt": words, "max_tokens": 6, "truncate_prompt_tokens": 10}
        cut = self.server.complete(**body)
        self.assertEqual(cut["usage"]["prompt_tokens"], 10)
        # What the tokenizer puts before a text stays before what is left of it; ids are taken as they are.
        self.assertEqual(cut["choices"][0]["text"], self.server.complete([ids[0], *ids[-9:]], max_tokens=6)["choices"][0]["text"])
        of_ids = self.server.complete(ids, max_tokens=6, truncate_prompt_tokens=10)["choices"][0]["text"]
        self.assertEqual(of_ids, self.server.complete(ids[-10:], max_tokens=6)["choices"][0]["text"])
        for path, fields in ((CHAT, {"messages": [{"role": "user", "content": words}], "max_tokens": 1}), ("/v1/embeddings", {"input": words})):
            answer = self.server.must(self.server.post(path, {**fields, "truncate_prompt_tokens": 10}))
            self.assertEqual(answer["usage"]["prompt_tokens"], 10)
        long = [5] * 3000
        room = self.server.complete(long, max_tokens=8, truncate_prompt_tokens=-1, ignore_eos=True)["usage"]
        self.assertEqual((room["prompt_tokens"], room["completion_tokens"]), (2040, 8))
        self.assert_refused(self.server.post(COMPLETIONS, {"prompt": long}), 400, "context_length_exceeded", "prompt")


class Logprobs(ServedTestCase):
    def test_a_chat_has_its_prompt_s_logprobs_at_the_top(self):
        body = {"messages": QUESTION, "max_tokens": 3, "n": 2, "prompt_logprobs": 1, "temperature": 0}
        answer = self.server.must(self.server.post(CHAT, body))
        self.assertEqual(len(answer["prompt_logprobs"]), answer["usage"]["prompt_tokens"])
        self.assertIsNone(answer["prompt_logprobs"][0])
        self.assertTrue(all("prompt_logprobs" not in choice for choice in answer["choices"]))
        said = [chunk["prompt_logprobs"] for chunk in self.server.stream(CHAT, body) if "prompt_logprobs" in chunk]
        self.assertEqual(said, [answer["prompt_logprobs"]])
        self.assertNotIn("prompt_logprobs", self.server.chat(QUESTION, max_tokens=1))

    def test_tokens_as_their_ids(self):
        fields = {"max_tokens": 4, "return_token_ids": True, "return_tokens_as_token_ids": True}
        choice, = self.server.complete(STORY, logprobs=1, **fields)["choices"]
        names = [f"token_id:{token}" for token in choice["token_ids"]]
        self.assertEqual(choice["logprobs"]["tokens"], names)
        self.assertEqual([list(top) for top in choice["logprobs"]["top_logprobs"]], [[name] for name in names])
        choice, = self.server.chat(QUESTION, logprobs=True, **fields)["choices"]
        self.assertEqual([token["token"] for token in choice["logprobs"]["content"]],
                         [f"token_id:{token}" for token in choice["token_ids"]])

    def test_as_many_as_the_server_gives(self):
        with Server("--max-logprobs", "-1") as server:
            choice, = server.complete(STORY, max_tokens=1, logprobs=-1)["choices"]
            content = server.chat(QUESTION, max_tokens=1, logprobs=True, top_logprobs=100)["choices"][0]["logprobs"]["content"]
            self.assertEqual(len(content[0]["top_logprobs"]), 100)
            # Of tokens with the same text one is shown.
            self.assertGreater(len(choice["logprobs"]["top_logprobs"][0]), 1500)
            answer = server.chat(QUESTION, max_tokens=1, prompt_logprobs=-1)
            self.assertEqual({len(entry) for entry in answer["prompt_logprobs"][1:]}, {2048})
        self.assert_refused(self.server.post(COMPLETIONS, {"prompt": STORY, "logprobs": -1}), 400, None, "logprobs", says="0 to 20")

    def test_chosen_token_is_among_the_top_and_equal(self):
        """U11: compared for exact equality by those who ask."""
        answer = self.server.complete([[0, 1156, 1660, 264], [0, 1156]], max_tokens=6, echo=True, logprobs=1, seed=1)
        for choice, num_prompt_tokens in zip(answer["choices"], (4, 2)):
            logprobs = choice["logprobs"]
            self.assertEqual((logprobs["token_logprobs"][0], logprobs["top_logprobs"][0]), (None, None))
            self.assertEqual(len(logprobs["tokens"]), num_prompt_tokens + 6)
            for token, logprob, top in list(zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]))[1:]:
                self.assertEqual(top[token], logprob)
                self.assertLessEqual(logprob, max(top.values()))
            for logprob, top in list(zip(logprobs["token_logprobs"], logprobs["top_logprobs"]))[num_prompt_tokens:]:
                self.assertEqual(logprob, max(top.values()))

    def test_prompt_and_answer_have_the_same_logprobs(self):
        said = self.server.complete([0, 1156, 1660], max_tokens=12, logprobs=0, return_token_ids=True)["choices"][0]
        again = self.server.complete([0, 1156, 1660, *said["token_ids"]], max_tokens=0, logprobs=0, echo=True)["choices"][0]
        self.assertEqual(again["logprobs"]["tokens"][3:], said["logprobs"]["tokens"])
        for one, other in zip(again["logprobs"]["token_logprobs"][3:], said["logprobs"]["token_logprobs"]):
            self.assertAlmostEqual(one, other, delta=1e-5)

    def test_chat_and_completion_have_the_same_logprobs(self):
        chat = self.server.chat(QUESTION, max_tokens=8, logprobs=True, top_logprobs=4)
        ids = self.server.must(self.server.post("/tokenize", {"messages": QUESTION, "add_generation_prompt": True}))["tokens"]
        completion = self.server.complete(ids, max_tokens=8, logprobs=4)["choices"][0]["logprobs"]
        content = chat["choices"][0]["logprobs"]["content"]
        self.assertEqual([token["token"] for token in content], completion["tokens"])
        self.assertEqual([token["logprob"] for token in content], completion["token_logprobs"])
        for token, top in zip(content, completion["top_logprobs"]):
            self.assertEqual({other["token"]: other["logprob"] for other in token["top_logprobs"]}, top)
            self.assertEqual(token["bytes"], list(token["token"].encode()))

    def assert_offsets_point(self, choice, special=()):
        """Every offset is where the token's text is; tokens that leave no text point between the others."""
        text, logprobs = choice["text"], choice["logprobs"]
        self.assertEqual(len(logprobs["tokens"]), len(logprobs["text_offset"]))
        end = 0
        for token, offset in zip(logprobs["tokens"], logprobs["text_offset"]):
            self.assertEqual(offset, end, (token, text))
            if token in special:
                continue
            # What the text begins with loses the space that vocabularies put before words.
            token = token if text[offset:].startswith(token) else token.lstrip(" ")
            self.assertTrue(text[offset:].startswith(token), (token, offset, text))
            end = offset + len(token)
        self.assertEqual(end, len(text))

    def test_text_offsets_point_into_the_text(self):
        special = ("<|begin|>", "<|user|>", "<|end|>")
        for fields in ({}, {"echo": True}, {"echo": True, "n": 2}, {"echo": True, "max_tokens": 0}):
            for prompt in (STORY, [0, 1156, 1660], [STORY, "One day"], "Où est l'été 日本?", "a <|user|> b"):
                with self.subTest(fields=fields, prompt=prompt):
                    in_text = [token for token in special if token in prompt]
                    answer = self.server.complete(prompt, **{"max_tokens": 8, "logprobs": 1, **fields})
                    for choice in answer["choices"]:
                        if "echo" in fields and "Où" in prompt:
                            self.check_bytes(choice)
                        else:
                            self.assert_offsets_point(choice, [token for token in special if token not in in_text])

    def check_bytes(self, choice):
        """A character that several tokens spell: all of them point at it."""
        text, offsets = choice["text"], choice["logprobs"]["text_offset"]
        self.assertEqual(offsets, sorted(offsets))
        self.assertLessEqual(offsets[-1], len(text))
        for token, offset in zip(choice["logprobs"]["tokens"], offsets):
            if token.isascii() and not token.startswith("<|"):
                self.assertTrue(text[offset:].startswith(token), (token, offset, text))

    def test_offsets_of_a_text_that_a_stop_string_cuts(self):
        choice, = self.server.complete(STORY, max_tokens=64, logprobs=0, stop="a clever boy")["choices"]
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertTrue(all(offset <= len(choice["text"]) for offset in choice["logprobs"]["text_offset"]), choice)


class Http(ServedTestCase):
    """What one connection carries; connections that misbehave have tests of their own."""

    def test_one_connection_for_everything(self):
        connection = self.server.connection()
        self.server.request("GET", "/ready", connection=connection)
        socket = connection.sock
        body = {"prompt": STORY, "max_tokens": 4, "temperature": 0}
        for number in range(4):
            asked = [("GET", "/v1/models", None, 200), ("POST", COMPLETIONS, body, 200), ("POST", COMPLETIONS, {**body, "stream": True}, 200),
                     ("POST", COMPLETIONS, b"{", 400), ("POST", COMPLETIONS, {**body, "n": 0}, 400), ("GET", "/nope", None, 404),
                     ("POST", COMPLETIONS, {**body, "model": "x"}, 404), ("GET", COMPLETIONS, None, 405), ("HEAD", "/ready", None, 200),
                     ("OPTIONS", COMPLETIONS, None, 204), ("POST", "/tokenize", {"prompt": "a"}, 200), ("GET", "/nvllm/status", None, 200)]
            for method, path, content, status in asked:
                answer = self.server.request(method, path, content, {"Content-Type": "application/json"}, connection)
                self.assertEqual(answer.status, status, (method, path))
                self.assertNotIn("Connection", answer.headers)
                self.assertIs(connection.sock, socket, (method, path))
        connection.close()

    def test_the_client_ends_the_connection(self):
        for version, fields, is_kept in (("1.1", {}, True), ("1.1", {"Connection": "close"}, False), ("1.0", {}, False),
                                         ("1.0", {"Connection": "keep-alive"}, True)):
            for path, body in (("/ready", b""), (COMPLETIONS, json.dumps({"prompt": "a", "max_tokens": 1})),
                               (COMPLETIONS, json.dumps({"prompt": "a", "max_tokens": 1, "stream": True}))):
                with self.subTest(version=version, fields=fields, body=body), self.server.raw() as raw:
                    streams = "stream" in str(body)
                    raw.send(request_bytes("POST" if body else "GET", path, {"Host": "localhost", **fields}, body, version))
                    answer = raw.answer()
                    self.assertEqual(answer.status, 200)
                    if streams:
                        self.assertEqual(answer.events()[-1], "[DONE]")
                        self.assertEqual("Transfer-Encoding" in answer.headers, version == "1.1")
                    # Without chunks, only the end of the connection ends a stream.
                    is_kept_now = is_kept and not (streams and version == "1.0")
                    self.assertEqual(answer.headers["Connection"],
                                     "close" if not is_kept_now else "keep-alive" if version == "1.0" else None)
                    self.assertEqual(raw.is_closed(timeout_s=0.2), not is_kept_now)

    def test_HEAD_is_GET_without_a_body(self):
        for path in ("/live", "/ready", "/health", "/version", "/openapi.json", "/v1/models", "/v1/models/x", "/nope"):
            full, head = self.server.get(path), self.server.request("HEAD", path)
            self.assertEqual((head.status, head.body), (full.status, b""))
            for name in ("Content-Type", "Content-Length"):
                self.assertEqual(head.headers[name], full.headers[name], path)

    def test_OPTIONS_says_what_is_allowed(self):
        for path, allowed in (("/ready", "GET, HEAD, OPTIONS"), (COMPLETIONS, "POST, OPTIONS"), ("*", "GET, HEAD, POST, DELETE, OPTIONS")):
            answer = self.server.request("OPTIONS", path)
            self.assertEqual((answer.status, answer.headers["Allow"], answer.body), (204, allowed, b""))
        self.assert_refused(self.server.request("OPTIONS", "/nope"), 404, "not_found", says="/nope")

    def test_models(self):
        with Server("--served-model-name", "one", "--served-model-name", "two") as server:
            self.assertEqual([entry["id"] for entry in server.get("/v1/models").json()["data"]], ["one", "two"])
            for name in ("one", "two", ""):
                answer = server.complete(max_tokens=1, **({"model": name} if name else {}))
                self.assertEqual(answer["model"], name or "one")
            self.assertEqual(server.get("/v1/models/two").json()["max_model_len"], 2048)
            self.assertEqual(server.get("/v1/models/%74w%6F").json()["id"], "two")
            self.assert_refused(server.post(COMPLETIONS, {"prompt": "a", "model": "demo"}), 404, "model_not_found", "model")
            server.check()

    def test_tokenizer(self):
        """What is said of it is what its routes do."""
        info = self.server.get("/tokenizer_info").json()
        self.assertEqual((info["bos_token"], info["eos_token"], info["vocab_size"]), ("<|begin|>", "<|end|>", 2048))
        self.assertIn("messages", info["chat_template"])
        for text, ids in ((info["bos_token"], [0]), (info["eos_token"], [1]), (STORY, None)):
            encoded = self.server.must(self.server.post("/tokenize", {"prompt": text, "add_special_tokens": False}))
            self.assertEqual(encoded["count"], len(encoded["tokens"]))
            if ids:
                self.assertEqual(encoded["tokens"], ids)
            self.assertEqual(self.server.must(self.server.post("/detokenize", {"tokens": encoded["tokens"]}))["prompt"], text)
        self.assertEqual(self.server.must(self.server.post("/tokenize", {"prompt": STORY}))["tokens"][0], 0)
        self.assert_refused(self.server.get("/tokenizer_info?model=x"), 404, "model_not_found", "model")

    def test_every_field_of_tokenizing_counts(self):
        def ids(**fields):
            return self.server.must(self.server.post("/tokenize", fields))["tokens"]

        talk = [*QUESTION, {"role": "assistant", "content": "It"}]
        ways = [ids(prompt=STORY), ids(prompt=STORY, add_special_tokens=False), ids(messages=talk),
                ids(messages=talk, add_generation_prompt=False), ids(messages=talk, continue_final_message=True)]
        self.assertEqual(ids(content=STORY), ways[1])
        self.assertEqual(ids(messages=talk, add_generation_prompt=True), ways[2])
        self.assertEqual(len({str(way) for way in ways}), len(ways), ways)
        self.assert_refused(self.server.post("/tokenize", {"prompt": STORY, "model": "x"}), 404, "model_not_found", "model")
        for path, body in (("/tokenize", {"prompt": STORY}), ("/detokenize", {"tokens": [5]}), ("/v1/embeddings", {"input": STORY})):
            self.assertIsNone(self.server.post(path, body).headers["x-nvllm-ignored"])
            self.assertEqual(self.server.post(path, {**body, "no_such": 1}).headers["x-nvllm-ignored"], "no_such")

    def test_the_prompt_of_a_chat(self):
        """What the chat itself computes, as text and ids, and its faults."""
        body = {"messages": QUESTION, "max_tokens": 3}
        answer = self.server.must(self.server.post(f"{CHAT}/render", body))
        self.assertEqual(answer["prompt_token_ids"], self.server.must(self.server.post("/tokenize", {"messages": QUESTION}))["tokens"])
        self.assertEqual(answer["count"], self.server.chat(QUESTION, max_tokens=3)["usage"]["prompt_tokens"])
        self.assertEqual((answer["count"], answer["max_tokens"]), (len(answer["prompt_token_ids"]), 3))
        self.assertIn(QUESTION[0]["content"], answer["prompt"])
        self.assert_refused(self.server.post(f"{CHAT}/render", {}), 400, None, "messages")
        self.assert_refused(self.server.post(f"{CHAT}/render", {**body, "model": "x"}), 404, "model_not_found", "model")

    def test_several_models(self):
        """Each by its name; the first when none is named, and the answer says so."""
        draft = SOURCE / "models" / "demo-draft"
        with Server("--model", f"draft={draft}", model=f"demo={DEMO}") as server:
            texts = {name: server.complete(model=name, max_tokens=12)["choices"][0]["text"] for name in ("demo", "draft")}
            self.assertEqual(server.complete(max_tokens=12)["choices"][0]["text"], texts["demo"])
            for path, body in ((COMPLETIONS, {"prompt": STORY}), (COMPLETIONS, {"prompt": STORY, "stream": True}), (CHAT, {"messages": QUESTION}),
                               ("/v1/embeddings", {"input": STORY}), ("/tokenize", {"prompt": STORY}), ("/detokenize", {"tokens": [5]})):
                unnamed, named = server.post(path, body), server.post(path, {**body, "model": "demo"})
                self.assertEqual((unnamed.status, unnamed.headers["x-nvllm-model"]), (200, "demo"))
                self.assertNotIn("x-nvllm-model", named.headers)
            alone = run_jsonl([{"prompt": STORY, "max_tokens": 12, "temperature": 0}], model=draft)[0]["text"]
            self.assertEqual(texts["draft"], alone)
            self.assertEqual([model["name"] for model in server.status()["models"]], ["demo", "draft"])
            server.check()


if __name__ == "__main__":
    unittest.main()
