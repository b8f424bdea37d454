"""The steps of gpu_check that measure: kernels, then whole models with random weights, each beside PyTorch on the same GPU."""

import collections
import csv
import json
import pathlib
import re
import shutil
import statistics
import sys
import time

from session import Missing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "measure"))
from make_checkpoint import SHAPES  # noqa: E402

BYTES = 2  # of bfloat16


def quantization(weights, activations=None):
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    form = "pack-quantized" if activations is None else "int-quantized" if weights["type"] == "int" else "float-quantized"
    return {"quant_method": "compressed-tensors", "format": form, "quantization_status": "compressed", "ignore": ["lm_head"],
            "config_groups": {"group_0": group}}


def channels(kind):
    return {"num_bits": 8, "type": kind, "symmetric": True, "strategy": "channel"}


def tokens(kind):
    return {"num_bits": 8, "type": kind, "symmetric": True, "strategy": "token", "dynamic": True}


SCHEMES = {
    "W4A16": {"weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 128}},
    "W8A8": {"weights": channels("int"), "activations": tokens("int")},
    "FP8_DYNAMIC": {"weights": channels("float"), "activations": tokens("float")},
}


class Shape:
    """A model's shape as a folder with config.json alone, and what one step of it costs at least."""

    def __init__(self, name, output, scheme=None):
        self.name, self.config = name, SHAPES[name]
        if scheme:
            self.config = {**self.config, "quantization_config": quantization(**SCHEMES[scheme])}
        self.folder = output / "shapes" / f"{name}-{scheme or 'bfloat16'}"
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "config.json").write_text(json.dumps(self.config))

    @property
    def body(self):
        c = self.config
        h, d, layers = c["hidden_size"], c["head_dim"], c["num_hidden_layers"]
        heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
        return layers * (h * d * (heads + 2 * kv) + heads * d * h + 3 * h * c["intermediate_size"])

    @property
    def head(self):
        return self.config["vocab_size"] * self.config["hidden_size"]

    @property
    def kv_bytes(self):
        c = self.config
        return 2 * c["num_hidden_layers"] * c["num_key_value_heads"] * c["head_dim"] * BYTES

    def decode_seconds(self, limits, batch, context):
        read, flops = limits["read_gb_s"] * 1e9, limits["product_gflop_s"] * 1e9
        weights = self.body + self.head
        return max(BYTES * weights / read, 2 * weights * batch / flops) + batch * context * self.kv_bytes / read

    def prefill_seconds(self, limits, tokens):
        c = self.config
        attention = 2 * c["num_hidden_layers"] * c["num_attention_heads"] * c["head_dim"] * tokens ** 2
        return (2 * self.body * tokens + 2 * self.head + attention) / (limits["product_gflop_s"] * 1e9)


def ours(session, seconds, program, *arguments):
    path = session.options.output / "result.json"
    session.run([*session.program(program), *arguments, "--output-json", path.absolute()], seconds, environment=session.environment())
    return json.loads(path.read_text())


def torch(session, seconds, script, *arguments):
    device = ["--device", "cpu"] if session.options.emulated else []
    if session.machine.get("torch") == "not found":
        raise Missing("PyTorch")
    return json.loads(session.run([sys.executable, f"scripts/gpu/{script}", *arguments, *device], seconds))


# Rows of kernels: what nvllm-bench kernels measures, and the same of PyTorch where it has it.

SMALL = ["--tokens", 16, "--sequences", 2, "--context", 40, "--working-set", "1MiB", "--probe-bytes", "1MiB", "--repeats", 1]


def limits(session, seconds):
    """The machine's limits (K0): every other row's share is of these."""
    size = SMALL if session.options.emulated else ["--repeats", 1]
    found = ours(session, seconds, "nvllm-bench", "kernels", "--device", session.device, "--filter", "rms_norm", *size)
    session.limits = found["roof"]
    return {"limits": found["roof"], "table": [found["roof"]]}


def known_limits(session, seconds):
    """Measured first where the step that does it was left out (--only)."""
    if session.limits is None:
        limits(session, seconds)
    return session.limits


def our_kernels(session, seconds):
    # Around each op the limits are looked at again: matrices for that come from the host, so they are no larger than they must be.
    shape = SMALL if session.options.emulated else [
        "--tokens", 2048, "--sequences", 64, "--context", 4096, "--working-set", "1GiB", "--probe-bytes", "256MiB", "--repeats", 10]
    model = Shape("tiny" if session.options.emulated else "llama-8b", session.options.output)
    found = ours(session, seconds, "nvllm-bench", "kernels", "--device", session.device, "-m", model.folder, *shape)
    session.kernels = found["ops"]
    keys = ("op", "shape", "median_us", "gb_s", "gflop_s", "limit", "percent_of_limit")
    return {"table": [{key: op[key] for key in keys} for op in found["ops"]], "samples": found["ops"]}


def torch_kernels(session, seconds):
    small = ["--shape", "hidden=64,intermediate=128,heads=4,kv_heads=2,head_dim=16,vocab=512", "--tokens", "1,16", "--decode", "2x40",
             "--prefill", "64", "--sampled", "4", "--repeats", "1"]
    found = torch(session, seconds, "torch_kernels.py", *(small if session.options.emulated else []))
    return {"table": found["cases"], "torch": found["torch"]}


def kernel_rows(options):
    return [("limits", 30, limits), ("kernels", 90, our_kernels), ("kernels of PyTorch", 45, torch_kernels)]


# Rows end to end.


def decode_row(name, batches, prompt, output, *options):
    def measure(session, seconds):
        shape = Shape("tiny" if session.options.emulated else name, session.options.output)
        sizes = batches[:1] if session.options.emulated else batches
        lengths = (16, 4) if session.options.emulated else (prompt, output)
        end = time.monotonic() + seconds
        rows = []
        for batch in sizes:
            found = ours(session, end - time.monotonic(), "nvllm-bench", "micro" if batch == 1 else "throughput", "--device",
                         session.device, "-m", shape.folder, "--load-format", "dummy", *options, *request(batch, *lengths))
            rate = decode_rate(found, batch)
            share = rate * shape.decode_seconds(known_limits(session, seconds), batch, lengths[0] + lengths[1] / 2) / batch
            rows.append({"shape": name, "options": " ".join(options), "batch": batch, "prompt": lengths[0], "output": lengths[1],
                         "decode tok/s": rate, "% of limit": 100 * share})
        return {"table": rows}
    return measure


def torch_decode_row(name, batches, prompt, output):
    """The peer: the same shape in PyTorch, a step of decode as one CUDA graph."""
    def measure(session, seconds):
        shape = Shape("tiny" if session.options.emulated else name, session.options.output)
        sizes, lengths = ([1], (16, 4)) if session.options.emulated else (batches, (prompt, output))
        found = torch(session, seconds, "torch_decode.py", shape.folder / "config.json", "--batch", ",".join(map(str, sizes)),
                      "--prompt", lengths[0], "--output", lengths[1])
        return {"table": [{"shape": name, **row} for row in found]}
    return measure


def request(batch, prompt, output):
    if batch == 1:
        return ["-p", 0, "-n", output, "-d", prompt, "-r", 5]
    return ["--num-prompts", batch, "--batch", batch, "--input-len", prompt, "--output-len", output, "--repeats", 5 if batch < 32 else 3]


def decode_rate(found, batch):
    """Generated tokens a second of steps that only generate."""
    if batch == 1:
        return found["tests"][0]["avg_ts"]
    return found["batching"]["continuous"]["decode_tokens_per_second"]


def prefill_row(name, tokens):
    def measure(session, seconds):
        shape = Shape("tiny" if session.options.emulated else name, session.options.output)
        count = 32 if session.options.emulated else tokens
        found = ours(session, seconds, "nvllm-bench", "micro", "--device", session.device, "-m", shape.folder, "--load-format", "dummy", "-p",
                     count, "-n", 0, "-r", 3)
        rate = found["tests"][0]["avg_ts"]
        return {"table": [{"shape": shape.name, "prompt": count, "tok/s": rate,
                           "% of limit": 100 * shape.prefill_seconds(known_limits(session, seconds), count) / count * rate}]}
    return measure


def quantized_row(name, scheme):
    """Prompts and one stream of a shape whose linears are stored as the scheme has them. The host makes the codes: of a small shape."""
    def measure(session, seconds):
        shape = Shape("tiny" if session.options.emulated else name, session.options.output, scheme)
        lengths = [16, 4] if session.options.emulated else [2048, 128]
        found = ours(session, seconds, "nvllm-bench", "micro", "--device", session.device, "-m", shape.folder, "--load-format", "dummy",
                     "-p", lengths[0], "-n", lengths[1], "-r", 3)
        prompts, answers = (test["avg_ts"] for test in found["tests"])
        return {"table": [{"shape": shape.name, "scheme": scheme, "prompt": lengths[0], "prompt tok/s": prompts, "decode tok/s": answers}]}
    return measure


def workload(session, seconds):
    """nano-vllm's: 256 requests with 100 to 1,024 tokens each way."""
    shape = Shape("tiny" if session.options.emulated else "qwen-0.6b", session.options.output)
    dataset = ["--num-prompts", 2, "--input-len", 8, "--output-len", 3] if session.options.emulated else [
        "--dataset-name", "nano-vllm", "--max-num-seqs", 256]
    found = ours(session, seconds, "nvllm-bench", "throughput", "--device", session.device, "-m", shape.folder, "--load-format", "dummy",
                 "--repeats", 1, *dataset)
    return {"table": [{"shape": shape.name, "output tok/s": found["output_tokens_per_second"],
                       "total tok/s": found["tokens_per_second"]}]}


def profile_row(name, launches_before, *arguments):
    """Where a step's time goes: the kernels of about one step of decode, each as Nsight Compute times it alone, without graphs."""
    def measure(session, seconds):
        if session.options.emulated or not shutil.which("ncu"):
            raise Missing("ncu")
        shape, log = Shape(name, session.options.output), session.options.output / "ncu.csv"
        session.run(["ncu", "--csv", "--log-file", log, "--target-processes", "all", "--clock-control", "none", "--cache-control", "none",
                     "--metrics", "gpu__time_duration.sum", "--launch-skip", launches_before, "--launch-count", 400,
                     *session.program("nvllm-bench"), *arguments, "--device", session.device, "-m", shape.folder, "--load-format",
                     "dummy", "--enforce-eager"], seconds, environment=session.environment())
        lines = [line for line in log.read_text().splitlines() if line.startswith('"')]
        times = collections.defaultdict(list)
        for row in csv.DictReader(lines):
            scale = {"ns": 1e-3, "us": 1, "ms": 1e3}[row["Metric Unit"].replace("nsecond", "ns").replace("usecond", "us")]
            kernel = re.sub(r"\(.*|void |\(anonymous namespace\)::|nvllm::(cuda|gpu|ops)::", "", row["Kernel Name"])
            times[kernel].append(scale * float(row["Metric Value"].replace(",", "")))
        rows = [{"kernel": kernel[:60], "calls": len(each), "median us": statistics.median(each), "together us": sum(each)}
                for kernel, each in times.items()]
        return {"table": sorted(rows, key=lambda row: -row["together us"])}
    return measure


def end_to_end_rows(options):
    eight = ("llama-8b", [1, 8, 64, 256], 1024, 128)
    one_stream = ("micro", "-p", 0, "-n", 24, "-r", 1, "--no-warmup")
    small = ("qwen-0.6b", [1], 32, 128)
    return [("decode of Llama-3.1-8B's shape", 100, decode_row(*eight)),
            ("decode of Qwen3-0.6B's shape", 30, decode_row(*small)),
            ("the same, planned ahead", 30, decode_row(*small, "--async-scheduling")),
            ("prefill of Llama-3.1-8B's shape", 30, prefill_row("llama-8b", 2048)),
            *((f"Llama-3.2-1B's shape in {scheme}", 30, quantized_row("llama-1b", scheme)) for scheme in SCHEMES),
            ("nano-vllm's workload, Qwen3-0.6B's shape", 45, workload),
            ("a step of Qwen3-0.6B's shape, 1 stream", 30, profile_row("qwen-0.6b", 3000, *one_stream, "-d", 32)),
            ("a step of Llama-3.1-8B's shape, 1 stream", 30, profile_row("llama-8b", 3500, *one_stream, "-d", 1024)),
            ("a step of Llama-3.1-8B's shape, 64 streams", 40,
             profile_row("llama-8b", 6000, "throughput", "--num-prompts", 64, "--batch", 64, "--input-len", 512, "--output-len", 48,
                         "--repeats", 1)),
            ("Qwen3-0.6B's shape in PyTorch", 30, torch_decode_row(*small)),
            ("Llama-3.1-8B's shape in PyTorch", 60, torch_decode_row("llama-8b", [1, 8, 64], 1024, 128))]
