"""More than a server takes: rows C1, C2, C3, C5 and C6 of the fault table."""

import asyncio
import json
import pathlib
import resource
import time
import unittest

from fault_testing import (FaultServer, all_ended, allow_open_files, answers_in, closing_post, completion, connect_all,
                           metronome_ids, percentile, plain_prompt, run_clients, sized)
from serve_testing import wait_until


class Full(unittest.TestCase):
    def test_c1_exactly_the_excess_is_refused(self):
        slots, queued, attempts = 4, sized(96, 512), sized(260, 1200)
        allow_open_files(2 * attempts + 200)
        with FaultServer("--max-num-seqs", slots, "--max-queued-requests", queued, interval_ms=sized(20, 40)) as server:
            server.learn()
            server.check_settles(lambda: self.overfill(server, slots, queued, attempts))

    def overfill(self, server, slots, queued, attempts):
        # Those that run keep their slots until all others have asked.
        long = [closing_post(server, "/v1/completions", completion(plain_prompt(number), 150))
                for number in range(slots)]
        short = [closing_post(server, "/v1/completions", completion(plain_prompt(number), 2))
                 for number in range(slots, attempts)]

        async def run():
            first = await connect_all(server.port, long)
            while (await asyncio.to_thread(server.status))["requests"]["running"] < slots:
                await asyncio.sleep(0.01)
            clients = first + await connect_all(server.port, short, at_once=len(short))
            await all_ended(clients)
            return clients

        before = server.status()["calls"]
        clients = asyncio.run(run())
        answers = [client.answer() for client in clients]
        refused = [client for client, answer in zip(clients, answers) if answer.status == 429]
        self.assertEqual(len(refused), attempts - slots - queued)
        for number, answer in enumerate(answers):
            if answer.status == 429:
                self.assertEqual((answer.headers["Retry-After"], answer.error["type"], answer.error["code"]),
                                 ("1", "overloaded_error", "queue_full"))
            else:
                self.assertEqual(answer.status, 200)
                count = 150 if number < slots else 2
                self.assertEqual(answer.json()["choices"][0]["token_ids"], metronome_ids(plain_prompt(number), count))
        calls = server.status()["calls"]
        self.assertEqual(calls["accepted"] - before["accepted"], slots + queued)
        self.assertEqual(calls["finished"] - before["finished"], slots + queued)
        waits_ms = [(client.ended_s - client.began_s) * 1000 for client in refused]
        print(f"\n    C1: {len(refused)} of {attempts} refused, p50 {percentile(waits_ms, 0.5):.0f} ms, "
              f"p99 {percentile(waits_ms, 0.99):.0f} ms after they began to connect")

    def test_c1_prompts_that_wait_are_bounded_by_their_tokens(self):
        # The cache holds 1,024 tokens, and twice as many may be under way: prompts of 300 tokens fit six times.
        with FaultServer("--max-num-seqs", 1, "--max-model-len", 512, "--kv-cache-memory-bytes", 2 << 20,
                         "--max-queued-pools", 1, interval_ms=10) as server:
            server.learn()
            pool_tokens = server.status()["kv_cache"]["blocks_total"] * 16
            prompt = plain_prompt(0, 60) * 5
            fitting = 2 * pool_tokens // len(prompt)
            streams = []
            for _ in range(fitting):
                streams.append(server.start_stream(completion(prompt, 200)))
                self.assertEqual(streams[-1].head().status, 200)
            answer = server.post("/v1/completions", completion(prompt, 1))
            self.assertEqual((answer.status, answer.error["code"]), (429, "queue_full"))
            # A short one finds room.
            tail = server.start_stream(completion(prompt[:10], 1))
            self.assertEqual(tail.head().status, 200)
            for connection in [*streams, tail]:
                connection.close()
            server.check()

    def test_c1_the_status_of_overload_can_be_chosen(self):
        for status in (503, 529):
            with FaultServer("--max-num-seqs", 1, "--max-queued-requests", 0, "--overload-status", status,
                             interval_ms=10) as server:
                server.learn()
                stream = server.start_stream(completion(plain_prompt(0), 1000))
                stream.receive_until(b"data: ")
                answer = server.post("/v1/completions", completion(plain_prompt(1), 1))
                self.assertEqual((answer.status, answer.error["code"]), (status, "queue_full"))
                stream.close()
                server.check()


class SmallCache(unittest.TestCase):
    """The real model, with a cache that holds four sequences."""

    NUM_REQUESTS = 64
    TOKENS = sized(100, 200)

    def body(self, number):
        return {"prompt": f"Number {number} went to the river and", "max_tokens": self.TOKENS, "temperature": 0,
                "ignore_eos": True, "return_token_ids": True}

    def answers(self, server):
        clients = run_clients(server.port, [closing_post(server, "/v1/completions", self.body(number))
                                            for number in range(self.NUM_REQUESTS)])
        found = []
        for client in clients:
            answer = client.answer()
            self.assertEqual(answer.status, 200, answer)
            found.append((answer.json()["choices"][0]["token_ids"], answer.json()["choices"][0]["finish_reason"]))
        return found

    def test_c2_all_finish_as_if_the_cache_were_large(self):
        with FaultServer("--max-num-seqs", 16) as server:
            server.learn()
            wanted = self.answers(server)
            self.assertEqual(server.status()["kv_cache"]["preemptions"], 0)
            server.check()
        longest = self.TOKENS + 16
        with FaultServer("--max-num-seqs", 16, "--max-model-len", longest, "--kv-cache-memory-bytes", 4 * longest * 2048,
                         "--max-queued-pools", 1000) as server:
            server.learn()
            self.assertEqual(self.answers(server), wanted)
            preemptions = server.status()["kv_cache"]["preemptions"]
            print(f"\n    C2: {preemptions} preemptions of {self.NUM_REQUESTS} requests")
            self.assertGreater(preemptions, 0)
            self.assertLessEqual(preemptions, 4 * self.NUM_REQUESTS)
            server.check()

    def test_c3_what_the_cache_can_never_hold_is_refused_at_once(self):
        with FaultServer("--max-model-len", 128, "--kv-cache-memory-bytes", 128 * 2048) as server:
            server.learn()
            for body in ({"prompt": [30] * 128, "max_tokens": 1}, {"prompt": [30] * 5000, "max_tokens": 1},
                         {"prompt": "word " * 100_000, "max_tokens": 1}):
                answer = server.post("/v1/completions", body)
                self.assertEqual((answer.status, answer.error["code"]), (400, "context_length_exceeded"), answer)
            # What just fits is answered, several at a time one after the other.
            answer = server.complete([30] * 100, max_tokens=28, n=4, ignore_eos=True)
            self.assertEqual(answer["usage"]["completion_tokens"], 4 * 28)
            server.check()


class AddressSpace(unittest.TestCase):
    """C5: the process may not have much more address space: new requests are refused while what is under way ends well."""

    COUNT = 40
    SPARE_BYTES = 60 << 20  # less than the server wants to have in hand

    def running_streams(self, server):
        if server.is_sanitized():
            self.skipTest("a sanitizer has a use of its own for address space")
        streams = [server.start_stream(completion(plain_prompt(number), 300)) for number in range(self.COUNT)]
        for stream in streams:
            stream.receive_until(b"data: ")
        return streams

    def test_c5_near_the_limit_of_memory_requests_are_refused(self):
        with FaultServer("--max-num-seqs", 64, interval_ms=5) as server:
            server.learn()
            streams = self.running_streams(server)
            unlimited = self.limit(server, self.size_bytes(server) + self.SPARE_BYTES)
            refused = wait_until(lambda: self.refusal(server), 30.0, "a refusal")
            self.assertEqual((refused.status, refused.error["code"], refused.headers["Retry-After"]),
                             (503, "out_of_memory", "1"))
            self.assertEqual(server.get("/live").status, 200)
            for stream in streams:
                self.assertTrue(stream.receive_until(b"data: [DONE]\n\n\r\n0\r\n\r\n"))
                stream.close()
            self.limit(server, unlimited)
            wait_until(lambda: self.refusal(server) is None, 30.0, "an answer")
            server.check()

    def test_c5_all_memory_gone_at_once(self):
        """Not a byte more than there is, from one moment to the next, while large requests come."""
        for isolation in ("thread", "process"):
            for spare_bytes in (0, 1 << 20):
                with self.subTest(isolation=isolation, spare_bytes=spare_bytes):
                    self.lose_all_memory(isolation, spare_bytes)

    def lose_all_memory(self, isolation, spare_bytes):
        with FaultServer("--max-num-seqs", 64, "--isolation", isolation, interval_ms=5) as server:
            server.learn()
            streams = self.running_streams(server)
            unlimited = self.limit(server, self.size_bytes(server) + spare_bytes)
            large = closing_post(server, "/v1/completions", completion("x" * (2 << 20), 5))
            answers = [client.answer() for client in run_clients(server.port, [large] * 30)]
            for answer in answers:
                self.assertEqual((answer.status, answer.error["code"]), (503, "out_of_memory"), answer)
            for stream in streams:
                self.assertTrue(stream.receive_until(b"data: [DONE]\n\n\r\n0\r\n\r\n"))
                stream.close()
            self.assertEqual(server.get("/live").status, 200)
            self.limit(server, unlimited)
            wait_until(lambda: self.refusal(server) is None, 30.0, "an answer")
            # A call is counted as finished a moment after its answer is whole.
            wait_until(lambda: self.open_calls(server) == 0, 10.0, "no call that is open")
            calls = server.status()["calls"]
            self.assertEqual(calls["finished"], calls["accepted"], calls)
            server.check()

    @staticmethod
    def size_bytes(server):
        return int(pathlib.Path(f"/proc/{server.pid}/statm").read_text().split()[0]) * resource.getpagesize()

    @staticmethod
    def open_calls(server):
        return server.status()["calls"]["open"]

    @staticmethod
    def limit(server, most_bytes):
        """What the limit was."""
        before, hard = resource.prlimit(server.pid, resource.RLIMIT_AS)
        resource.prlimit(server.pid, resource.RLIMIT_AS, (most_bytes, hard))
        return before

    @staticmethod
    def refusal(server):
        answer = server.post("/v1/completions", completion(plain_prompt(99), 1))
        return None if answer.status == 200 else answer


class Retrying:
    """A client as openai-python is one: two retries, half a second doubling, Retry-After obeyed."""

    def __init__(self, server, number):
        self.server, self.prompt = server, plain_prompt(number)
        self.request = closing_post(server, "/v1/completions", completion(self.prompt, 10))
        self.served = self.given_up = self.refused = self.wrong = 0

    async def run(self, end_s):
        while time.monotonic() < end_s:
            await self.ask()

    async def ask(self):
        for _ in range(3):
            client, = await connect_all(self.server.port, [self.request])
            await all_ended([client])
            answer, = answers_in(client.received)
            if answer.status == 200:
                is_right = json.loads(answer.body)["choices"][0]["token_ids"] == metronome_ids(self.prompt, 10)
                self.served += is_right
                self.wrong += not is_right
                return
            if answer.status != 429:
                self.wrong += 1
                return
            self.refused += 1
            await asyncio.sleep(float(answer.headers["Retry-After"]))
        self.given_up += 1


class Storm(unittest.TestCase):
    def test_c6_retrying_clients_find_the_server_at_work(self):
        duration_s, slots, queued = sized(6, 30), 4, 12
        with FaultServer("--max-num-seqs", slots, "--max-queued-requests", queued, interval_ms=10) as server:
            server.learn()
            clients = [Retrying(server, number) for number in range(50)]
            longest_queue = 0

            async def watch():
                nonlocal longest_queue
                while True:
                    status = await asyncio.to_thread(server.status)
                    longest_queue = max(longest_queue, sum(status["requests"].values()))
                    await asyncio.sleep(0.02)

            async def run():
                watching = asyncio.create_task(watch())
                await asyncio.gather(*(client.run(time.monotonic() + duration_s) for client in clients))
                watching.cancel()

            begun_s = time.monotonic()
            asyncio.run(run())
            took_s = time.monotonic() - begun_s
            served = sum(client.served for client in clients)
            possible = slots * took_s / (10 * 0.010)
            print(f"\n    C6: {served} served of {possible:.0f} possible, {sum(c.refused for c in clients)} refused, "
                  f"{sum(c.given_up for c in clients)} given up, at most {longest_queue} under way")
            self.assertEqual(sum(client.wrong for client in clients), 0)
            self.assertGreater(served, 0)
            self.assertGreater(sum(client.refused for client in clients), 0)
            self.assertLessEqual(longest_queue, slots + queued)
            server.check()


if __name__ == "__main__":
    unittest.main()
