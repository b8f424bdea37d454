#!/usr/bin/env python3
"""Counts what makes the code hard to read, prints the counts, and exits 1 where one is over its bound.

 - old words: names, comments and texts that docs/glossary.md replaced by the field's words
 - the largest class (public and private methods), the longest function (lines), the largest folder (units)
 - homes of sampling fields: lists that name each field; op signatures: declarations of each op

Needs universal-ctags. Usage: check_house.py [ROOT]
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

# Names in texts are public: flags, keys of JSON, metrics.
TEXT = re.compile(r'"(?:\\.|[^"\\])*"')

MAX_METHODS = 25
MAX_LINES = 60
MAX_UNITS = 25
SOURCES = (".h", ".cc", ".cu")

# Classes with more methods than the bound, and why.
LARGE_CLASSES = {
    "nvllm::cpu::Scalar": "the vector operations of an instruction set",
    "nvllm::cpu::Avx2": "the vector operations of an instruction set",
    "nvllm::cpu::Avx512": "the vector operations of an instruction set",
    "nvllm::chat::Parser": "a method a rule of Jinja's grammar",
    "nvllm::chat::Interpreter": "a method a kind of Jinja's statements and expressions",
    "nvllm::chat::Value": "Jinja's value with its conversions",
    "nvllm::gpu::emulation::Scheduler": "the execution model of a GPU: a method an event",
    "nvllm::CacheManager": "the façade of lib/cache: a call of each part",
    "nvllm::BlockPool": "short queries",
    "nvllm::PrefixIndex": "short queries",
    "nvllm::Sequence": "a method a lawful step of a sequence",
    "nvllm::Tokenizer": "short queries",
    "nvllm::WeightSource": "reading of weights, whole and by slices: to be split",
    "nvllm::QuantizedReader": "reading of every quantized format: to be split",
    "nvllm::quantize::Pipeline": "the run block by block: to be split",
    "nvllm::server::Connection": "one HTTP connection under deadlines: to be split",
}
# Functions over the bound, and why.
LONG_FUNCTIONS = {"paged_attention": "the CPU's work items of attention: to be split"}

# Words that were replaced. Each is looked for as a whole word in names and comments, without regard to case.
OLD_WORDS = {
    "newcomer": "waiting sequence", "newcomers": "waiting sequences", "let_in": "try_admit", "untold": "unsent", "tapered": "guided",
    "slab": "chunk", "joined_matmul": "fused_matmul", "publish_next_block": "insert_next_block", "outline": "metadata",
    "adopter": "hook", "verdict": "stop decision", "verdicts": "stop decisions", "whoever": "the noun", "somebody": "the noun",
    "nobody": "the noun", "doorbell": "event", "living": "active", "stretch": "K-block",
    "figures": "stats or metrics", "facts": "info", "depart": "remove", "departure": "removal",
}


def run(root, *command):
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout


def tags(root):
    out = run(root, "ctags", "--output-format=json", "--languages=C++", "--langmap=C++:+.cu.h.cc", "--kinds-C++=fp",
              "--fields=+neKs", "-f", "-", "-R", "kernels", "lib", "tools")
    return [json.loads(line) for line in out.splitlines()]


def class_faults(found):
    methods = collections.Counter(tag["scope"] for tag in found
                                  if tag.get("scopeKind") in ("class", "struct") and tag["path"].endswith(".h"))
    name, largest = max(((n, c) for n, c in methods.items() if n not in LARGE_CLASSES), key=lambda pair: pair[1])
    over = {n: c for n, c in methods.items() if c > MAX_METHODS}
    print(f"largest class: {name}, {largest} methods; {len(over)} named exceptions over {MAX_METHODS}")
    faults = [f"{n}: {c} methods; {MAX_METHODS} at most" for n, c in over.items() if n not in LARGE_CLASSES]
    return faults + [f"LARGE_CLASSES names {n}, which is not large" for n in LARGE_CLASSES if n not in over]


def function_faults(found):
    lengths = {(tag["path"], tag["name"]): tag["end"] - tag["line"] + 1 for tag in found if tag["kind"] == "function" and "end" in tag}
    over = {key: n for key, n in lengths.items() if n > MAX_LINES}
    (path, name), lines = max(((key, n) for key, n in lengths.items() if key[1] not in LONG_FUNCTIONS), key=lambda pair: pair[1])
    print(f"longest function: {name} of {path}, {lines} lines; {len(over)} over {MAX_LINES}")
    faults = [f"{p}: {n} has {c} lines; {MAX_LINES} at most" for (p, n), c in over.items() if n not in LONG_FUNCTIONS]
    return faults + [f"LONG_FUNCTIONS names {n}, which is not long" for n in LONG_FUNCTIONS if all(n != key[1] for key in over)]


def folder_faults(root):
    units = collections.defaultdict(set)
    for top in ("kernels", "lib", "tools"):
        for path in (root / top).rglob("*"):
            if path.suffix in SOURCES:
                units[path.parent.relative_to(root).as_posix()].add(path.stem)
    folder = max(units, key=lambda key: len(units[key]))
    print(f"largest folder: {folder}, {len(units[folder])} units")
    return [f"{key}: {len(names)} units; {MAX_UNITS} at most" for key, names in units.items() if len(names) > MAX_UNITS]


def word_faults(root):
    pattern = re.compile(r"(?<![A-Za-z])(" + "|".join(OLD_WORDS) + r")(?![A-Za-z])", re.I)
    faults = []
    for path in run(root, "git", "ls-files", "kernels", "lib", "tools").splitlines():
        if not path.endswith(SOURCES) or not (root / path).is_file():
            continue
        for number, line in enumerate((root / path).read_text().splitlines(), 1):
            for match in pattern.finditer(TEXT.sub('""', line)):
                faults.append(f"{path}:{number}: \"{match[1]}\": write {OLD_WORDS[match[1].lower()]}")
    print(f"old words: {len(faults)}")
    return faults


def check(root):
    found = tags(root)
    faults = class_faults(found) + function_faults(found) + folder_faults(root) + word_faults(root)
    print("\n".join(faults + [f"house: {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(check(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent))
