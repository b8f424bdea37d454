"""A server under the load of nvllm-bench serve, from its start to its end."""

import json
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

from machine import BIN, WORK, Failed, run

READY_S = 600


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    """with Server(command, port): it is ready; afterwards it has ended and its CPU time counts as ours."""

    def __init__(self, command, port):
        self.command, self.port = [str(word) for word in command], port

    def __enter__(self):
        self.log = tempfile.TemporaryFile("w+", errors="replace")
        try:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                            cwd=WORK)
        except OSError as fault:
            raise Failed(str(fault)) from None
        try:
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait_until_ready(self):
        end = time.monotonic() + READY_S
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                self.log.seek(0)
                raise Failed(f"{' '.join(self.command)}: did not become ready: {self.log.read()[-600:]}")
            time.sleep(0.05)

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def ids(generator, count, vocab_size):
    return [generator.randrange(vocab_size // 2, vocab_size - 300) for _ in range(count)]  # no control tokens among them


def workload(kind, vocab_size):
    """Requests of a row, the same in every turn and for every program."""
    generator = random.Random(1)
    if kind == "server32":
        lengths = [(64, 32)] * 32
    elif kind == "nanovllm":
        lengths = [(generator.randint(100, 512), generator.randint(100, 512)) for _ in range(32)]
    else:
        lengths = [(32, 32)] * 64
    prefix = ids(generator, 1024, vocab_size) if kind == "prefix" else []
    return [{"prompt_token_ids": prefix + ids(generator, prompt, vocab_size), "max_tokens": generated, "ignore_eos": True}
            for prompt, generated in lengths]


def write_requests(requests, folder, name):
    path = pathlib.Path(folder) / f"{name}.jsonl"
    path.write_text("".join(json.dumps(request) + "\n" for request in requests))
    return path


def send(port, checkpoint, path, count, folder):
    """All requests of a file at once. Throws Failed unless every one is answered in full."""
    result = pathlib.Path(folder) / "serve.json"
    run([BIN / "nvllm-bench", "serve", "--port", port, "--tokenizer", checkpoint, "--dataset-name", "jsonl", "--dataset-path", path,
         "--num-prompts", count, "--send-token-ids", "--save-detailed", "--metric-percentiles", "50,99", "--output-json", result])
    found = json.loads(result.read_text())
    if found["failed"]:
        errors = sorted({text for text in found["errors"] if text})
        raise Failed(f"{found['failed']} of {count} requests failed: {'; '.join(errors)[:300]}")
    return found


def figures_of(found):
    gaps = [1000 * gap for answer in found["itls"] for gap in answer]
    longest, median = max(gaps), statistics.median(gaps)
    return {"total_tokens_per_s": found["total_token_throughput"], "output_tokens_per_s": found["output_throughput"],
            "requests_per_s": found["request_throughput"], "ttft_p99_ms": found["p99_ttft_ms"], "gap_median_ms": median,
            "gap_longest_ms": longest, "gap_longest_to_median": longest / median, "load_s": found["duration"]}


def under_load(program, requests, slots, checkpoint, vocab_size):
    """Starts the program's server, warms it up with other prompts, sends the requests, stops it."""
    longest = max(len(one["prompt_token_ids"]) + one["max_tokens"] for one in requests)
    tokens = (longest + 64 + 63) // 64 * 64
    port = free_port()
    warm = [{"prompt_token_ids": ids(random.Random(2), 16, vocab_size), "max_tokens": 4, "ignore_eos": True}]
    with tempfile.TemporaryDirectory() as folder, Server(program.server(port, slots, tokens), port):
        send(port, checkpoint, write_requests(warm, folder, "warm"), 1, folder)
        return figures_of(send(port, checkpoint, write_requests(requests, folder, "requests"), len(requests), folder))
