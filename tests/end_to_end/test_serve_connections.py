"""Clients that are many, that leave, that are slow, that stop reading: rows N1 to N5 of the fault table, against the
metronome. What is malformed is in test_serve_framing.py."""

import asyncio
import re
import resource
import time
import unittest

from fault_testing import (SOAKS, WAYS_TO_LEAVE, FaultServer, all_ended, allow_open_files, answers_in, closing_post,
                           completion, connect_all, metronome_ids, percentile, plain_prompt, plain_text, run_clients,
                           sized, stream_of)
from serve_testing import request_bytes, wait_until

ROOMY = ("--max-num-seqs", 4096, "--max-num-batched-tokens", 65536, "--kv-cache-memory-bytes", "2GiB")

LIVE = request_bytes("GET", "/live", {"Host": "localhost"})


class ManyStreams(unittest.TestCase):
    def test_n1_streams_at_once_are_whole_and_in_order(self):
        num_streams, num_tokens = 2000, sized(20, 100)
        allow_open_files(2 * num_streams + 200)
        with FaultServer(*ROOMY, interval_ms=100) as server:
            server.learn()
            base_kib = server.resident_kib()
            prompts = [plain_prompt(number) for number in range(num_streams)]
            requests = [closing_post(server, "/v1/completions", completion(prompt, num_tokens, stream=True))
                        for prompt in prompts]

            def row():
                begun_s, peak_kib = server.cpu_s(), base_kib
                clients, peak_kib = self.watch(server, requests)
                events = sum(len(client.parts) for client in clients)
                cpu_us = (server.cpu_s() - begun_s) / events * 1e6
                gaps_ms = [gap * 1000 for client in clients for gap in client.gaps_s()]
                print(f"\n    N1: {num_streams} streams x {num_tokens} tokens: gap p50 {percentile(gaps_ms, 0.5):.0f} ms, "
                      f"p99 {percentile(gaps_ms, 0.99):.0f} ms, most {max(gaps_ms):.0f} ms; "
                      f"{(peak_kib - base_kib) / num_streams:.1f} KiB a stream, {cpu_us:.1f} us of CPU an event")
                whole = 0
                for client, prompt in zip(clients, prompts):
                    ids, is_ended = stream_of(client)
                    whole += is_ended and ids == {0: metronome_ids(prompt, num_tokens)}
                self.assertEqual(whole, num_streams)

            server.check_settles(row)

    def watch(self, server, requests):
        """The clients when all have ended, and the most memory that the server had meanwhile."""
        async def run():
            clients = await connect_all(server.port, requests)
            peak_kib = 0
            while not all(client.ended.done() for client in clients):
                peak_kib = max(peak_kib, server.resident_kib())
                await asyncio.sleep(0.2)
            return clients, peak_kib
        return asyncio.run(run())

    def test_n1_connections_that_are_held_cost_little(self):
        count = sized(400, 4090)
        allow_open_files(2 * count + 300)
        with FaultServer("--max-num-seqs", 64, interval_ms=1) as server:
            server.learn()

            def row():
                base_kib = server.resident_kib()
                held = [server.raw().send(LIVE) for _ in range(count)]
                for connection in held:
                    self.assertEqual(connection.answer().status, 200)
                kib = (server.resident_kib() - base_kib) / count
                alive_ms = [self.first_byte_ms(server, LIVE) for _ in range(100)]
                stream = closing_post(server, "/v1/completions", completion(plain_prompt(0), 4, stream=True))
                stream_ms = [self.first_byte_ms(server, stream) for _ in range(100)]
                print(f"\n    N1: {count} connections held, {kib:.1f} KiB each; first byte of a new client's /live p50 "
                      f"{percentile(alive_ms, 0.5):.1f} ms, most {max(alive_ms):.1f} ms; of its stream "
                      f"{percentile(stream_ms, 0.5):.1f} ms, most {max(stream_ms):.1f} ms")
                self.assertLessEqual(kib, 128 if server.is_sanitized() else 32)  # redzones, and freed memory kept
                for connection in held:
                    self.assertEqual(connection.send(LIVE).answer().status, 200)
                    connection.close()

            server.check_settles(row)

    @staticmethod
    def first_byte_ms(server, request):
        begun_s = time.monotonic()
        with server.raw() as connection:
            connection.send(request).receive_until(b"HTTP/1.1 200")
            return (time.monotonic() - begun_s) * 1000

    def test_n2_connections_above_the_limit_are_told_so(self):
        limit, attempts = sized(40, 4096), sized(140, 6000)
        allow_open_files(attempts + limit + 300)
        with FaultServer("--max-connections", limit, "--header-timeout", 20, interval_ms=10) as server:
            server.learn()
            request = request_bytes("GET", "/v1/models", {"Host": "localhost", "Connection": "close"})

            def row():
                idle = [server.raw() for _ in range(limit)]
                wait_until(lambda: server.count_descriptors() >= server.num_descriptors + limit, what="all accepted")
                clients = run_clients(server.port, [request] * (attempts - limit))
                statuses = [client.answer().status for client in clients]
                self.assertEqual(statuses, [503] * len(clients))
                for client in clients:
                    self.assertEqual(client.answer().headers["Retry-After"], "1")
                    self.assertEqual(client.answer().json()["error"]["code"], "too_many_connections")
                # Whoever asks how the server is gets an answer all the same.
                self.assertEqual([server.get(path).status for path in ("/live", "/ready", "/health")], [200] * 3)
                for connection in idle:
                    connection.close()
                wait_until(lambda: server.get("/v1/models").status == 200, 1.0 if SOAKS else 30.0, "a place as soon as there is one")

            server.check_settles(row)

    def test_n2_a_burst_is_served_or_refused_and_never_reset(self):
        limit, attempts = sized(60, 4096), sized(200, 6000)
        allow_open_files(attempts + limit + 300)
        with FaultServer("--max-connections", limit, interval_ms=10) as server:
            server.learn()
            request = request_bytes("GET", "/live", {"Host": "localhost", "Connection": "close"})

            async def burst():
                clients = await connect_all(server.port, [request] * attempts, at_once=attempts)
                await all_ended(clients)
                return clients

            statuses = [client.answer().status for client in asyncio.run(burst())]
            print(f"\n    N2: {statuses.count(200)} served, {statuses.count(503)} refused")
            self.assertEqual(set(statuses) - {200, 503}, set())
            self.assertGreaterEqual(statuses.count(200), limit)
            server.check()


class Leaving(unittest.TestCase):
    """N3: whatever a request's state when its client leaves, in whatever way, its work ends and is accounted for."""

    def leave(self, server, bring, num_accepted):
        """`bring`: makes connections and waits until they are in the state. Of them, `num_accepted` are calls."""
        times_ms = []

        def row():
            for way, leave in WAYS_TO_LEAVE.items():
                with self.subTest(way=way):
                    # An answer may be read before its call is counted as finished.
                    before = wait_until(server.is_idle, 30.0, "a server without work")["calls"]
                    connections = bring()
                    # A reset takes along what the server has not read yet.
                    wait_until(lambda: server.status()["calls"]["accepted"] >= before["accepted"] + num_accepted,
                               what="every call accepted")
                    begun_s = time.monotonic()
                    for connection in connections:
                        leave(connection)
                    status = wait_until(server.is_idle, 30.0, "a server without work")
                    times_ms.append((time.monotonic() - begun_s) * 1000)
                    calls = status["calls"]
                    self.assertEqual(calls["accepted"] - before["accepted"], num_accepted)
                    self.assertEqual(calls["aborted"] - before["aborted"], num_accepted)
                    self.assertEqual((calls["finished"], calls["failed"]), (before["finished"], before["failed"]))
                    self.assertEqual(server.status()["tokens"], status["tokens"], "tokens for nobody")

        server.check_settles(row, rounds=sized(2, 6))
        print(f"\n    {self.id().rsplit('.', 1)[1]}: idle after {percentile(times_ms, 0.5):.0f} ms, "
              f"at most {max(times_ms):.0f} ms")

    COUNT = 10

    def running_server(self, *arguments, interval_ms=15):
        server = FaultServer("--max-num-seqs", 64, *arguments, interval_ms=interval_ms)
        self.addCleanup(server.stop)
        return server.learn()

    def streams(self, server, max_tokens=1500, **fields):
        return [server.start_stream(completion(plain_prompt(number), max_tokens, **fields))
                for number in range(self.COUNT)]

    def test_n3_connected(self):
        server = self.running_server()

        def bring():
            connections = [server.raw() for _ in range(self.COUNT)]
            wait_until(lambda: server.count_descriptors() >= server.num_descriptors + self.COUNT, what="accepted")
            return connections

        self.leave(server, bring, 0)

    def test_n3_half_a_head_and_half_a_body(self):
        server = self.running_server()
        request = server.raw_post("/v1/completions", completion(plain_prompt(0), 100, stream=True))
        for length in (1, 20, len(request) // 3, request.index(b"\r\n\r\n") + 3, len(request) - 30, len(request) - 1):
            with self.subTest(sent=length):
                self.leave(server, lambda: [server.raw().send(request[:length]) for _ in range(self.COUNT)], 0)

    def test_n3_queued(self):
        server = FaultServer("--max-num-seqs", 1, interval_ms=15)
        self.addCleanup(server.stop)
        server.learn()

        def bring():
            connections = self.streams(server)
            wait_until(lambda: server.status()["requests"]["waiting"] == self.COUNT - 1, what="a queue")
            return connections

        self.leave(server, bring, self.COUNT)

    def test_n3_in_a_prefill_chunk(self):
        server = self.running_server("--max-num-batched-tokens", 64, "--no-enable-prefix-caching")

        def bring():
            begun = server.status()["tokens"]["scheduled_total"]
            connections = [server.start_stream(completion(plain_prompt(number) * 120, 100))
                           for number in range(self.COUNT)]
            wait_until(lambda: server.status()["tokens"]["scheduled_total"] > begun + 3 * 64, what="some chunks")
            return connections

        self.leave(server, bring, self.COUNT)

    def test_n3_decoding(self):
        server = self.running_server()

        def bring():
            connections = self.streams(server)
            for connection in connections:
                connection.receive_until(b"data: ")
            return connections

        self.leave(server, bring, self.COUNT)

    def test_n3_waiting_for_a_whole_answer(self):
        server = self.running_server()
        request = server.raw_post("/v1/completions", completion(plain_prompt(0), 1500))

        def bring():
            connections = [server.raw().send(request) for _ in range(self.COUNT)]
            wait_until(lambda: server.status()["requests"]["running"] == self.COUNT, what="all running")
            return connections

        self.leave(server, bring, self.COUNT)

    def test_n3_preempted(self):
        server = FaultServer("--max-num-seqs", 16, "--kv-cache-memory-bytes", 1 << 20, "--max-model-len", 400,
                             interval_ms=3)
        self.addCleanup(server.stop)
        server.learn()

        def bring():
            begun = server.status()["kv_cache"]["preemptions"]
            connections = self.streams(server, 380)
            wait_until(lambda: (status := server.status())["kv_cache"]["preemptions"] > begun
                       and status["requests"]["waiting"] > 0, what="a preemption")
            return connections

        self.leave(server, bring, self.COUNT)

    def test_n3_between_the_choices_of_n_4(self):
        server = self.running_server()

        def bring():
            # Choice j begins with token j: the last one begins behind the stop token, and has a whole round to go.
            prompt = plain_prompt(1, 71)
            connections = [server.start_stream(completion(prompt, 1500, n=4, stop_token_ids=[prompt[2]]))
                           for _ in range(self.COUNT)]
            for connection in connections:
                connection.receive_until(b'"finish_reason":"stop"')
            return connections

        self.leave(server, bring, self.COUNT)

    def test_n3_in_the_hold_back_of_a_stop_string(self):
        server = self.running_server()
        prompt = plain_prompt(0, 70)
        text = plain_text(prompt)

        def bring():
            # Nothing from its second character on can be shown before the string is over, which never comes.
            connections = [server.start_stream(completion(prompt, 1500, stop=[text[1:60] + "!"]))
                           for _ in range(self.COUNT)]
            for connection in connections:
                connection.receive_until(b"data: ")
            time.sleep(0.1)
            return connections

        self.leave(server, bring, self.COUNT)

    def test_n3_a_websocket(self):
        server = self.running_server()

        def bring():
            sockets = [server.websocket("/v1/completions") for _ in range(self.COUNT)]
            for number, each in enumerate(sockets):
                each.send(completion(plain_prompt(number), 1500, stream=True))
                each.receive()
            return [each.connection for each in sockets]

        self.leave(server, bring, self.COUNT)


class NotReading(unittest.TestCase):
    def test_n4_clients_that_stop_reading_are_given_up(self):
        num_frozen, num_live = sized(10, 50), sized(10, 50)
        # They fill what the system holds within a second, and have five to go.
        with FaultServer(*ROOMY, "--write-timeout", 1, interval_ms=3) as server:
            server.learn()

            def row():
                before = server.status()["calls"]
                frozen = [server.start_stream(completion(plain_prompt(number), 1900, n=16, logprobs=0),
                                              receive_buffer=4096)
                          for number in range(num_frozen)]
                requests = [closing_post(server, "/v1/completions", completion(plain_prompt(number), 1000, stream=True))
                            for number in range(num_live)]
                live = run_clients(server.port, requests)
                gaps_ms = [gap * 1000 for client in live for gap in client.gaps_s()]
                for number, client in enumerate(live):
                    self.assertEqual(stream_of(client), ({0: metronome_ids(plain_prompt(number), 1000)}, True))
                peak_kib = server.resident_kib()
                wait_until(lambda: server.status()["calls"]["open"] == 0, 60.0, "the frozen ones given up")
                calls = server.status()["calls"]
                for connection in frozen:
                    connection.close()
                print(f"\n    N4: beside {num_frozen} clients that do not read, gaps p99 {percentile(gaps_ms, 0.99):.0f} ms; "
                      f"{peak_kib} KiB")
                self.assertEqual(calls["aborted"] - before["aborted"], num_frozen)
                self.assertEqual(calls["finished"] - before["finished"], num_live)

            server.check_settles(row)

    def test_n4_a_websocket_that_stops_reading_is_given_up(self):
        with FaultServer(*ROOMY, "--write-timeout", 1, interval_ms=3) as server:
            server.learn()
            before = self.num_write_timeouts(server)
            silent = server.websocket("/v1/completions", receive_buffer=4096)
            silent.send(completion(plain_prompt(0), 1900, n=16, logprobs=0, stream=True))
            whole = server.websocket("/v1/completions", receive_buffer=4096)
            whole.send(completion(plain_prompt(1), 1900, n=16, logprobs=20))
            # Beside them one that reads, longer than the write timeout.
            with server.websocket("/v1/completions") as reading:
                chunks = reading.answers(completion(plain_prompt(2), 1000, stream=True))
            ids = [token for chunk in chunks for choice in chunk["choices"] for token in choice["token_ids"]]
            self.assertEqual(ids, metronome_ids(plain_prompt(2), 1000))
            wait_until(lambda: self.num_write_timeouts(server) == before + 2, 30.0, "both given up")
            wait_until(lambda: server.status()["calls"]["open"] == 0, 10.0, "no call under way")
            calls = server.status()["calls"]
            self.assertEqual(calls["aborted"], 1)  # the other one was computed, and not taken
            for socket in (silent, whole):
                socket.connection.close()
            server.check()

    @staticmethod
    def num_write_timeouts(server):
        found = re.search(r'^nvllm_timeouts_total\{what="write"\} (\d+)', server.get("/metrics").text, re.MULTILINE)
        return int(found[1])

    # The server's own of a stream that nobody reads: what waits, what is on its way, and what engine and connection know.
    MOST_KIB = 320

    def test_n4_streams_that_nobody_reads_are_paused_and_then_given_up(self):
        count, num_tokens = sized(100, 2000), 4 * 1900
        allow_open_files(2 * count + 300)
        # Without a bound an answer would be more than a megabyte.
        body = completion(plain_prompt(0), 1900, n=4, logprobs=20)
        with FaultServer(*ROOMY, "--max-queued-requests", 4 * count, "--write-timeout", sized(5, 60), "--request-timeout", 0,
                         "--queue-timeout", 0, interval_ms=1) as server:
            server.learn()

            def row():
                before, base_kib = server.status(), server.resident_kib()
                frozen = [server.start_stream(body, receive_buffer=4096) for _ in range(count)]
                most_kib = most_paused = 0
                while server.status()["calls"]["open"] > 0:
                    most_kib = max(most_kib, server.resident_kib() - base_kib)
                    most_paused = max(most_paused, self.num_paused(server))
                    time.sleep(0.05)
                after = server.status()
                tokens = after["tokens"]["generated_total"] - before["tokens"]["generated_total"]
                print(f"\n    N4: {count} streams that nobody reads: {most_paused} paused, {tokens / count:.0f} of {num_tokens} "
                      f"tokens computed of each, {most_kib / count:.0f} KiB each")
                self.assertGreater(most_paused, count // 2)
                self.assertLess(tokens, count * num_tokens / 2)
                self.assertEqual(after["calls"]["aborted"] - before["calls"]["aborted"], count)
                self.assertEqual(self.num_paused(server), 0)
                if not server.is_sanitized():
                    self.assertLess(most_kib, count * self.MOST_KIB + 8192)
                for connection in frozen:
                    connection.close()

            server.check_settles(row)

    def test_n4_a_client_that_reads_again_gets_all_of_its_answer(self):
        with FaultServer("--max-num-seqs", 4, "--write-timeout", 30, interval_ms=1) as server:
            server.learn()
            slow = server.start_stream(completion(plain_prompt(0), 1900, logprobs=20), receive_buffer=4096)
            wait_until(lambda: self.num_paused(server) == 1, what="a stream that is paused")
            # Others have its slot meanwhile, and the whole server is not busy with it.
            self.assertEqual(server.complete(plain_prompt(1), max_tokens=3, n=4)["usage"]["completion_tokens"], 12)
            ids = [token for chunk in slow.answer().chunks() for token in chunk["choices"][0]["token_ids"]]
            self.assertEqual(ids, metronome_ids(plain_prompt(0), 1900))
            slow.close()
            server.check()

    @staticmethod
    def num_paused(server):
        return int(re.search(r"^nvllm_stream_paused (\d+)", server.get("/metrics").text, re.MULTILINE)[1])


class OutOfDescriptors(unittest.TestCase):
    def test_n9_without_descriptors_it_waits_and_goes_on(self):
        with FaultServer("--max-num-seqs", 64, interval_ms=10) as server:
            server.learn()
            _, most = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
            stream = server.start_stream(completion(plain_prompt(0), 1900))
            stream.receive_until(b"data: ")
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (server.num_descriptors + 10, most))
            waiting = [server.raw().send(LIVE) for _ in range(64)]
            begun_s, begun_cpu_s = time.monotonic(), server.cpu_s()
            time.sleep(sized(2, 10))
            share = (server.cpu_s() - begun_cpu_s) / (time.monotonic() - begun_s)
            warnings = server.log.count("no connection can be accepted")
            print(f"\n    N9: {warnings} warnings in {sized(2, 10)} s, {share:.1%} of a core beside one stream")
            self.assertGreater(warnings, 0)
            self.assertLessEqual(warnings, 2 * sized(2, 10))
            stream.receive_until(b"data: ")
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (most, most))
            for connection in waiting:
                self.assertEqual(connection.answer().status, 200)
                connection.close()
            stream.close()
            server.check()


class Slow(unittest.TestCase):
    """N5: who sends or reads slowly is told so, or cut off, when the whole time is over; others do not notice."""

    NUM_SLOW = sized(60, 250)

    def test_n5_slow_clients_meet_the_total_deadline(self):
        with FaultServer("--header-timeout", 1, "--body-timeout", 1, "--write-timeout", 1, "--idle-timeout", 1, *ROOMY,
                         interval_ms=1) as server:
            server.learn()
            server.check_settles(lambda: self.be_slow(server))

    def be_slow(self, server):
        # An answer of some 600 KB: more than the system holds for who does not read it.
        post = server.raw_post("/v1/completions", completion(plain_prompt(0), 400, n=16, logprobs=0))
        end = post.index(b"\r\n\r\n") + 4
        heads = [[server.raw(), post[:end - 20], 0] for _ in range(self.NUM_SLOW)]
        bodies = [[server.raw().send(post[:end]), post[end:], 0] for _ in range(self.NUM_SLOW)]
        readers = [server.raw(receive_buffer=4096).send(post) for _ in range(10)]
        begun_s, served_ms = time.monotonic(), []
        # A byte at a time for longer than the deadline, and never the last.
        while time.monotonic() - begun_s < 1.8:
            for client in heads + bodies:
                self.send_one_byte(client)
            asked_s = time.monotonic()
            self.assertEqual(server.get("/live").status, 200)
            served_ms.append((time.monotonic() - asked_s) * 1000)
            time.sleep(0.1)
        for connection, _, _ in heads + bodies:
            data = connection.receive_rest()
            self.assertEqual([answer.status for answer in answers_in(data)], [408])
            connection.close()
        wait_until(lambda: server.status()["calls"]["open"] == 0, 60.0, "the readers' work over")
        wait_until(lambda: server.count_descriptors() <= server.num_descriptors + 2, 30.0, "the readers cut off")
        for connection in readers:
            connection.close()
        print(f"\n    N5: a new client beside {2 * self.NUM_SLOW} slow ones: p50 {percentile(served_ms, 0.5):.1f} ms, "
              f"most {max(served_ms):.1f} ms")

    def send_one_byte(self, client):
        connection, data, sent = client
        try:
            connection.send(data[sent:sent + 1])
            client[2] = sent + 1 if sent + 2 < len(data) else sent
        except OSError:
            pass  # refused meanwhile: what it was told is read in the end


if __name__ == "__main__":
    unittest.main()
