"""Adapters that come, change and go under many streams, with workers that are killed: every answer is that of the files that had its name.

    python3 -B tests/end_to_end/soak_adapters.py [--minutes 5] [--seed N] [--streams 64] [--adapters 24] [--kill-every 10]

Each stream asks for a random name, or for the model alone, and compares the ids with those that one of the files gives that had the name
while it waited; 404 where there was a time without one. Meanwhile names are loaded, replaced by other files and unloaded. In the end
the server is quiet, holds no block, and has no more memory than after the first minute. Prints what was done, and how long adapters took."""

import argparse
import os
import pathlib
import random
import re
import signal
import sys
import tempfile
import threading
import time

from adapter_testing import Adapter, linears_of, modules, request
from family_testing import FAMILIES
from programs import children, environment, run_jsonl, wait_until
from serve_testing import Server

MODEL = FAMILIES / "llama"
NAMES = 12
PROMPTS = [[5 + (7 * i + 3 * j) % 110 for j in range(4 + 3 * i)] for i in range(6)]
LENGTH = 24


class Names:
    """Which files each name may have had, and since when; None: it had none."""

    def __init__(self):
        self.lock = threading.Lock()
        self.history = {f"name{i}": [(0.0, {None})] for i in range(NAMES)}

    def current(self, name):
        with self.lock:
            file, = self.history[name][-1][1]
            return file

    def note(self, name, files):
        with self.lock:
            self.history[name].append((time.monotonic(), files))

    def possible(self, name, begin, end):
        """Those that the name had at some time in between."""
        with self.lock:
            history = list(self.history[name])
        found = set()
        for index, (since, files) in enumerate(history):
            until = history[index + 1][0] if index + 1 < len(history) else float("inf")
            if since <= end and until >= begin:
                found |= files
        return found


class Soak:
    def __init__(self, options, folder):
        self.options, self.names, self.end = options, Names(), time.monotonic() + 60 * options.minutes
        self.failures, self.counts, self.lock = [], {"answers": 0, "adapted": 0, "missing": 0, "changes": 0, "kills": 0}, threading.Lock()
        linears = linears_of(MODEL)
        self.files = {f"f{i}": Adapter(linears, rank=(4, 8, 16, 64)[i % 4], seed=options.seed + i).write(folder / f"f{i}")
                      for i in range(options.adapters)}
        lines = [request(file, prompt, max_tokens=LENGTH) for file in (None, *self.files) for prompt in PROMPTS]
        answers = run_jsonl(lines, "--max-loras", 8, *modules(self.files), model=MODEL)
        self.expected = {(line["adapter"], index % len(PROMPTS)): answer["token_ids"]
                         for index, (line, answer) in enumerate(zip(lines, answers, strict=True))}

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def fail(self, what):
        with self.lock:
            self.failures.append(what)

    def running(self):
        return time.monotonic() < self.end and not self.failures

    def stream(self, server, seed):
        draw = random.Random(seed)
        while self.running():
            name = None if draw.random() < 0.15 else f"name{min(int(draw.paretovariate(0.8)) - 1, NAMES - 1)}"
            prompt = draw.randrange(len(PROMPTS))
            begin = time.monotonic()
            answer = server.post("/v1/completions", {"model": name or "base", "prompt": PROMPTS[prompt], "max_tokens": LENGTH, "temperature": 0,
                                                     "ignore_eos": True, "return_token_ids": True, "stream": False})
            possible = {None} if name is None else self.names.possible(name, begin, time.monotonic())
            self.check(name, prompt, answer, possible)

    def check(self, name, prompt, answer, possible):
        if answer.status == 404 and name is not None and None in possible:
            return self.count("missing")
        if answer.status != 200:
            return self.fail(f"{name}: status {answer.status}: {answer.text[:300]}")
        ids = answer.json()["choices"][0]["token_ids"]
        files = possible if name is None else possible - {None}
        if not any(ids == self.expected[file, prompt] for file in files):
            return self.fail(f"{name}, prompt {prompt}: {ids} is of none of {sorted(map(str, files))}")
        self.count("answers")
        if name is not None:
            self.count("adapted")

    def change(self, server, seed):
        draw = random.Random(seed)
        while self.running():
            name, file = draw.choice(sorted(self.names.history)), draw.choice(sorted(self.files))
            old = self.names.current(name)
            new = None if old is not None and draw.random() < 0.3 else file
            self.names.note(name, {old, new})
            if new is None:
                answer = server.post("/v1/unload_lora_adapter", {"lora_name": name})
            else:
                answer = server.post("/v1/load_lora_adapter", {"lora_name": name, "lora_path": str(self.files[new]), "load_inplace": old is not None})
            self.names.note(name, {new})
            if answer.status != 200:
                self.fail(f"{name}: {answer.status}: {answer.text}")
            self.count("changes")
            time.sleep(draw.uniform(0.0, 0.3))

    def kill(self, server):
        while self.running():
            time.sleep(self.options.kill_every)
            for worker in children(server.pid):
                try:
                    os.kill(worker, signal.SIGKILL)
                    self.count("kills")
                except OSError:
                    pass


def resident_mib(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) // 1024


def read_ms(folders):
    """Of one adapter, when nothing else is done."""
    begin = time.perf_counter()
    for folder in folders:
        (folder / "adapter_model.safetensors").read_bytes()
    return 1000 * (time.perf_counter() - begin) / len(folders)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--adapters", type=int, default=24)
    parser.add_argument("--kill-every", type=float, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(options, pathlib.Path(folder))
        arguments = ["--served-model-name", "base", "--enable-lora", "--allow-runtime-lora-updating", "--max-loras", 4, "--max-cpu-loras", 6,
                     "--max-lora-rank", 64, "--isolation", "process", "--max-queued-requests", 1000]
        with Server(*arguments, model=MODEL, env=environment()) as server:
            threads = [threading.Thread(target=soak.stream, args=(server, options.seed * 1000 + i)) for i in range(options.streams)]
            threads += [threading.Thread(target=soak.change, args=(server, options.seed)), threading.Thread(target=soak.kill, args=(server,))]
            for thread in threads:
                thread.start()
            time.sleep(min(60.0, 30 * options.minutes))
            early = resident_mib(server.pid)
            for thread in threads:
                thread.join()
            late = resident_mib(server.pid)
            metrics = server.get("/metrics").text
            blocks = wait_until(server.is_idle, 30, "a server without work")["kv_cache"]
            if blocks["blocks_used"] != 0:
                soak.fail(f"blocks are held by nobody: {blocks}")

        def value(name):
            return sum(float(line.split()[-1]) for line in metrics.splitlines() if line.startswith(name + "{"))

        loads, took, size = value("nvllm_adapter_loads_total"), value("nvllm_adapter_load_milliseconds_total"), value("nvllm_adapter_loaded_bytes_total")
        tiers = {tier: next((int(float(line.split()[-1])) for line in metrics.splitlines()
                             if line.startswith("nvllm_adapter_requests_total{") and f'tier="{tier}"' in line), 0) for tier in ("hot", "warm", "cold")}
        print(f"{soak.counts}; requests by tier {tiers}; {loads:.0f} loads of {size / max(loads, 1) / 1024:.0f} KiB took "
              f"{took / max(loads, 1):.2f} ms each, where reading such a file alone takes {read_ms(soak.files.values()):.2f} ms; "
              f"resident {early} MiB, then {late} MiB")
        if late > early * 1.2 + 32:
            soak.fail(f"memory grew from {early} to {late} MiB")
        for failure in soak.failures[:5]:
            print(failure, file=sys.stderr)
        return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
