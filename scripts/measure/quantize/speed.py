#!/usr/bin/env python3
"""Time a block and memory of nvllm-quantize beside llm-compressor: the same model, recipe, samples and number of threads.

Usage: speed.py MODEL SAMPLES.jsonl WORK --python PYTHON [--recipe gptq-w4a16] [--threads 2] [--turns 1] [--output NAME] [--results FILE]
PYTHON runs llm_compressor.py beside this file; without it ours runs alone. SAMPLES has {"text": ...} a line, one sample each.
A block's time is that from the end of the work on one block to the end of the work on the next: what it gives its successor,
observing the successor and solving it. The first block, which has no predecessor, does not count; llm-compressor's last one holds the head.
Memory is the process's largest resident set, of ours beside the plan that it prints. Writes NAME.json and NAME.md, the raw record; --results FILE appends lines, such as to docs/results.csv.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
sys.path.insert(0, str(HERE.parent))
import results

UNITS = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("samples", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--python", help="of an environment with llm-compressor")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build" / "release" / "bin")
    parser.add_argument("--recipe", default="gptq-w4a16", help="a name below recipes/ without .yaml")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--results", type=pathlib.Path)
    return parser.parse_args()


def watched(command, errors):
    """Lines of standard output with the moment each came, and the largest resident set in MiB."""
    with open(errors, "w") as file:
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=file, text=True)
        lines = [(time.monotonic(), line) for line in process.stdout]
        _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit(f"{command[0]} ended with {os.waitstatus_to_exitcode(status)}: see {errors}")
    return lines, usage.ru_maxrss / 1024


def between(moments):
    return [after - before for before, after in zip(moments, moments[1:])]


def seconds_of_blocks(moments, blocks):
    """Seconds of each block but the first. Every modifier that needs samples goes through the whole model: first the embedding, then block
    after block, what lies behind them with the last one. A modifier that needs none ends once, behind all."""
    passes, rest = divmod(len(moments), blocks + 1)
    if passes == 0 or rest > 1:
        raise SystemExit(f"{len(moments)} parts for {blocks} blocks: this llm-compressor cuts models elsewhere")
    ends = [moments[start + 1:start + 1 + blocks] for start in range(0, passes * (blocks + 1), blocks + 1)]
    return [sum(parts) for parts in zip(*map(between, ends))]


def ours(options, recipe):
    output = options.work / "ours"
    command = [options.bin / "nvllm-quantize", "-m", options.model, "--recipe", recipe, "--calibration", options.samples,
               "--no-shuffle", "--no-concatenate", "-t", options.threads, "-o", output]
    plan = subprocess.run(list(map(str, [*command, "--dry-run"])), check=True, capture_output=True, text=True).stdout
    amount, unit = next(line for line in plan.splitlines() if line.startswith("memory")).split()[1:3]
    lines, memory = watched([*command, "--progress", "json"], options.work / "ours.log")
    ends = {}
    for moment, line in lines:
        if line.startswith("{"):
            name = json.loads(line)["name"]
            ends[next((part for part in name.split(".") if part.isdigit()), name)] = moment
    shutil.rmtree(output)
    return {"block_seconds": between([moment for block, moment in ends.items() if block.isdigit()]), "memory_mib": memory,
            "planned_mib": float(amount) * UNITS[unit.rstrip(":")]}


def theirs(options, recipe):
    output = options.work / "theirs"
    lines, memory = watched([options.python, HERE / "llm_compressor.py", options.model, recipe, options.samples, output, options.threads],
                            options.work / "theirs.log")
    result = json.loads(lines[-1][1])
    shutil.rmtree(output)
    blocks = json.loads((options.model / "config.json").read_text())["num_hidden_layers"]
    return {"block_seconds": seconds_of_blocks(result["solved_at"], blocks), "memory_mib": memory, "tokens": result["tokens"],
            "samples": result["samples"]}


def summary(turns):
    seconds = [value for turn in turns for value in turn["block_seconds"]]
    return {"block_seconds": statistics.median(seconds), "fastest": min(seconds), "slowest": max(seconds),
            "memory_mib": max(turn["memory_mib"] for turn in turns)}


def table(sides, options):
    lines = [f"{options.model.name}, {options.recipe}, {options.threads} threads, turns of each side: {options.turns}", "",
             "| | seconds a block, median (range) | largest resident set |", "|---|---|---|"]
    for name, turns in sides.items():
        of = summary(turns)
        lines.append(f"| {name} | {of['block_seconds']:.1f} ({of['fastest']:.1f} to {of['slowest']:.1f}) | {of['memory_mib']:.0f} MiB |")
    lines += ["", f"Ours had planned {sides['nvllm-quantize'][0]['planned_mib']:.0f} MiB."]
    if "llm-compressor" in sides:
        ratio = summary(sides["llm-compressor"])["block_seconds"] / summary(sides["nvllm-quantize"])["block_seconds"]
        lines[-1] += (f" Ours is {ratio:.2f} times as fast a block, with {sides['llm-compressor'][0]['tokens']} tokens in "
                      f"{sides['llm-compressor'][0]['samples']} samples.")
    return "\n".join(lines) + "\n"


def result_lines(sides, options):
    of = {name: summary(turns) for name, turns in sides.items()}
    ours, theirs = of["nvllm-quantize"], of.get("llm-compressor", {})
    base = {"date": time.strftime("%Y-%m-%d"), "commit": results.commit(), "machine": results.processor(), "model": options.model.name,
            "workload": f"quantize {options.recipe}, {options.threads} threads", "turns": options.turns,
            "peer": "llm-compressor" if theirs else ""}
    yield results.line(**base, metric="time of a block", unit="s", ours=results.number(ours["block_seconds"]),
                       ours_range=results.span(ours["fastest"], ours["slowest"]), theirs=results.number(theirs.get("block_seconds")),
                       theirs_range=results.span(theirs.get("fastest"), theirs.get("slowest")))
    yield results.line(**base, metric="peak resident memory", unit="MiB", ours=results.number(ours["memory_mib"]),
                       theirs=results.number(theirs.get("memory_mib")),
                       note=f"planned {sides['nvllm-quantize'][0]['planned_mib']:.0f} MiB")


def main():
    options = arguments()
    options.work.mkdir(parents=True, exist_ok=True)
    recipe = HERE / "recipes" / f"{options.recipe}.yaml"
    runs = {"nvllm-quantize": ours} | ({"llm-compressor": theirs} if options.python else {})
    sides = {name: [] for name in runs}
    for _ in range(options.turns):
        for name, run in runs.items():
            sides[name].append(run(options, recipe))
            print(name, sides[name][-1], file=sys.stderr, flush=True)
    text = table(sides, options)
    print(text, end="")
    if options.results:
        results.append(options.results, result_lines(sides, options))
    if options.output:
        pathlib.Path(f"{options.output}.md").write_text(text)
        pathlib.Path(f"{options.output}.json").write_text(
            json.dumps({"model": options.model.name, "recipe": options.recipe, "threads": options.threads, "date": time.strftime("%Y-%m-%d"),
                        "sides": sides}, indent=1) + "\n")


if __name__ == "__main__":
    main()
