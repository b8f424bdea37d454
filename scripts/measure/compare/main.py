"""Speed beside peers, on one machine in one run: programs of llama.cpp's kind, and engines that Python drives.

All take turns: ours, each peer, ours, each peer. Before and after each turn a probe reads what memory and arithmetic give at
that moment. A turn during which other processes took more than --others of the machine's CPU time is done again, up to --tries
times; the quietest counts, and the row is marked when that was not quiet. Ratios are of medians, to the best peer of the row.

Rows: ppN (prompt), tgN (generation), tgN@DEPTH, batchN (N x (128 + 64)), server32, prefix, nanovllm, load40:TEST, start,
memory:TEST, where TEST is ppN or tgN.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

from machine import Failed, hold, locked, quiet_turn
from programs import LlamaKind, Ours, Script
from report import chart, line, result_lines, row_result, results, table
from rows import make_row

ROWS = ("tg128,tg128@4096,pp512,pp2048,pp8192,batch1,batch2,batch8,batch32,server32,prefix,nanovllm,load40:tg128,load40:pp512,start,"
        "memory:tg128,memory:pp512")


def arguments():
    parser = argparse.ArgumentParser(prog="compare_cpu.sh", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("checkpoint", type=pathlib.Path, help="our model, as Hugging Face stores it")
    parser.add_argument("gguf", type=pathlib.Path, help="the same weights (scripts/measure/make_gguf.py)")
    parser.add_argument("--ours", action="append", default=[], metavar="NAME=CHECKPOINT",
                        help="another model of ours beside the first, such as the one that was quantized to it")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=FOLDER[,OPTION...]",
                        help="folder with llama-bench and its like, and options as llama-bench takes them: ik=FOLDER,-rtr,1")
    parser.add_argument("--script", action="append", default=[], metavar="NAME=PYTHON,SCRIPT[,OPTION...]",
                        help="an engine that a script of scripts/measure/peers drives")
    parser.add_argument("--rows", default=ROWS)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--others", type=float, default=0.05, help="share of CPU time that others may take")
    parser.add_argument("--tries", type=int, default=4, help="of one turn, until it is quiet")
    parser.add_argument("--lock", type=pathlib.Path, help="a file whose lock is held while all sides have a turn: flock FILE COMMAND waits that long")
    parser.add_argument("--prefix-slots", type=lambda text: list(map(int, text.split(","))), default=[4, 8, 16],
                        help="slots of peers' servers in the row prefix: each is tried once, and the best is measured")
    parser.add_argument("--output", type=pathlib.Path,
                        help="begins the names of a .json, a .md and an .svg file: the raw record, which is not committed")
    parser.add_argument("--machine", help="the machine's name in the results; default: its processor and instruction set")
    parser.add_argument("--results", type=pathlib.Path, help="append a line for each value, such as to docs/results.csv")
    options = parser.parse_args()
    options.checkpoint, options.gguf = options.checkpoint.absolute(), options.gguf.absolute()
    return options


def absolute(word):
    return str(pathlib.Path(word).absolute()) if pathlib.Path(word).exists() else word


def programs_of(options):
    programs = [Ours("nanovllm", options.checkpoint, options)]
    for text in options.ours:
        name, folder = text.split("=", 1)
        programs.append(Ours(name, pathlib.Path(folder).absolute(), options))
    for text in options.peer:
        name, rest = text.split("=", 1)
        folder, *more = rest.split(",")
        programs.append(LlamaKind(name, absolute(folder), more, options))
    for text in options.script:
        name, rest = text.split("=", 1)
        programs.append(Script(name, list(map(absolute, rest.split(","))), options))
    return programs


def measure(row, options):
    """All turns of a row. A side that fails is left out from then on; the turns that it had and what it said are kept."""
    sides, failures = row.sides(), {}
    turns = {name: [] for name in sides}
    for _ in range(options.turns):
        with locked(options.lock):
            for name, action in sides.items():
                if name in failures:
                    continue
                try:
                    turns[name].append({"side": name, **quiet_turn(action, options.others, options.tries)})
                except (Failed, LookupError, ValueError) as failure:  # the latter two: the output is not what it should be
                    failures[name] = f"{type(failure).__name__}: {failure}"
    return turns, failures


def describe_machine(options):
    cpu, isa = results.processor(), os.environ.get("NVLLM_ISA")
    return {"name": " ".join(filter(None, [options.machine or cpu, isa])), "cpu": cpu, "cores": os.cpu_count(),
            "threads": options.threads, "commit": results.commit(), "date": time.strftime("%Y-%m-%d"), "arguments": sys.argv[1:],
            "model": options.checkpoint.name, "isa": isa or "as the processor has"}


def write(name, rows, options):
    """The new row as lines of the results, and all rows so far as the raw record."""
    if options.results:
        results.append(options.results, result_lines(describe_machine(options), {name: rows[name]}, options.others))
    if options.output:
        whole = {"machine": describe_machine(options), "rows": rows}
        pathlib.Path(f"{options.output}.json").write_text(json.dumps(whole, indent=1) + "\n")
        pathlib.Path(f"{options.output}.md").write_text(table(rows, options.others))
        pathlib.Path(f"{options.output}.svg").write_text(chart(rows))


def main():
    options = arguments()
    programs, rows = programs_of(options), {}
    ours = {program.checkpoint for program in programs if isinstance(program, Ours)}
    weights = [options.gguf, *(file for folder in ours for file in folder.glob("*.safetensors"))]
    for path in weights:
        subprocess.run(["cat", path], stdout=subprocess.DEVNULL, check=True)  # into the page cache
    for fault in hold(weights):
        print(f"not held in memory, so it may be read anew: {fault}", file=sys.stderr)
    for row in [make_row(name, programs, options) for name in options.rows.split(",")]:
        begin = time.monotonic()
        rows[row.name] = row_result(row, *measure(row, options))
        said = line(row.name, rows[row.name], list(rows[row.name]["sides"]), options.others)
        print(f"{said} {time.monotonic() - begin:.0f} s", *rows[row.name]["failures"].items(), file=sys.stderr, flush=True)
        write(row.name, rows, options)
    print(table(rows, options.others), end="")


if __name__ == "__main__":
    main()
