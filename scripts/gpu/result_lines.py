"""Lines of docs/results.csv from the tables of a run of gpu_check."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "measure"))
import results

# Columns of a table that are values, with their metric and unit.
VALUES = {
    "decode tok/s": ("decode", "tok/s"), "prefill tok/s": ("prefill", "tok/s"), "prompt tok/s": ("prefill", "tok/s"),
    "tok/s": ("prefill", "tok/s"), "output tok/s": ("generated tokens", "tok/s"), "total tok/s": ("all tokens", "tok/s"),
    "median_us": ("time of an op", "us"), "together us": ("time of a kernel in the step", "us"),
    "mean_kld": ("mean KL divergence from the CPU", "nats/token"), "max_kld": ("largest KL divergence from the CPU", "nats/token"),
    "same_top": ("same top token as the CPU", "ratio"), "read_gb_s": ("limit: memory", "GB/s"),
    "product_gflop_s": ("limit: bfloat16 matmul", "GFLOP/s"), "passed": ("tests passed", "count"), "failed": ("tests failed", "count"),
}
# How the workload of a row is named, by a column that only such rows have.
WORKLOADS = {
    "batch": "{batch} streams of {prompt} + {output} {options}", "op": "{op}, {shape}", "case": "{case}",
    "kernel": "{step}: {kernel}, {calls} calls", "prompt": "prompt of {prompt}", "mean_kld": "device beside CPU {options}",
}
LIMITS = ("% of limit", "percent_of_limit")


def workload_of(step, row):
    pattern = next((pattern for column, pattern in WORKLOADS.items() if column in row), "{step}")
    return pattern.format_map({"step": step, "options": "", **row}).strip()


def model_of(row):
    return "" if "op" in row else " ".join(str(row[key]) for key in ("shape", "scheme") if row.get(key))


def columns_of(row, key, is_peer):
    """The value, its range and its share of the limit, in the columns of ours or of the peer."""
    limit = next((row[name] for name in LIMITS if row.get(name)), None)
    value = {"": results.number(row[key])}
    if key == "median_us":
        value["_range"] = results.span(row.get("least_us"), row.get("most_us"))
    if limit:
        value["_limit"] = f"{limit:.0f}"
    side = "theirs" if is_peer else "ours"
    return {f"{side}{column}": text for column, text in value.items()} | ({"peer": "PyTorch"} if is_peer else {})


def result_lines(machine, steps):
    base = {"date": time.strftime("%Y-%m-%d"), "commit": machine.get("commit", ""), "machine": machine.get("device", "emulation")}
    for step in steps:
        if step["outcome"] != "done":
            yield results.line(**base, workload=step["step"], metric="outcome", note=step["outcome"])
        for row in step.get("table") or []:
            for key in [key for key in VALUES if row.get(key) is not None]:
                metric, unit = VALUES[key]
                yield results.line(**base, model=model_of(row), workload=workload_of(step["step"], row), metric=metric, unit=unit,
                                   **columns_of(row, key, "torch" in row or "PyTorch" in step["step"]))
