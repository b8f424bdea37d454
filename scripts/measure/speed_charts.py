#!/usr/bin/env python3
"""The charts of README.md and docs/performance.md, drawn from lines of docs/results.csv.

Usage: speed_charts.py [--check]
Writes docs/pictures/speed-cpu.svg and speed-gpu.svg. --check writes nothing and ends with 1 if a picture is not the one that the
results give.
"""

import pathlib
import sys

import results

PICTURES = results.FILE.parent / "pictures"
COLOURS = {"nanovllm": "#3b7dd8", "llama.cpp": "#9aa0a6", "ik_llama.cpp": "#c9ccd1", "PyTorch": "#9aa0a6"}
SHORT = {"llama-1b": "1B", "qwen-0.6b": "0.6B", "llama-8b": "8B"}

# Label; commit, machine, model, workload and metric of the lines; our value where two measurements share all of these.
CPU_ROWS = [
    ("Xeon AMX, {}: decode, 1 stream", ("c40b697", "Xeon AMX", "llama-1b", "tg128", "decode"), 14.6),
    ("Xeon AMX, {}: prompt of 512", ("c40b697", "Xeon AMX", "llama-1b", "pp512", "prefill"), None),
    ("Xeon AMX, {}: decode, 32 sequences", ("9e48859", "Xeon AMX", "llama-1b", "batch32", "generated tokens"), None),
    ("Xeon AMX, {}: server, 32 streams", ("f662894", "Xeon AMX", "llama-1b", "server32", "all tokens"), None),
    ("Zen 4, {}: decode, 1 stream", ("30fd160", "Zen 4", "llama-1b", "tg128", "decode"), None),
    ("Zen 4, {}: prompt of 512", ("504cbb8", "Zen 4", "llama-1b", "pp512", "prefill"), None),
    ("Zen 4, {}: decode, 32 sequences", ("209b2f2", "Zen 4", "llama-1b", "batch32", "generated tokens"), None),
    ("Zen 4, {}: server, 32 streams", ("b01f2f2", "Zen 4", "llama-1b", "server32", "all tokens"), None),
    ("Zen 3, {}: decode, 1 stream", ("c68c809", "Zen 3", "llama-1b", "tg128", "decode"), None),
    ("Zen 3, {}: prompt of 512", ("d4fe520", "Zen 3", "llama-1b", "pp512", "prefill"), None),
]
GPU = ("a9183f6", "H200")
GPU_ROWS = [
    ("8B: decode, 1 stream", ("llama-8b", "1 streams of 1024 + 128", "decode"), None),
    ("8B: decode, 8 streams", ("llama-8b", "8 streams of 1024 + 128", "decode"), None),
    ("8B: decode, 64 streams", ("llama-8b", "64 streams of 1024 + 128", "decode"), None),
    ("0.6B: decode, 1 stream", ("qwen-0.6b", "1 streams of 32 + 128", "decode"), None),
    ("op: bfloat16 matmul, 2,048 rows", ("", "matmul prefill gate_up, 2048 x 4096 x 28672 bfloat16", "time of an op"), "matmul gate_up 2048"),
    ("op: bfloat16 matmul, 1 row", ("", "matmul decode gate_up, 1 x 4096 x 28672 bfloat16", "time of an op"), "matmul gate_up 1"),
    ("op: decode attention, 64 x 4,096", ("", "attention decode, 64 x 1 of 4096, 32/8 x 128", "time of an op"), "attention decode 64 x 4096"),
]


def found(lines, commit, machine, model, workload, metric):
    """All lines of one measurement; there must be one."""
    keys = {"commit": commit, "machine": machine, "model": model, "workload": workload, "metric": metric}
    matching = [line for line in lines if all(line[key] == value for key, value in keys.items())]
    if not matching:
        raise SystemExit(f"no line in {results.FILE.name}: {keys}")
    return matching


def cpu_rows(lines):
    for label, keys, ours in CPU_ROWS:
        matching = [line for line in found(lines, *keys) if ours is None or float(line["ours"]) == ours]
        values = {"nanovllm": float(matching[0]["ours"]), **{line["peer"]: float(line["theirs"]) for line in matching}}
        yield label.format(SHORT[keys[2]]), matching[0]["unit"], values


def gpu_rows(lines):
    for label, (model, workload, metric), peers_workload in GPU_ROWS:
        same = found(lines, *GPU, model, workload, metric)
        theirs = found(lines, *GPU, "", peers_workload, metric) if peers_workload else [line for line in same if line["peer"]]
        ours = next(line for line in same if line["ours"])
        yield label, ours["unit"], {"nanovllm": float(ours["ours"]), "PyTorch": float(theirs[0]["theirs"])}


def legend(names):
    x = 10
    for name in names:
        yield f'<rect x="{x}" y="34" width="12" height="12" fill="{COLOURS[name]}"/><text x="{x + 18}" y="45">{name}</text>'
        x += 110


def bars(y, label, unit, values):
    """One row: a bar for each program, as long as its speed beside the fastest of the row."""
    speeds = {name: 1 / value if unit == "us" else value for name, value in values.items()}
    fastest = max(speeds.values())
    yield f'<text x="10" y="{y + 12}">{label}</text>'
    for index, (name, speed) in enumerate(speeds.items()):
        top, width = y + 15 * index, 330 * speed / fastest
        weight = ' font-weight="bold"' if speed == fastest else ""
        yield f'<rect x="270" y="{top}" width="{width:.1f}" height="12" fill="{COLOURS[name]}"/>'
        yield f'<text x="{276 + width:.1f}" y="{top + 10}" font-size="11"{weight}>{results.number(values[name])} {unit}</text>'


def chart(title, rows):
    rows = list(rows)
    names = list(dict.fromkeys(name for _, _, values in rows for name in values))
    step = 15 * len(names) + 9
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="700" height="{58 + step * len(rows)}" font-family="sans-serif" '
             f'font-size="13"><rect width="100%" height="100%" fill="#fff"/><text x="10" y="22" font-weight="bold">{title}</text>']
    parts += legend(names)
    for index, row in enumerate(rows):
        parts += bars(58 + step * index, *row)
    return "\n".join(parts) + "\n</svg>\n"


def main():
    lines = results.read()
    pictures = {
        "speed-cpu.svg": chart("CPU, 2 cores, bfloat16: longer is faster", cpu_rows(lines)),
        "speed-gpu.svg": chart("NVIDIA H200, bfloat16, and PyTorch 2.11 with CUDA graphs: longer is faster", gpu_rows(lines)),
    }
    stale = [name for name, text in pictures.items() if not (PICTURES / name).exists() or (PICTURES / name).read_text() != text]
    if "--check" in sys.argv[1:]:
        sys.exit(f"not current, run scripts/measure/speed_charts.py: {', '.join(stale)}" if stale else 0)
    for name in stale:
        (PICTURES / name).write_text(pictures[name])
    print(f"written: {', '.join(stale) or 'nothing, all current'}")


if __name__ == "__main__":
    main()
