"""PyTorch's speed at the shapes that nvllm-bench kernels times, on the same GPU: one JSON object on standard output.

Weights, caches and inputs are taken in turn from copies that are larger together than the second-level cache. Medians of samples
that are CUDA graphs of several calls, so that no time of the host is in them.
"""

import argparse
import json
import statistics

import torch
import torch.nn.functional as F

SAMPLE_SECONDS = 0.002
WORKING_SET_BYTES = 512 << 20


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--shape", default="hidden=4096,intermediate=14336,heads=32,kv_heads=8,head_dim=128,vocab=128256")
    parser.add_argument("--tokens", default="1,8,64,256,2048", help="rows of products")
    parser.add_argument("--decode", default="64x4096", help="sequences x cached tokens of attention in decode")
    parser.add_argument("--prefill", type=int, default=8192, help="tokens of attention in prefill")
    parser.add_argument("--sampled", type=int, default=256, help="rows of sampling")
    parser.add_argument("--repeats", type=int, default=20)
    return parser.parse_args()


class Timer:
    def __init__(self, device, repeats):
        self.device, self.repeats = device, repeats

    def once(self, calls):
        """Seconds of one replay of all calls."""
        if self.device.type != "cuda":
            import time
            begin = time.perf_counter()
            for call in calls:
                call()
            return time.perf_counter() - begin
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        self.graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def microseconds(self, calls):
        """Median and range of one call's time; `calls` differ in their operands only."""
        for call in calls[:2]:
            call()
        calls = (calls * max(1, 64 // len(calls)))[:64]
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                for call in calls:
                    call()
        samples = [self.once(calls) / len(calls) * 1e6 for _ in range(self.repeats)]
        return {"median_us": statistics.median(samples), "least_us": min(samples), "most_us": max(samples)}


def copies(bytes_each):
    return max(2, min(64, WORKING_SET_BYTES // max(1, bytes_each)))


def products(shape, tokens, device):
    h, i = shape["hidden"], shape["intermediate"]
    width = (shape["heads"] + 2 * shape["kv_heads"]) * shape["head_dim"]
    for name, rows, columns in (("qkv", width, h), ("gate_up", 2 * i, h), ("down", h, i)):
        weights = [torch.randn(rows, columns, device=device, dtype=torch.bfloat16) * 0.02 for _ in range(copies(2 * rows * columns))]
        for count in tokens:
            x = torch.randn(count, columns, device=device, dtype=torch.bfloat16)
            flops, size = 2.0 * count * rows * columns, 2.0 * (rows * columns + count * (rows + columns))
            yield f"matmul {name} {count}", flops, size, [lambda w=w, x=x: F.linear(x, w) for w in weights]


def attention(shape, decode, prefill, device):
    heads, kv, d = shape["heads"], shape["kv_heads"], shape["head_dim"]
    sequences, cached = decode
    q = torch.randn(sequences, heads, 1, d, device=device, dtype=torch.bfloat16)
    k, v = (torch.randn(sequences, kv, cached, d, device=device, dtype=torch.bfloat16) for _ in range(2))
    size = 2.0 * 2 * sequences * cached * kv * d
    yield (f"attention decode {sequences} x {cached}", 4.0 * sequences * cached * heads * d, size,
           [lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True)])
    q2 = torch.randn(1, heads, prefill, d, device=device, dtype=torch.bfloat16)
    k2, v2 = (torch.randn(1, kv, prefill, d, device=device, dtype=torch.bfloat16) for _ in range(2))
    yield (f"attention prefill {prefill}", 2.0 * prefill * prefill * heads * d, 4.0 * prefill * (heads + kv) * d,
           [lambda: F.scaled_dot_product_attention(q2, k2, v2, is_causal=True, enable_gqa=True)])


def row_ops(shape, device):
    h, i = shape["hidden"], shape["intermediate"]
    xs = [torch.randn(256, h, device=device, dtype=torch.bfloat16) for _ in range(copies(2 * 256 * h))]
    weight = torch.ones(h, device=device, dtype=torch.bfloat16)
    yield "rms_norm 256", 4.0 * 256 * h, 4.0 * 256 * h, [lambda x=x: F.rms_norm(x, (h,), weight, 1e-6) for x in xs]
    gates = [torch.randn(256, 2 * i, device=device, dtype=torch.bfloat16) for _ in range(copies(4 * 256 * i))]
    yield ("gated_activation silu 256", 8.0 * 256 * i, 6.0 * 256 * i,
           [lambda g=g: F.silu(g[:, :i]) * g[:, i:] for g in gates])


def sampling(shape, rows, device):
    logits = torch.randn(rows, shape["vocab"], device=device)
    size = 4.0 * rows * shape["vocab"]

    def top_k_top_p():
        values, ids = torch.topk(logits, 50)
        probabilities = torch.softmax(values, -1)
        kept = torch.cumsum(probabilities, -1) - probabilities < 0.9
        return ids.gather(1, torch.multinomial(probabilities * kept, 1))

    yield f"sampling greedy {rows}", 0.0, size, [lambda: torch.argmax(logits, -1)]
    yield f"sampling top-k top-p {rows}", 0.0, size, [top_k_top_p]


def main():
    options = arguments()
    device = torch.device(options.device)
    shape = {key: int(value) for key, value in (pair.split("=") for pair in options.shape.split(","))}
    timer, results = Timer(device, options.repeats), []
    decode = tuple(map(int, options.decode.split("x")))
    cases = [lambda: products(shape, list(map(int, options.tokens.split(","))), device),
             lambda: attention(shape, decode, options.prefill, device),
             lambda: row_ops(shape, device), lambda: sampling(shape, options.sampled, device)]
    for make in cases:
        for name, flops, size, calls in make():
            try:
                times = timer.microseconds(calls)
            except RuntimeError as error:  # a shape that does not fit, or no kernel for it
                results.append({"case": name, "failed": str(error).splitlines()[0]})
                continue
            seconds = times["median_us"] * 1e-6
            results.append({"case": name, **times, "gb_s": size / seconds * 1e-9, "tflop_s": flops / seconds * 1e-12})
    print(json.dumps({"torch": torch.__version__, "cases": results}, indent=1))


if __name__ == "__main__":
    torch.inference_mode()(main)()
