"""Signals, ends and starts of the server, and a log that cannot be written: rows G1 to G5, G9, G10, H11 and H12 of the
fault table."""

import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from fault_testing import (SOAKS, FaultServer, allow_open_files, answers_in, closing_post, completion, metronome_ids,
                           percentile, plain_prompt, run_clients, sized, stream_of)
from programs import DEMO, TIMEOUT_S, environment
from serve_testing import SERVE, RawConnection, request_bytes, wait_until

LIVE = request_bytes("GET", "/live", {"Host": "localhost"})
FAKETIME = next(iter(sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)
METRONOME = ("--load-format", "metronome")
USAGE, NOT_FOUND, UNAVAILABLE, BAD_CONFIG = 64, 66, 69, 78


class Streams:
    """Streams under way in a thread of their own, so that a test can do things to their server meanwhile."""

    def __init__(self, server, count, num_tokens):
        self.server, self.num_tokens = server, num_tokens
        self.prompts = [plain_prompt(number) for number in range(count)]
        self.clients = None
        requests = [closing_post(server, "/v1/completions", completion(prompt, num_tokens, stream=True))
                    for prompt in self.prompts]
        self.thread = threading.Thread(target=self.run, args=(requests,))
        self.thread.start()
        wait_until(lambda: server.status()["requests"]["running"] == count, 30.0, "all streams running")

    def run(self, requests):
        self.clients = run_clients(self.server.port, requests)

    def join(self):
        self.thread.join(TIMEOUT_S)
        return self.clients

    def last_end_s(self):
        return max(client.ended_s for client in self.clients)

    def num_whole(self):
        return sum(stream_of(client) == ({0: metronome_ids(prompt, self.num_tokens)}, True)
                   for client, prompt in zip(self.join(), self.prompts))


class Ending(unittest.TestCase):
    COUNT = 200

    def server(self, *arguments, **more):
        allow_open_files(2 * self.COUNT + 200)
        server = FaultServer("--max-num-seqs", 1024, "--max-num-batched-tokens", 4096, *arguments, **{"interval_ms": 20, **more})
        self.addCleanup(server.kill)
        return server.learn()

    def test_g1_streams_under_way_are_finished(self):
        server = self.server()
        streams = Streams(server, self.COUNT, sized(100, 300))
        with server.raw() as idle:
            idle.send(LIVE).answer()
            begun_s = time.monotonic()
            server.signal(signal.SIGTERM)
            wait_until(lambda: server.get("/ready").status == 503, 5.0, "/ready that says no")
            self.assertEqual(server.get("/ready").json()["status"], "shutting_down")
            refused_s = time.monotonic() - begun_s
            for connection in (server.raw(), idle):
                answer = connection.send(server.raw_post("/v1/completions", completion([30], 1))).answer()
                self.assertEqual((answer.status, answer.error["code"], answer.headers["Connection"]),
                                 (503, "shutting_down", "close"))
                self.assertEqual(answer.headers["Retry-After"], "1")
                connection.close()
            self.assertEqual(server.get("/live").status, 200)
            self.assertEqual(streams.num_whole(), self.COUNT)
            self.assertEqual(server.wait(), 0)
        print(f"\n    G1: refused after {refused_s * 1000:.0f} ms, ended "
              f"{(time.monotonic() - streams.last_end_s()) * 1000:.0f} ms after the last stream")

    def test_g1_clients_that_read_slowly_get_all_of_their_answer(self):
        server = self.server(interval_ms=1)
        # More than the system holds for them: the one is computed, and the other is paused, when the end is asked for.
        body = completion(plain_prompt(0), 1900, n=16, logprobs=0)
        slow = [server.raw(receive_buffer=4096).send(server.raw_post("/v1/completions", {**body, "stream": stream}))
                for stream in (False, True)]
        wait_until(lambda: server.status()["requests"]["running"] > 0, what="running")
        wait_until(lambda: server.status()["calls"]["open"] == 1, what="done")
        wait_until(lambda: "nvllm_stream_paused 1" in server.get("/metrics").text, what="paused")
        server.signal(signal.SIGTERM)
        time.sleep(0.3)
        whole, stream = (connection.answer() for connection in slow)
        self.assertEqual([len(choice["token_ids"]) for choice in whole.json()["choices"]], [1900] * 16)
        self.assertEqual(sum(len(choice["token_ids"]) for chunk in stream.chunks() for choice in chunk["choices"]),
                         16 * 1900)
        for connection in slow:
            connection.close()
        self.assertEqual(server.wait(), 0)

    def test_g1_an_idle_server_ends_at_once_whoever_is_connected(self):
        server = self.server()
        with server.raw() as silent, server.raw() as idle, server.raw() as begun, server.raw() as sending, \
                server.websocket("/v1/completions").connection as websocket:
            idle.send(LIVE).answer()
            begun.send(LIVE[:10])
            sending.send(server.raw_post("/v1/completions", completion([30], 1))[:-5])
            begun_s = time.monotonic()
            self.assertEqual(server.stop(), 0)
            took_s = time.monotonic() - begun_s
            for connection in (silent, idle, begun, sending):
                self.assertTrue(connection.is_closed())
        print(f"\n    G1: an idle server ends within {took_s * 1000:.0f} ms")

    def test_g2_what_does_not_end_in_time_is_cut_off_and_says_so(self):
        server = self.server("--shutdown-timeout", sized(1, 2))
        streams = Streams(server, 20, 1900)
        whole = server.raw().send(server.raw_post("/v1/completions", completion(plain_prompt(0), 1900)))
        websocket = server.websocket("/v1/completions")
        websocket.send(completion(plain_prompt(0), 1900, stream=True))
        frozen = server.start_stream(completion(plain_prompt(0), 1900, n=16, logprobs=0), receive_buffer=4096)
        websocket.receive()
        begun_s = time.monotonic()
        server.signal(signal.SIGTERM)
        for client in streams.join():
            answer = client.answer()
            *_, last = answer.events()
            self.assertEqual(answer.status, 200)
            self.assertFalse(answer.is_whole, "a stream that was cut off must not look like a whole one")
            self.assertIn('"code":"shutting_down"', last)
        answer = whole.answer()
        self.assertEqual((answer.status, answer.error["code"]), (503, "shutting_down"))
        self.assertEqual(server.wait(), 0)
        print(f"\n    G2: ended {time.monotonic() - begun_s:.2f} s after the signal")
        self.assertIn("23 requests did not end in time and are cut off", server.log)
        for connection in (whole, frozen, websocket.connection):
            connection.close()

    def test_g3_a_second_signal_ends_it_at_once(self):
        for first, second, code in ((signal.SIGTERM, signal.SIGTERM, 143), (signal.SIGINT, signal.SIGINT, 130),
                                    (signal.SIGTERM, signal.SIGINT, 130)):
            server = self.server()
            streams = Streams(server, 20, 1900)
            server.signal(first)
            wait_until(lambda: "shutting down: " in server.log, what="the first signal taken")
            begun_s = time.monotonic()
            server.signal(second)
            self.assertEqual(server.wait(), code, server.log[-4000:])
            print(f"\n    G3: ended {(time.monotonic() - begun_s) * 1000:.0f} ms after the second signal")
            for client in streams.join():
                answer = client.answer()
                self.assertFalse(answer.is_whole)
                self.assertIn('"code":"shutting_down"', answer.events()[-1])

    def test_g3_signals_while_it_starts(self):
        for number, code in ((signal.SIGTERM, (0, 143)), (signal.SIGINT, (0, 130))):
            for delay_s in (0.0, 0.002, 0.01, 0.03):
                process = subprocess.Popen([SERVE, "--port", "0"], stderr=subprocess.DEVNULL, env=environment())
                time.sleep(delay_s)
                process.send_signal(number)
                # Before it looks after signals itself the system ends it.
                self.assertIn(process.wait(20.0), (*code, -number))

    def test_h12_a_signal_ends_it_at_once_while_a_model_is_read_slowly(self):
        slow = {**environment(), "NVLLM_FAULTS": "worker.start:*=sleep=60000"}
        for isolation in ("thread", "process"):
            for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 0)):
                with self.subTest(isolation=isolation, signal=number):
                    server = FaultServer("--isolation", isolation, env=slow, waits=False)
                    self.addCleanup(server.kill)
                    ready = server.get("/ready")
                    self.assertEqual((ready.status, ready.json()["status"]), (503, "loading"))
                    begun_s = time.monotonic()
                    server.signal(number)
                    self.assertEqual(server.process.wait(20.0), code)
                    print(f"\n    H12: ended {(time.monotonic() - begun_s) * 1000:.0f} ms after {number.name}")

    def test_g4_other_signals_touch_no_stream(self):
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder) / "keys"
            keys.write_text("first:sk-one\n")
            server = FaultServer("--api-key-file", keys, "--max-num-seqs", 64, interval_ms=10, key="sk-one").learn()
            self.addCleanup(server.kill)
            streams = Streams(server, 20, 150)
            self.assertEqual(server.get("/v1/models", headers={"Authorization": "Bearer sk-two"}).status, 401)
            keys.write_text("first:sk-one\nsecond:sk-two\n")
            server.signal(signal.SIGHUP)
            wait_until(lambda: server.get("/v1/models", headers={"Authorization": "Bearer sk-two"}).status == 200, 10.0,
                       "the new key")
            # A file that cannot be read leaves everything as it was.
            keys.write_text("first:sk-one rpm=soon\n")
            server.signal(signal.SIGHUP)
            wait_until(lambda: "the old keys stay" in server.log, 10.0, "the complaint")
            self.assertEqual(server.get("/v1/models", headers={"Authorization": "Bearer sk-two"}).status, 200)
            keys.write_text("first:sk-one\n")
            server.signal(signal.SIGHUP)
            wait_until(lambda: server.get("/v1/models", headers={"Authorization": "Bearer sk-two"}).status == 401, 10.0,
                       "the old key gone")
            server.signal(signal.SIGPIPE)
            server.signal(signal.SIGUSR1)
            wait_until(lambda: "state of " in server.log, 10.0, "the books in the log")
            self.assertEqual(streams.num_whole(), 20)
            server.check()
            self.assertEqual(server.stop(), 0)

    def test_g5_a_killed_server_leaves_nothing_in_the_way_of_the_next(self):
        with tempfile.TemporaryDirectory() as folder:
            sockets = ("--admin-socket", f"{folder}/admin", "--inspect-socket", f"{folder}/inspect")
            server = FaultServer(*sockets, interval_ms=10).learn()
            self.addCleanup(lambda: server.kill())
            port, times_ms = server.port, []
            for _ in range(sized(5, 20)):
                streams = [server.start_stream(completion(plain_prompt(number), 500)) for number in range(10)]
                for stream in streams:
                    stream.receive_until(b"data: ")
                server.process.kill()
                self.assertEqual(server.wait(), -signal.SIGKILL)
                for stream in streams:
                    self.assertNotIn(b"[DONE]", stream.receive_rest())
                    stream.close()
                begun_s = time.monotonic()
                server = FaultServer(*sockets, "--port", port, interval_ms=10).learn()
                times_ms.append((time.monotonic() - begun_s) * 1000)
                self.assertEqual(server.port, port)
                with RawConnection(None, unix_socket=f"{folder}/admin") as admin:
                    self.assertEqual(admin.send(LIVE).answer().status, 200)
                server.check()
            print(f"\n    G5: serves again after {percentile(times_ms, 0.5):.0f} ms, most {max(times_ms):.0f} ms")
            self.assertEqual(server.stop(), 0)

    @unittest.skipUnless(SOAKS and FAKETIME, f"in soaks, where libfaketime is installed: it is {FAKETIME}")
    def test_g8_a_clock_that_jumps_ends_nothing_early_or_late(self):
        with tempfile.TemporaryDirectory() as folder:
            clock = pathlib.Path(folder) / "clock"
            clock.write_text("+0")
            env = {**environment(), "LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(clock),
                   "FAKETIME_NO_CACHE": "1", "DONT_FAKE_MONOTONIC": "1"}
            server = self.server("--idle-timeout", 30, "--queue-timeout", 30, "--request-timeout", 60, env=env)
            with server.raw() as idle:
                date = idle.send(LIVE).answer().headers["Date"]
                streams = Streams(server, self.COUNT, 400)
                for jump in ("+3600", "-3600", "+86400", "+0"):
                    clock.write_text(jump)
                    time.sleep(1.0)
                    answer = idle.send(LIVE).answer()
                    self.assertEqual(answer.status, 200)
                    self.assertTrue(jump == "+0" or answer.headers["Date"][:22] != date[:22], "the clock did not jump")
                self.assertEqual(streams.num_whole(), self.COUNT)
            server.check()

    def test_g10_a_server_that_stood_still_goes_on(self):
        server = self.server("--write-timeout", 5)
        streams = Streams(server, self.COUNT, 100)
        server.signal(signal.SIGSTOP)
        time.sleep(sized(2, 10))
        server.signal(signal.SIGCONT)
        self.assertEqual(streams.num_whole(), self.COUNT)
        server.check()


class Starting(unittest.TestCase):
    def start(self, *arguments, preexec=None, shell=None):
        command = [SERVE, "--port", "0", *map(str, arguments)]
        if shell:
            command = ["sh", "-c", f'{shell}; exec "$0" "$@"', *command]
        begun_s = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment(),
                              preexec_fn=preexec, stdin=subprocess.DEVNULL)
        return done, (time.monotonic() - begun_s) * 1000

    def fails(self, code, *arguments, says, **more):
        done, took_ms = self.start(*arguments, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        last = done.stderr.splitlines()[-1]
        self.assertTrue(last.startswith("nvllm-serve: error: "), done.stderr)
        for word in says:
            self.assertIn(word, last)
        self.assertNotIn("terminate called", done.stderr)
        print(f"    G9: exit {code} after {took_ms:.0f} ms: {last[20:120]}")

    def test_g9_what_keeps_it_from_starting_is_said(self):
        print()
        with tempfile.TemporaryDirectory() as folder, socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            (pathlib.Path(folder) / "keys").write_text("one:sk-1\ntwo\nthree:sk-3 rpm=x\n")
            self.fails(NOT_FOUND, "--model", f"{folder}/nothing", says=["nothing"])
            self.fails(NOT_FOUND, "--model", folder, says=[folder, "config.json"])
            self.fails(USAGE, "--prot", "80", says=["--prot", "--port"])
            self.fails(USAGE, "--max-connections", "many", says=["many", "1 to 1000000"])
            self.fails(UNAVAILABLE, "--port", port, says=[str(port), "--port"])
            self.fails(USAGE, "--host", "256.1.1.1", says=["--host"])
            self.fails(USAGE, "--host", "0.0.0.0", says=["--api-key-file"])
            self.fails(BAD_CONFIG, "--api-key-file", f"{folder}/keys", says=["keys", "3", "rpm"])
            self.fails(NOT_FOUND, "--api-key-file", f"{folder}/none", says=["none"])
            self.fails(BAD_CONFIG, "--ssl-certfile", f"{folder}/keys", says=["PEM"])
            self.fails(UNAVAILABLE, says=["64 files", "ulimit -n"], shell="ulimit -n 64")
            os.mkdir(f"{folder}/open", 0o777)
            os.chmod(f"{folder}/open", 0o777)
            self.fails(73, "--admin-socket", f"{folder}/open/socket", says=["open/socket", "folder"])

    def test_g9_few_open_files_mean_few_connections(self):
        process = subprocess.Popen(["sh", "-c", 'ulimit -n 200; exec "$0" "$@"', SERVE, "--port", "0", *METRONOME],
                                   stderr=subprocess.PIPE, text=True, env=environment())
        self.addCleanup(process.kill)
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "ready at" in line:
                break
        port = int(next(line for line in lines if "listening at" in line).rsplit(":", 1)[1])
        connections = [RawConnection(port) for _ in range(150)]
        statuses = []
        for connection in connections:
            try:
                connection.socket.settimeout(5.0)
                statuses.append(connection.send(LIVE.replace(b"/live", b"/v1/models")).answer().status)
            except (AssertionError, OSError):
                statuses.append(None)
        self.assertEqual(statuses.count(200), 72, statuses)
        self.assertEqual(statuses.count(503), 78)
        for connection in connections:
            connection.close()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20.0), 0)
        process.stderr.close()


class Log(unittest.TestCase):
    """H11: whatever becomes of the log, requests are answered."""

    def serve(self, folder, redirection, stderr=None):
        path = f"{folder}/socket"
        command = [SERVE, "--uds", path, "--log-requests", "--max-num-seqs", "64", *METRONOME]
        process = subprocess.Popen(["sh", "-c", f'exec "$0" "$@" {redirection}', *command], stderr=stderr,
                                   env=environment(NVLLM_METRONOME_MS="1"))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_until(lambda: os.path.exists(path) and self.status_of(path) == 200, 20.0, "a server")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o660)
        return process, path

    @staticmethod
    def status_of(path):
        try:
            with RawConnection(None, unix_socket=path) as connection:
                return connection.send(LIVE.replace(b"/live", b"/ready")).answer().status
        except OSError:
            return None

    def use(self, path, count):
        """The longest that an answer took."""
        longest_s = 0.0
        with RawConnection(None, unix_socket=path) as connection:
            for _ in range(count):
                begun_s = time.monotonic()
                answer = connection.send(LIVE).answer()
                longest_s = max(longest_s, time.monotonic() - begun_s)
                self.assertEqual((answer.status, answer.body), (200, b'{"status":"live"}'))
            body = b'{"prompt":[30,31,32],"max_tokens":5,"return_token_ids":true}'
            request = request_bytes("POST", "/v1/completions", {"Host": "x", "Content-Type": "application/json"}, body)
            answer = connection.send(request).answer()
            self.assertEqual(answer.json()["choices"][0]["token_ids"], [30, 31, 32, 30, 31])
            self.assertEqual(connection.buffer, b"")
        return longest_s

    def survives(self, name, redirection, stderr=None, after=lambda: None):
        with tempfile.TemporaryDirectory() as folder:
            process, path = self.serve(folder, redirection, stderr)
            after()
            longest_s = self.use(path, 3000)
            print(f"\n    H11, {name}: an answer took at most {longest_s * 1000:.1f} ms")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(20.0), 0)

    def test_h11_a_full_disk(self):
        self.survives("a full disk", "2>/dev/full 1>/dev/full")

    def test_h11_closed_descriptors(self):
        self.survives("closed descriptors", "0<&- 1>&- 2>&-")
        self.survives("a closed log", "2>&-")

    def test_h11_a_reader_that_is_gone(self):
        reader, writer = os.pipe()
        self.survives("a reader that is gone", "", writer, lambda: os.close(reader))
        os.close(writer)

    def test_h11_a_reader_that_stands_still(self):
        reader, writer = os.pipe()
        self.survives("a reader that stands still", "", writer)
        os.close(writer)
        text = b""
        while data := os.read(reader, 65536):
            text += data
        os.close(reader)
        self.assertGreater(len(text), 50_000)
        for line in text.splitlines():
            self.assertRegex(line, rb"^\d{4}-\d\d-\d\dT[\d:.]+Z (info|warning) ")


if __name__ == "__main__":
    unittest.main()
