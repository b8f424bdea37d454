"""What the tests of faults need besides serve_testing: many clients in one thread, the oracle's long form, and two sizes of
every test. With NVLLM_SOAK=1 (scripts/soak.sh) they take the sizes of the fault table, else such that all take minutes.

The metronome (--load-format metronome, which help does not show) is the real engine with a worker that computes nothing
and gives every sequence the next token of its own prompt, NVLLM_METRONOME_MS apart: answers are known beforehand, to the
last token, and no fault hides behind the speed of a model."""

import asyncio
import json
import os
import pathlib
import resource
import socket
import time
import unittest

from programs import TIMEOUT_S, environment
from serve_testing import Answer, Server, events_of, wait_until

SOAKS = os.environ.get("NVLLM_SOAK", "") not in ("", "0")
# Of the demo's vocabulary: ids of single characters; a prime number of them, so that every step goes through all.
FIRST_PLAIN_ID, NUM_PLAIN_IDS = 21, 71


def sized(short, long):
    """How many, how often, how long: in every change's tests, and in a soak."""
    return long if SOAKS else short


def allow_open_files(count):
    """Skips the test where this machine lets nobody open so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise unittest.SkipTest(f"needs {count} open files, and this machine allows {hard}")
    if soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


def plain_prompt(number, length=12):
    """A prompt of so many ids that differ from each other, and from those of other numbers in their order."""
    step = 1 + number // NUM_PLAIN_IDS % (NUM_PLAIN_IDS - 1)
    first = number % NUM_PLAIN_IDS
    return [FIRST_PLAIN_ID + (first + i * step) % NUM_PLAIN_IDS for i in range(length)]


def plain_text(ids):
    return "".join(chr(ord("0") + token - FIRST_PLAIN_ID) for token in ids)


def metronome_ids(prompt, count, choice=0):
    """The metronome's answer."""
    return [prompt[(i + choice) % len(prompt)] for i in range(count)]


def completion(prompt, max_tokens, **fields):
    return {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "return_token_ids": True, **fields}


class FaultServer(Server):
    """A server of which more is asked than to be well: no memory, descriptor or connection may be left behind.

    `interval_ms`: the metronome's; None: the real model."""

    def __init__(self, *arguments, interval_ms=None, env=None, **more):
        if interval_ms is not None:
            arguments = ("--load-format", "metronome", *arguments)
            env = {**(env or environment()), "NVLLM_METRONOME_MS": str(interval_ms)}
        super().__init__(*arguments, env=env, **more)
        self.num_descriptors = None

    def learn(self):
        """What is usual, now that it is ready."""
        self.learn_canary()
        counts = []
        for _ in range(10):  # the last connections may still be ending
            counts.append(self.count_descriptors())
            time.sleep(0.01)
        self.num_descriptors = min(counts)
        return self

    def count_descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def resident_kib(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise AssertionError("no VmRSS")

    def cpu_s(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_sanitized(self):
        return "libasan" in pathlib.Path(f"/proc/{self.pid}/maps").read_text()

    def outgoing_connections(self):
        """TCP sockets of the process that do not belong to a port it listens at."""
        inodes = set()
        for entry in os.scandir(f"/proc/{self.pid}/fd"):
            try:
                target = os.readlink(entry.path)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
        rows = []
        for table in ("tcp", "tcp6"):
            lines = pathlib.Path(f"/proc/{self.pid}/net/{table}").read_text().splitlines()[1:]
            rows += [fields for fields in map(str.split, lines) if fields[9] in inodes]

        def port(fields):
            return fields[1].rsplit(":", 1)[1]
        listening = {port(fields) for fields in rows if fields[3] == "0A"} | {f"{self.port:04X}"}
        return [fields for fields in rows if port(fields) not in listening]

    def check(self, timeout_s=30.0):
        super().check(timeout_s)
        if self.num_descriptors is not None:
            wait_until(lambda: self.count_descriptors() <= self.num_descriptors + 2, timeout_s,
                       f"{self.num_descriptors} descriptors as before, or two more")
        if self.outgoing_connections():
            raise AssertionError(f"connections that nobody made: {self.outgoing_connections()}")

    def check_settles(self, row, rounds=2, most_rounds=5):
        """Runs `row` and looks after it, again and again: what it takes is taken once. An allocator needs some rounds to
        come to rest; what leaks never does."""
        taken = []
        while len(taken) < rounds or (taken[-1] > taken[-2] * 1.02 + 4096 and len(taken) < most_rounds):
            row()
            self.check()
            taken.append(self.resident_kib())
        if self.is_sanitized():
            print("    memory is not looked at: a sanitizer keeps what was freed")
        elif taken[-1] > taken[-2] * 1.02 + 4096:
            raise AssertionError(f"memory grows with every round: {taken} KiB")

    def start_stream(self, body, path="/v1/completions", **connection):
        """A streamed request that was sent, its answer unread."""
        connection = self.raw(**connection)
        return connection.send(self.raw_post(path, {**body, "stream": True}))


# --- Reading what came ---

def answers_in(data, methods=()):
    """Every answer in these bytes; the methods asked with say which have no body. The last may be cut off: then its
    `is_whole` is False."""
    answers = []
    while data:
        head, mark, data = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        if not mark or not first.startswith("HTTP/1.1 "):
            raise AssertionError(f"no answer's head: {head[:200]!r}")
        answer = Answer(int(first.split(" ")[1]), [line.split(": ", 1) for line in lines], b"")
        answer.is_whole = True
        method = methods[len(answers)] if len(answers) < len(methods) else "GET"
        answers.append(answer)
        if method == "HEAD" or answer.status in (100, 101, 204):
            continue
        if answer.headers["Transfer-Encoding"] == "chunked":
            answer.body, answer.is_whole, data = dechunked(data)
        else:
            length = int(answer.headers["Content-Length"] or len(data))
            answer.is_whole = len(data) >= length
            answer.body, data = data[:length], data[length:]
    return answers


def dechunked(data):
    """The content, whether its last chunk was there, and what follows it."""
    content = []
    while True:
        size, mark, rest = data.partition(b"\r\n")
        if not mark:
            return b"".join(content), False, b""
        count = int(size, 16)
        if len(rest) < count + 2:
            return b"".join(content), False, b""
        if rest[count:count + 2] != b"\r\n":
            raise AssertionError("a chunk does not end with CRLF")
        data = rest[count + 2:]
        if count == 0:
            return b"".join(content), True, data
        content.append(rest[:count])


# --- Many clients in one thread ---

class Client(asyncio.Protocol):
    """Sends a request and keeps what comes, with the times at which it came, until the connection ends."""

    def __init__(self, data):
        self.data = data
        self.parts = []
        self.fault = None
        self.transport = None
        self.began_s = time.monotonic()
        self.ended_s = None
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        transport.write(self.data)

    def data_received(self, data):
        self.parts.append((time.monotonic(), data))

    def connection_lost(self, fault):
        self.fault = fault
        self.ended_s = time.monotonic()
        if not self.ended.done():
            self.ended.set_result(None)

    @property
    def received(self):
        return b"".join(data for _, data in self.parts)

    def answer(self):
        """The one answer that came."""
        answers = answers_in(self.received)
        if len(answers) != 1:
            raise AssertionError(f"{len(answers)} answers instead of one ({self.fault})")
        return answers[0]

    def gaps_s(self):
        times = [at for at, _ in self.parts]
        return [after - before for before, after in zip(times, times[1:])]


async def connect(port, data):
    """A client at work; one that finds no connection has ended with its fault."""
    client = Client(data)
    try:
        await asyncio.get_running_loop().create_connection(lambda: client, "127.0.0.1", port)
    except OSError as fault:
        client.connection_lost(fault)
    return client


async def connect_all(port, requests, at_once=200):
    """As many clients as requests, so many of them connecting at a time."""
    gate = asyncio.Semaphore(at_once)

    async def one(request):
        async with gate:
            return await connect(port, request)

    return await asyncio.gather(*(one(request) for request in requests))


async def all_ended(clients, timeout_s=TIMEOUT_S):
    _, pending = await asyncio.wait([client.ended for client in clients], timeout=timeout_s)
    if pending:
        raise AssertionError(f"{len(pending)} of {len(clients)} clients were never done with")


def run_clients(port, requests, timeout_s=TIMEOUT_S):
    """All of them at once, until the last has ended; each request says Connection: close."""
    async def run():
        clients = await connect_all(port, requests)
        await all_ended(clients, timeout_s)
        return clients
    return asyncio.run(run())


def closing_post(server, path, body):
    return server.raw_post(path, body, {"Connection": "close"})


def stream_of(client):
    """Token ids of a completion's stream by choice, and whether its end mark and its last chunk came."""
    answer = client.answer()
    if answer.status != 200:
        raise AssertionError(f"no stream: {answer}")
    events = events_of(answer.body)
    is_ended = bool(events) and events[-1] == "[DONE]" and answer.is_whole
    ids = {}
    for event in events[:-1] if is_ended else events:
        parsed = json.loads(event)
        for choice in parsed.get("choices", []):
            ids.setdefault(choice["index"], []).extend(choice["token_ids"])
    return ids, is_ended


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


# --- Ways to leave ---

def leave_by_close(connection):
    connection.close()


def leave_by_shutdown(connection):
    """Only its own direction; the server must end the other."""
    connection.socket.shutdown(socket.SHUT_WR)
    if not connection.is_closed(10.0):
        raise AssertionError("a client that gave its answer up is still served")
    connection.close()


def leave_by_reset(connection):
    connection.reset()


WAYS_TO_LEAVE = {"close": leave_by_close, "shutdown": leave_by_shutdown, "reset": leave_by_reset}
