"""Rows K1, K2 and K3 over HTTP: characters that are split over tokens, stop strings, and counts, by random answers that
were drawn with seeds; and how a long prompt is told of while it is computed."""

import json
import pathlib
import random
import threading
import unittest

from programs import DEMO
from serve_testing import ServedTestCase, joined_text, wait_until

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
NUM_CLIENTS = 8


def byte_characters():
    """The character that stands for each byte in byte-level vocabularies."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {**{byte: chr(byte) for byte in shown}, **{byte: chr(256 + i) for i, byte in enumerate(hidden)}}


class Vocabulary:
    """The bytes of the demo's tokens, read from its file."""

    def __init__(self, directory):
        model = json.loads(pathlib.Path(directory, "tokenizer.json").read_text())
        byte_of = {character: byte for byte, character in byte_characters().items()}
        special = {token["id"] for token in model["added_tokens"]}
        self.bytes_of = {id: b"" if id in special else bytes(byte_of[letter] for letter in token)
                         for token, id in model["model"]["vocab"].items()}
        self.id_of = {data: id for id, data in self.bytes_of.items() if data}

    def text(self, ids, at_end=True):
        """With broken bytes as U+FFFD; what could still become a character is left out unless it is the end."""
        data = b"".join(self.bytes_of[id] for id in ids)
        text = data.decode("utf-8", "replace")
        if at_end:
            return text
        for held in range(1, 4):
            head, tail = data[:-held], data[-held:]
            if tail and is_begun_character(tail):
                return head.decode("utf-8", "replace")
        return text


def is_begun_character(data):
    """Whether more bytes could make these one character."""
    try:
        data.decode("utf-8")
        return False
    except UnicodeDecodeError as error:
        return error.start == 0 and error.end == len(data) and error.reason == "unexpected end of data"


def in_parallel(tasks):
    """Runs them by a few threads; what one of them throws is thrown."""
    waiting, failures = list(tasks), []

    def work():
        while waiting and not failures:
            try:
                waiting.pop()()
            except IndexError:
                return
            except Exception as failure:  # noqa: BLE001 - passed on below
                failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(NUM_CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


class Streams(ServedTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.vocabulary = Vocabulary(DEMO)

    def byte_ids(self, text):
        return sorted({self.vocabulary.id_of[bytes([byte])] for byte in text.encode()})

    def random_answer(self, seed, alphabet, **fields):
        """A whole answer of byte tokens from these characters, in random order."""
        body = {"prompt": [0], "max_tokens": 48, "n": 8, "temperature": 2.0, "top_p": 1.0, "seed": seed, "ignore_eos": True,
                "allowed_token_ids": self.byte_ids(alphabet), "frequency_penalty": 2.0, "return_token_ids": True, **fields}
        return body, self.server.must(self.server.post(COMPLETIONS, body))

    def test_K1_split_characters(self):
        num_whole = num_broken = 0
        for seed, alphabet in enumerate(("é", "日本", "😀", "👩\u200d👧", "e\u0301n\u0303", "aé日😀", "ß\u00a0\u2028")):
            body, whole = self.random_answer(seed, alphabet)
            chunks = self.server.stream(COMPLETIONS, body)
            for choice in whole["choices"]:
                known = self.vocabulary.text(choice["token_ids"])
                self.assertEqual(choice["text"], known)
                self.assertEqual(joined_text(chunks, choice["index"]), known)
                num_broken += known.count("\ufffd")
                num_whole += sum(not letter.isascii() and letter != "\ufffd" for letter in known)
        print(f"{num_whole} characters of several bytes, {num_broken} broken ones")
        self.assertGreater(num_whole, 100)
        self.assertGreater(num_broken, 100)

    def stops_for(self, text, dice):
        """Some that are in the text, at any alignment, some that begin each other, some that only nearly are."""
        stops = []
        for _ in range(dice.randint(1, 4)):
            begin = dice.randrange(len(text))
            stops.append(text[begin:begin + dice.randint(1, 9)])
        longest = max(stops, key=len)
        stops += [longest[:-1], longest + "\x7f", text[-3:]]
        return [stop for stop in dict.fromkeys(stops) if stop and len(stop.encode()) <= 256][:16]

    def check_stopped(self, text, stops, shown, finish_reason):
        self.assertTrue(text.startswith(shown), (text, stops, shown))
        self.assertFalse(any(stop in shown for stop in stops), (stops, shown))
        is_stopped = any(stop in text for stop in stops)
        self.assertEqual(finish_reason, "stop" if is_stopped else "length")
        rest = text[len(shown):]
        self.assertTrue(any(rest.startswith(stop) for stop in stops) if is_stopped else not rest, (stops, text, shown))

    def check_hold_back(self, chunks, index, stops):
        """What was generated and not shown must be the beginning of a stop string."""
        ids, shown = [], ""
        for chunk in chunks:
            for choice in chunk["choices"]:
                if choice["index"] != index:
                    continue
                ids += choice["token_ids"]
                shown += choice["text"]
                if choice["finish_reason"]:
                    return
                held = self.vocabulary.text(ids, at_end=False)[len(shown):]
                self.assertTrue(any(stop != held and stop.startswith(held) for stop in stops) if held else True, (held, stops))

    def test_K2_stop_strings(self):
        dice = random.Random(2)
        num_stopped = 0
        for seed, alphabet in enumerate(("abc", "aé", "日本 ", "ab\n", "xyz.")):
            body, whole = self.random_answer(seed, alphabet, n=1, max_tokens=40)
            text = whole["choices"][0]["text"]
            for _ in range(12):
                stops = [stop for stop in self.stops_for(text, dice) if "\ufffd" not in stop]
                if not stops:
                    continue
                choice, = self.server.must(self.server.post(COMPLETIONS, {**body, "stop": stops}))["choices"]
                chunks = self.server.stream(COMPLETIONS, {**body, "stop": stops})
                self.check_stopped(text, stops, choice["text"], choice["finish_reason"])
                self.assertEqual(joined_text(chunks), choice["text"])
                self.check_hold_back(chunks, 0, stops)
                num_stopped += choice["finish_reason"] == "stop"
        self.assertGreater(num_stopped, 30)

    def test_K2_stop_string_across_the_prompt(self):
        """What the prompt ends with is no part of the answer."""
        text = self.server.complete(max_tokens=8)["choices"][0]["text"]
        stop = "time" + text[:3]
        self.assertEqual(self.server.complete(max_tokens=8, stop=stop)["choices"][0]["text"], text)

    def test_K3_usage(self):
        """Counts of mixed requests that run together: whole, streamed, and what the tokenizer says."""
        dice = random.Random(3)
        words = "Once upon a time there was a little girl who said hello to the sun".split()

        def one(number):
            prompt = " ".join(dice.choices(words, k=dice.randint(1, 30)))
            body = {"max_tokens": dice.randint(1, 24), "n": dice.randint(1, 3), "temperature": 1.0, "seed": number}
            body.update({"stop": dice.choice([None, [" the", "e"]]), "return_token_ids": True})
            path = dice.choice([COMPLETIONS, CHAT])
            asked = {"prompt": prompt} if path == COMPLETIONS else {
                "messages": [{"role": "user", "content": prompt}], "add_generation_prompt": True}
            return lambda: self.check_usage(path, {**body, **asked}, asked)

        in_parallel([one(number) for number in range(120)])

    def check_usage(self, path, body, asked):
        num_prompt_tokens = self.server.must(self.server.post("/tokenize", asked))["count"]
        whole = self.server.must(self.server.post(path, body))
        chunks = self.server.stream(path, {**body, "stream_options": {"include_usage": True}})
        usage = whole["usage"]
        self.assertEqual(usage["prompt_tokens"], num_prompt_tokens)
        self.assertEqual(usage["completion_tokens"], sum(len(choice["token_ids"]) for choice in whole["choices"]))
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        for each in (usage, chunks[-1]["usage"]):
            self.assertLessEqual(each["prompt_tokens_details"]["cached_tokens"], num_prompt_tokens)
            self.assertEqual({**each, "prompt_tokens_details": None}, {**usage, "prompt_tokens_details": None})

    def test_answers_leave_nothing_behind(self):
        """Bodies of 2 MiB, so that what is kept of a hundred answers would show."""
        body = {"prompt": "Once", "max_tokens": 2, "metadata": {"x": "x" * (2 << 20)}}

        def ask(number):
            path, stream = COMPLETIONS, number % 3 > 0
            if number % 3 < 2:
                return self.server.post(path, {**body, "stream": stream})
            with self.server.raw() as leaving:  # in the middle of its stream
                leaving.send(self.server.raw_post(path, {**body, "max_tokens": 500, "ignore_eos": True, "stream": True}))
                leaving.head()

        for number in range(12):
            ask(number)
        wait_until(self.server.is_idle)
        before = self.server.resident_bytes()
        for number in range(60):
            ask(number)
        wait_until(self.server.is_idle)
        self.assertLess(self.server.resident_bytes() - before, 40 << 20)

    def test_neighbours_change_nothing(self):
        bodies = [{"prompt": prompt, "max_tokens": 24, "temperature": 0} for prompt in
                  ("Once upon a time", "One day", "The", "In the garden", "She said", "A dog", "Tom and", "Hello")]
        alone = [self.server.must(self.server.post(COMPLETIONS, body))["choices"][0]["text"] for body in bodies]

        def one(body, text):
            self.assertEqual(joined_text(self.server.stream(COMPLETIONS, body)), text)

        in_parallel([lambda body=body, text=text: one(body, text) for body, text in list(zip(bodies, alone)) * 6])


class Progress(ServedTestCase):
    arguments = ("--max-num-batched-tokens", "64", "--max-num-seqs", "8")

    def test_long_prompt_is_told_of(self):
        ids = [0] + [400 + index % 900 for index in range(799)]
        for path, asked in ((COMPLETIONS, {"prompt": ids}),
                            (CHAT, {"messages": [{"role": "user", "content": "one two three four five six " * 40}]})):
            with self.subTest(path):
                body = {**asked, "max_tokens": 4, "return_progress": True, "stream_options": {"include_usage": True}}
                chunks = self.server.stream(path, body)
                told = [chunk["prompt_progress"] for chunk in chunks if "prompt_progress" in chunk]
                done = [progress["processed"] for progress in told]
                self.assertGreater(len(told), 2)
                self.assertEqual(done, sorted(set(done)))
                self.assertEqual(done[-1], chunks[-1]["usage"]["prompt_tokens"])
                self.assertEqual({progress["total"] for progress in told}, {done[-1]})
                self.assertTrue(all(progress["cache"] <= progress["processed"] for progress in told))
                first_text = next(i for i, chunk in enumerate(chunks) if joined_text([chunk]))
                last_told = max(i for i, chunk in enumerate(chunks) if "prompt_progress" in chunk)
                self.assertLess(last_told, first_text)
                self.assertFalse(any("prompt_progress" in chunk for chunk in self.server.stream(path, {
                    **body, "return_progress": False})))


if __name__ == "__main__":
    unittest.main()
