"""How each program is asked for a test: ours, those of llama.cpp's kind, and scripts that drive Python engines."""

import dataclasses
import functools
import json
import pathlib
import re
import subprocess
import tempfile

from machine import BIN, Failed, run
from model import Model

LONG_PROMPT = 2048  # from here on the first touch of mapped weights is lost in the time, and warming up costs as much as the test


@dataclasses.dataclass(frozen=True)
class Test:
    """kind pp: `count` prompt tokens; tg: `count` generated after `depth`; batch: `count` sequences of 128 + 64."""
    kind: str
    count: int
    depth: int = 0

    @staticmethod
    def named(name):
        found = re.fullmatch(r"(pp|tg|batch)(\d+)(?:@(\d+))?", name)
        if not found:
            raise SystemExit(f"'{name}' is no test: ppN, tgN, tgN@DEPTH or batchN")
        return Test(found[1], int(found[2]), int(found[3] or 0))

    def lengths(self):
        return (self.count, 0) if self.kind == "pp" else (0, self.count)


def bench_rate(text):
    """Tokens a second from the JSON of llama-bench, or of nvllm-bench micro."""
    return json.loads(text[text.index("["):text.rindex("]") + 1])[0]["avg_ts"]


def help_of(program):
    """Some say it on stderr or exit with 1 after it."""
    done = subprocess.run([program, "--help"], capture_output=True, text=True)
    return done.stdout + done.stderr


def figures(done, rate):
    return {"value": rate, "seconds": done.seconds, "max_rss_mib": done.max_rss_mib, "anonymous_mib": done.anonymous_mib}


class Ours:
    def __init__(self, name, checkpoint, options):
        self.name, self.checkpoint, self.options = name, checkpoint, options
        self.model = Model(checkpoint)
        self.common = ["-m", checkpoint, "--threads", options.threads]

    def supports(self, _):
        return True

    def rate(self, test, sample_memory=False):
        if test.kind == "batch":
            return self.batch_rate(test)
        prompt, generated = test.lengths()
        done = run([BIN / "nvllm-bench", "micro", *self.common, "-p", prompt, "-n", generated, "-d", test.depth, "-r", 1, "-o", "json",
                    "--max-model-len", test.count + test.depth + 64, *(["--no-warmup"] if prompt >= LONG_PROMPT else [])], sample_memory)
        return figures(done, bench_rate(done.text))

    def batch_rate(self, test):
        """All prompts share the first step, so that what is timed after it is decoding alone."""
        done, result = self.throughput(["--batch", test.count, "--num-prompts", test.count, "--input-len", 128, "--output-len", 64,
                                        "--max-model-len", 256, "--max-num-batched-tokens", max(512, 128 * test.count)])
        return figures(done, result["batching"]["continuous"]["decode_tokens_per_second"])

    def throughput(self, more):
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            done = run([BIN / "nvllm-bench", "throughput", *self.common, "--repeats", 1, "--output-json", file.name, *more])
            return done, json.loads(pathlib.Path(file.name).read_text())

    def requests(self, path, lines):
        """Output tokens a second of all requests of a file, without a server."""
        done, result = self.throughput(["--dataset-name", "jsonl", "--dataset-path", path, "--num-prompts", lines, "--batch", lines,
                                        "--max-model-len", 1088])
        return figures(done, result["output_tokens_per_second"])

    def first_token(self):
        done = run([BIN / "nvllm-run", *self.common, "--prompt-ids", 5000, "-n", 1, "--temperature", 0, "--ignore-eos",
                    "--max-model-len", 512])
        return figures(done, done.seconds)

    def server(self, port, slots, tokens):
        return [BIN / "nvllm-serve", "-m", f"shape={self.checkpoint}", "--threads", self.options.threads, "--port", port,
                "--max-num-seqs", slots, "--max-model-len", tokens, "--queue-timeout", 0, "--request-timeout", 0]


class LlamaKind:
    """llama.cpp or a fork of it: llama-bench, llama-batched-bench, llama-server and llama-completion (or llama-cli) in one folder.
    Options are written as llama-bench takes them."""

    def __init__(self, name, folder, more, options):
        self.name, self.folder, self.more, self.options = name, pathlib.Path(folder), more, options
        self.model = Model(options.checkpoint).stored_as(options.gguf)
        self.common = ["-m", options.gguf, "-t", options.threads]

    def supports(self, _):
        return True

    @functools.cached_property
    def bench_help(self):
        return help_of(self.folder / "llama-bench")

    def switches(self):
        """The other programs have switches without a value where llama-bench has one with 1."""
        return [word for word in self.more if word != "1"]

    def rate(self, test, sample_memory=False):
        if test.kind == "batch":
            return self.batch_rate(test)
        done = run([self.folder / "llama-bench", *self.common, *self.more, *self.lengths(test), "-r", 1, "-o", "json"], sample_memory)
        return figures(done, bench_rate(done.text))

    def lengths(self, test):
        prompt, generated = test.lengths()
        if test.depth and "--n-depth" not in self.bench_help:  # ik_llama.cpp
            return ["-p", 0, "-n", 0, "-gp", f"{test.depth},{generated}"]
        lengths = ["-p", prompt, "-n", generated, *(["-d", test.depth] if test.depth else [])]
        if prompt >= LONG_PROMPT:
            lengths += ["--no-warmup"] if "--no-warmup" in self.bench_help else ["-w", 0]
        return lengths

    def batch_rate(self, test):
        done = run([self.folder / "llama-batched-bench", *self.common, *self.switches(), "-npp", 128, "-ntg", 64, "-npl", test.count,
                    "-c", test.count * 192 + 64, "-b", 2048, "-ub", 512])
        row = re.search(r"^\|" + r"\s*([\d.]+)\s*\|" * 10, done.text + done.error, re.MULTILINE)
        if not row:
            raise Failed(f"{self.name}: llama-batched-bench printed no row: {done.error[-300:]}")
        return figures(done, float(row.group(8)))

    def first_token(self):
        program = next((self.folder / name for name in ("llama-completion", "llama-cli") if (self.folder / name).exists()), None)
        if program is None:
            raise Failed(f"{self.folder}: neither llama-completion nor llama-cli")
        conversation = ["-no-cnv"] if program.name == "llama-completion" else []
        done = run([program, *self.common, *self.switches(), *conversation, "-p", "a", "-n", 1, "--temp", 0, "-c", 512, "--no-warmup",
                    "--ignore-eos"])
        return figures(done, done.seconds)

    def server(self, port, slots, tokens):
        """ik_llama.cpp refuses prompts when holes between those of other slots are too small, so there is twice the room."""
        return [self.folder / "llama-server", *self.common, *self.switches(), "--port", port, "-np", slots, "-c", 2 * slots * tokens,
                *self.no_page()]

    @functools.lru_cache(maxsize=None)
    def no_page(self):
        return ["--no-webui"] if "--no-webui" in help_of(self.folder / "llama-server") else []


class Script:
    """A program of scripts/measure/peers: an engine that Python drives."""

    def __init__(self, name, command, options):
        self.name, self.command, self.options = name, command, options
        self.model = Model(options.checkpoint)

    def supports(self, test):
        return test.kind in ("pp", "tg") and test.depth == 0

    def ask(self, arguments, sample_memory=False):
        done = run([*self.command, "--checkpoint", self.options.checkpoint, "--threads", self.options.threads, *arguments], sample_memory)
        result = json.loads(done.text.strip().splitlines()[-1])
        return {**figures(done, result["rate"]), **{key: value for key, value in result.items() if key != "rate"}}

    def rate(self, test, sample_memory=False):
        prompt, generated = test.lengths()
        return self.ask(["--prompt", prompt, "--generated", generated], sample_memory)

    def requests(self, path, _):
        return self.ask(["--requests", path])
