"""Row K6 of the fault table: a seeded random mix of requests and faults for so many minutes, and the oracle again and again.

    python3 -B tests/end_to_end/soak.py [--minutes 30] [--seed N] [--clients 24] [--fault-rate 0.05] [--model DIRECTORY]

Without --model the metronome answers, and every token is known beforehand; with it, each of a few greedy requests must
have one answer from beginning to end. With a worker process (--isolation process) the worker is killed now and then, which
nobody may notice. Prints a line a round; ends with 1 at the first thing that is wrong."""

import argparse
import asyncio
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

from fault_testing import (FaultServer, all_ended, allow_open_files, answers_in, closing_post, completion, connect,
                           metronome_ids, plain_prompt, stream_of)
from serve_testing import RawConnection, request_bytes, wait_until

ROUND_S = 20.0
PROMPTS = [f"Number {number} went to the river and" for number in range(12)]
MALFORMED = (b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00", b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
             b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n",
             b"GET /live HTTP/1.1\r\nHost: a\nb\r\n\r\n", b"X" * 20000)
REFUSED = ({"prompt": 5}, {"prompt": [30], "n": 99}, {"prompt": [30] * 5000}, {"prompt": [-1]}, {"prompt": "a", "model": "b"},
           {"prompt": [30], "logit_bias": {"999999": 1}}, {"prompt": "x" * 200_000})


class Wrong(Exception):
    pass


class Soak:
    def __init__(self, server, options):
        self.server, self.options = server, options
        self.random = random.Random(options.seed)
        self.known = {}
        self.counts = {}

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    # --- Requests that must be right ---

    def request(self):
        """A body, and what its token ids by choice must be; None when the first answer will tell."""
        count, n = self.random.randint(1, 120), self.random.choice((1, 1, 1, 2, 4))
        if self.options.model:
            prompt = self.random.choice(PROMPTS)
            body = completion(prompt, count, n=n, ignore_eos=True)
            return body, self.known.get((prompt, count)) and {index: self.known[prompt, count] for index in range(n)}
        prompt = plain_prompt(self.random.randrange(4000), self.random.randint(1, 71))
        body = completion(prompt, count, n=n)
        return body, {index: metronome_ids(prompt, count, index) for index in range(n)}

    async def ask(self):
        body, wanted = self.request()
        streams = self.random.random() < 0.6
        client = await connect(self.server.port, closing_post(self.server, "/v1/completions", {**body, "stream": streams}))
        await all_ended([client], 120.0)
        answer = client.answer()
        if answer.status in (429, 503):
            self.count("refused for overload")
            await asyncio.sleep(1.0)
            return
        if answer.status != 200:
            raise Wrong(f"{answer} to {body}")
        if streams:
            ids, is_ended = stream_of(client)
            if not is_ended:
                raise Wrong(f"a stream ends with {answer.body[-300:]!r}")
        else:
            ids = {choice["index"]: choice["token_ids"] for choice in answer.json()["choices"]}
        if wanted is None:
            wanted = {index: self.known.setdefault((body["prompt"], body["max_tokens"]), ids[0]) for index in ids}
        if ids != wanted:
            raise Wrong(f"{ids} instead of {wanted} for {body}")
        self.count("answered")

    # --- Faults ---

    async def leave(self):
        body, _ = self.request()
        data = closing_post(self.server, "/v1/completions", {**body, "max_tokens": 500, "stream": True})
        sent = self.random.choice((data, data, data, data[:self.random.randrange(len(data))]))
        client = await connect(self.server.port, sent)
        await asyncio.sleep(self.random.random() * 0.5)
        if client.transport is None:
            return
        how = self.random.choice(("close", "shutdown", "reset"))
        if how == "reset":
            client.transport.abort()
        elif how == "shutdown" and not client.transport.is_closing():
            client.transport.write_eof()
            await all_ended([client], 60.0)
        client.transport.close()
        self.count("left")

    async def stop_reading(self):
        body, _ = self.request()
        client = await connect(self.server.port, closing_post(self.server, "/v1/completions",
                                                             {**body, "max_tokens": 400, "n": 8, "stream": True}))
        if client.transport is None:
            return
        client.transport.pause_reading()
        await asyncio.sleep(self.random.random() * 5)
        if not client.transport.is_closing():
            client.transport.resume_reading()
        client.transport.close()
        self.count("stopped reading")

    async def send_nonsense(self):
        client = await connect(self.server.port, self.random.choice(MALFORMED))
        await asyncio.wait([client.ended], timeout=30.0)
        if client.transport is not None:
            client.transport.close()
        for answer in answers_in(client.received):
            if answer.status < 400:
                raise Wrong(f"{answer} to what is no HTTP")
        self.count("no HTTP")

    async def ask_wrongly(self):
        body = self.random.choice(REFUSED)
        client = await connect(self.server.port, closing_post(self.server, "/v1/completions", body))
        await all_ended([client], 60.0)
        answer = client.answer()
        if answer.status not in (400, 404, 429):
            raise Wrong(f"{answer} to {json.dumps(body)[:200]}")
        self.count("wrong requests")

    async def signal(self):
        self.server.signal(self.random.choice((signal.SIGHUP, signal.SIGUSR1, signal.SIGPIPE)))
        self.count("signals")

    async def stand_still(self):
        self.server.signal(signal.SIGSTOP)
        await asyncio.sleep(0.3)
        self.server.signal(signal.SIGCONT)
        self.count("stood still")

    async def resize(self):
        await asyncio.to_thread(self.set_share, self.random.choice((0.25, 0.5, 1.0)))
        self.count("resized")

    def set_share(self, share):
        with RawConnection(None, unix_socket=self.options.admin) as admin:
            admin.send(request_bytes("POST", "/admin/cache/resize", {"Host": "x", "Content-Type": "application/json"},
                                     json.dumps({"share": share}))).answer()

    async def kill_worker(self):
        children = pathlib.Path(f"/proc/{self.server.pid}/task").glob("*/children")
        workers = [int(pid) for file in children for pid in file.read_text().split()]
        if workers and self.random.random() < 0.1:  # three in a minute are taken for a worker that cannot live
            os.kill(workers[0], signal.SIGKILL)
            self.count("workers killed")

    async def one(self):
        if self.random.random() >= self.options.fault_rate:
            return await self.ask()
        faults = [self.leave, self.leave, self.leave, self.stop_reading, self.send_nonsense, self.ask_wrongly, self.signal,
                  self.stand_still, self.resize]
        if self.options.isolation == "process":
            faults.append(self.kill_worker)
        await self.random.choice(faults)()

    # --- Rounds ---

    async def round(self, end_s):
        async def work():
            while time.monotonic() < end_s:
                await self.one()
        await asyncio.gather(*(work() for _ in range(self.options.clients)))

    def run(self):
        begun_s, taken = time.monotonic(), []
        end_s = begun_s + self.options.minutes * 60
        while time.monotonic() < end_s:
            asyncio.run(self.round(min(end_s, time.monotonic() + ROUND_S)))
            self.set_share(1.0)
            self.server.check(60.0)
            taken.append(self.server.resident_kib())
            calls = self.server.status()["calls"]
            print(f"{time.monotonic() - begun_s:6.0f} s  {taken[-1]:8d} KiB  {calls}", flush=True)
        print(", ".join(f"{count} {what}" for what, count in sorted(self.counts.items())))
        return self.slope_mib_an_hour(taken)

    @staticmethod
    def slope_mib_an_hour(taken):
        """Least squares over the second half, when all is warm."""
        warm = taken[len(taken) // 2:]
        if len(warm) < 3:
            return 0.0
        mean_x, mean_y = (len(warm) - 1) / 2, sum(warm) / len(warm)
        slope = sum((x - mean_x) * (y - mean_y) for x, y in enumerate(warm)) / sum((x - mean_x) ** 2 for x in range(len(warm)))
        return slope / 1024 * 3600 / ROUND_S


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--fault-rate", type=float, default=0.05)
    parser.add_argument("--model")
    parser.add_argument("--isolation", choices=("thread", "process"), default="thread")
    parser.add_argument("--most-growth", type=float, default=1.0, help="MiB an hour, of the second half")
    parser.add_argument("--admin", default=f"{tempfile.gettempdir()}/nvllm-soak-{os.getpid()}.socket")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    allow_open_files(4096)
    arguments = ["--max-num-seqs", 16, "--max-queued-requests", 64, "--write-timeout", 3, "--admin-socket", options.admin,
                 "--kv-cache-memory-bytes", "8MiB", "--max-model-len", 640, "--isolation", options.isolation]
    more = {"model": options.model} if options.model else {"interval_ms": 3}
    with FaultServer(*arguments, **more) as server:
        server.learn()
        soak = Soak(server, options)
        try:
            slope = soak.run()
        except (Wrong, AssertionError) as fault:
            print(f"seed {options.seed}: {fault}\n{server.log[-3000:]}", file=sys.stderr)
            return 1
        print(f"memory: {slope:+.2f} MiB an hour in the second half")
        errors = [line for line in server.log.splitlines() if " error " in line]
        if errors:
            print("errors in the log: " + "\n".join(errors[:10]), file=sys.stderr)
            return 1
        wait_until(lambda: server.is_ready(), 10.0)
        if options.minutes >= 10 and slope > options.most_growth:
            print("memory grows", file=sys.stderr)
            return 1
        return 0 if server.stop() == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
