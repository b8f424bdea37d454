#!/usr/bin/env python3
"""What each CUDA kernel takes of a multiprocessor, for each architecture, as ptxas says: registers, shared memory, spills.

Usage: resource_usage.py [--architectures 80,86,89,90a,100a,120a] [--jobs 2] [--output NAME] [FILE.cu ...]
Compiles every kernels/cuda/*.cu with all warnings as errors. Writes NAME.json and NAME.md (build/cuda-resources), and ends with 1 when a
kernel spills registers or does not compile. Needs nvcc and c++filt.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\w+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, default=sorted((SOURCE / "kernels" / "cuda").glob("*.cu")))
    parser.add_argument("--architectures", default="80,86,89,90a,100a,120a")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=pathlib.Path, default=SOURCE / "build" / "cuda-resources")
    return parser.parse_args()


def compiled(nvcc, file, architecture, folder):
    """What ptxas says of a file, the size of the object, and the seconds it took."""
    target = folder / f"{file.stem}.{architecture}.o"
    begin = time.monotonic()
    done = subprocess.run([nvcc, "-c", "-std=c++20", "-O3", "--expt-relaxed-constexpr", "-Xptxas", "-v", "-Werror", "all-warnings",
                           "-Xcompiler", "-Wall", "-gencode", f"arch=compute_{architecture},code=sm_{architecture}", f"-I{SOURCE}",
                           "-o", target, file], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{file.name} for {architecture}:\n{done.stdout}{done.stderr}")
    return done.stderr, target.stat().st_size, time.monotonic() - begin


def kernels_of(text):
    """(mangled name, figures) of each kernel in the output of ptxas."""
    name, spills = None, 0
    for line in text.splitlines():
        if found := ENTRY.search(line):
            name = found.group(1)
        elif found := SPILLS.search(line):
            spills = int(found.group(1)) + int(found.group(2))
        elif (found := USED.search(line)) and name:
            shared = SHARED.search(line)
            yield name, {"registers": int(found.group(1)), "spilled_bytes": spills, "shared_bytes": int(shared.group(1)) if shared else 0}
            name, spills = None, 0


def plain_name(said):
    """Without namespaces, casts of enumerators, result and parameters."""
    text = re.sub(r"\(anonymous namespace\)::|nvllm::(cuda|gpu)?(::)?", "", said)
    return re.sub(r"\([\w:]+\)(?=\d)", "", text).split("(")[0].removeprefix("void ")


def plain_names(mangled):
    said = subprocess.run(["c++filt"], input="\n".join(mangled), capture_output=True, text=True, check=True).stdout.splitlines()
    return {name: plain_name(text) for name, text in zip(mangled, said)}


def table(kernels, sizes, seconds, architectures):
    lines = ["# Registers of the CUDA kernels", "", "`scripts/gpu/resource_usage.py`. Of each kernel: registers of a thread; + and the bytes that "
             "spill, where any do.", "", "| kernel | shared bytes | " + " | ".join(architectures) + " |",
             "|---|---|" + "---|" * len(architectures)]
    for name, by_architecture in sorted(kernels.items()):
        cells = []
        for architecture in architectures:
            figures = by_architecture.get(architecture)
            spilled = f" + {figures['spilled_bytes']}" if figures and figures["spilled_bytes"] else ""
            cells.append(f"{figures['registers']}{spilled}" if figures else "")
        shared = max(figures["shared_bytes"] for figures in by_architecture.values())
        lines.append(f"| {name} | {shared} | " + " | ".join(cells) + " |")
    lines += ["", "| | " + " | ".join(architectures) + " |", "|---|" + "---|" * len(architectures)]
    lines.append("| objects, KiB | " + " | ".join(f"{sizes[a] / 1024:.0f}" for a in architectures) + " |")
    lines.append("| compiling, s | " + " | ".join(f"{seconds[a]:.0f}" for a in architectures) + " |")
    return "\n".join(lines) + "\n"


def main():
    options = arguments()
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    architectures = options.architectures.split(",")
    work = [(file, architecture) for architecture in architectures for file in options.files]
    found, sizes, seconds = collections.defaultdict(dict), collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda pair: compiled(nvcc, *pair, pathlib.Path(folder)), work)
        for (file, architecture), (text, size, took) in zip(work, results):
            sizes[architecture] += size
            seconds[architecture] += took
            for name, figures in kernels_of(text):
                found[name][architecture] = {**figures, "file": file.name}
    names = plain_names(list(found))
    kernels = {names[name]: figures for name, figures in found.items()}
    whole = {"kernels": kernels, "object_bytes": sizes, "compile_seconds": seconds}
    options.output.with_suffix(".json").write_text(json.dumps(whole, indent=1, sort_keys=True) + "\n")
    options.output.with_suffix(".md").write_text(table(kernels, sizes, seconds, architectures))
    spilling = [f"{name} on {a}: {f['spilled_bytes']} bytes" for name, by in kernels.items() for a, f in by.items() if f["spilled_bytes"]]
    print("\n".join([f"{len(kernels)} kernels, {len(architectures)} architectures, {len(spilling)} spill", *spilling]))
    sys.exit(1 if spilling else 0)


if __name__ == "__main__":
    main()
