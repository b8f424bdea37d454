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
COLOURS = {"nanovllm": "#3b7dd8", "llama.cpp": "#9aa0a6", "ik_llama.cpp": "#c9ccd1", "vLLM 0.24.0": "#9aa0a6"}

# Label; commit, machine, model, workload and metric of the lines.
CPU_ROWS = [
    ("Xeon AMX, 1B: decode, 1 stream", ("c40b697", "Xeon AMX", "llama-1b", "tg128", "decode")),
    ("Xeon AMX, 1B: prompt of 512", ("c40b697", "Xeon AMX", "llama-1b", "pp512", "prefill")),
    ("Xeon AMX, 1B: decode, 32 sequences", ("9e48859", "Xeon AMX", "llama-1b", "batch32", "generated tokens")),
    ("Xeon AMX, 1B: server, 32 streams", ("f662894", "Xeon AMX", "llama-1b", "server32", "all tokens")),
    ("Zen 4, 1B: decode, 1 stream", ("30fd160", "Zen 4", "llama-1b", "tg128", "decode")),
    ("Zen 4, 1B: prompt of 512", ("504cbb8", "Zen 4", "llama-1b", "pp512", "prefill")),
    ("Zen 4, 1B: decode, 32 sequences", ("209b2f2", "Zen 4", "llama-1b", "batch32", "generated tokens")),
    ("Zen 4, 1B: server, 32 streams", ("b01f2f2", "Zen 4", "llama-1b", "server32", "all tokens")),
    ("Zen 3, 1B: decode, 1 stream", ("c68c809", "Zen 3", "llama-1b", "tg128", "decode")),
    ("Zen 3, 1B: prompt of 512", ("d4fe520", "Zen 3", "llama-1b", "pp512", "prefill")),
]
GPU = ("e3f6435", "H200")
GPU_ROWS = [
    ("8B: decode, 1 stream", (*GPU, "llama-8b", "1 streams of 1024 + 256", "decode")),
    ("8B: decode, 64 streams", (*GPU, "llama-8b", "64 streams of 1024 + 256", "decode")),
    ("8B: decode, 256 streams", (*GPU, "llama-8b", "256 streams of 1024 + 256", "decode")),
    ("8B: prompt of 2,048", (*GPU, "llama-8b", "prompt of 2048", "prefill")),
    ("8B: prompt of 8,192", (*GPU, "llama-8b", "prompt of 8192", "prefill")),
    ("8B FP8: decode, 64 streams", (*GPU, "llama-8b-fp8", "64 streams of 1024 + 256", "decode")),
    ("30B-A3B: decode, 64 streams", (*GPU, "qwen-30b-a3b", "64 streams of 1024 + 256", "decode")),
    ("0.6B: decode, 1 stream", (*GPU, "qwen-0.6b", "1 streams of 1024 + 256", "decode")),
    ("0.6B: nano-vllm's 256 requests", (*GPU, "qwen-0.6b", "nano-vllm's 256 requests, planned ahead", "generated tokens")),
    ("0.6B: server, 32 clients", (*GPU, "qwen-0.6b", "server, 32 clients, 512 + 256", "generated tokens")),
]


def chart_rows(lines, rows):
    """(label, unit, value of each program) of each row. Of several measurements at one commit the latest counts."""
    for label, keys in rows:
        columns = dict(zip(("commit", "machine", "model", "workload", "metric"), keys, strict=True))
        matching = [line for line in lines if all(line[column] == value for column, value in columns.items())]
        if not matching:
            raise SystemExit(f"no line in {results.FILE.name}: {columns}")
        latest = matching[-1]
        yield label, latest["unit"], {"nanovllm": float(latest["ours"]), **{line["peer"]: float(line["theirs"]) for line in matching}}


def legend(names):
    x = 10
    for name in names:
        yield f'<rect x="{x}" y="34" width="12" height="12" fill="{COLOURS[name]}"/><text x="{x + 18}" y="45">{name}</text>'
        x += 110


def bars(y, label, unit, values):
    """One row: a bar for each program, as long as its speed beside the fastest of the row."""
    fastest = max(values.values())
    yield f'<text x="10" y="{y + 12}">{label}</text>'
    for index, (name, value) in enumerate(values.items()):
        top, width = y + 15 * index, 330 * value / fastest
        weight = ' font-weight="bold"' if value == fastest else ""
        yield f'<rect x="270" y="{top}" width="{width:.1f}" height="12" fill="{COLOURS[name]}"/>'
        yield f'<text x="{276 + width:.1f}" y="{top + 10}" font-size="11"{weight}>{results.number(value)} {unit}</text>'


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
        "speed-cpu.svg": chart("CPU, 2 cores, bfloat16: longer is faster", chart_rows(lines, CPU_ROWS)),
        "speed-gpu.svg": chart("One NVIDIA H200, bfloat16 unless FP8: longer is faster", chart_rows(lines, GPU_ROWS)),
    }
    stale = [name for name, text in pictures.items() if not (PICTURES / name).exists() or (PICTURES / name).read_text() != text]
    if "--check" in sys.argv[1:]:
        sys.exit(f"not current, run scripts/measure/speed_charts.py: {', '.join(stale)}" if stale else 0)
    for name in stale:
        (PICTURES / name).write_text(pictures[name])
    print(f"written: {', '.join(stale) or 'nothing, all current'}")


if __name__ == "__main__":
    main()
