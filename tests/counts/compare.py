#!/usr/bin/env python3
"""Compares instructions that callgrind counted with those that were written down, or writes them down.

Exit status 1: a case takes more instructions than the tolerance allows, is new, or is gone.
"""
import argparse
import json
import pathlib
import sys

TOLERANCE = 0.02
# Another compiler, C library or valgrind: the figures mean little, only what is gross is seen.
WIDE_TOLERANCE = 0.25
REQUEST = "desc: Trigger: Client Request: "


def read_dumps(path, counts):
    """A part for each case; the last one, of the process's end, names none."""
    name = None
    with open(path) as file:
        for line in file:
            if line.startswith("part: "):
                name = None
            elif line.startswith(REQUEST):
                name = line[len(REQUEST):].strip()
                if name in counts:
                    sys.exit(f"Two cases are called '{name}'.")
            elif line.startswith("totals: ") and name is not None:
                counts[name] = int(line.split()[1])


def read_counts(folder):
    """Case -> instructions, by name, from all files of a folder."""
    counts = {}
    for path in pathlib.Path(folder).iterdir():
        read_dumps(path, counts)
    if not counts:
        sys.exit(f"{folder} has no counts.")
    return dict(sorted(counts.items()))


def verdict(before, now, tolerance):
    if before is None:
        return "new"
    if now is None:
        return "gone"
    if now > before * (1 + tolerance):
        return "MORE"
    return "less" if now < before * (1 - tolerance) else ""


def row_of(name, before, now, word):
    change = f"{100 * (now / before - 1):+.2f} %" if before and now else ""
    return f"{name:<58} {before or '-':>12} {now or '-':>12} {change:>10} {word}"


def compare(expected, counts, tolerance):
    """The rows of cases that changed by more than a twentieth of the tolerance, and the verdicts on all."""
    rows, words = [], []
    for name in sorted(expected.keys() | counts.keys()):
        before, now = expected.get(name), counts.get(name)
        word = verdict(before, now, tolerance)
        words.append(word)
        if word or abs(now - before) > before * tolerance / 20:
            rows.append(row_of(name, before, now, word))
    return rows, words


def choose_tolerance(written_with, tools):
    if written_with == tools:
        return TOLERANCE
    for name in sorted(written_with.keys() | tools.keys()):
        if written_with.get(name) != tools.get(name):
            print(f"{name} is '{tools.get(name)}'; expected counts are of '{written_with.get(name)}'.")
    print(f"The counts are NOT COMPARABLE: only changes of more than {WIDE_TOLERANCE:.0%} are judged.")
    return WIDE_TOLERANCE


def judge(expected, counts, tools):
    tolerance = choose_tolerance(expected["tools"], tools)
    rows, words = compare(expected["instructions"], counts, tolerance)
    if rows:
        print(f"{'case':<58} {'expected':>12} {'counted':>12} {'change':>10}")
    for row in rows:
        print(row)
    bad = sum(word in ("MORE", "new", "gone") for word in words)
    print(f"{len(counts)} cases, {len(rows)} changed, {bad} wrong; tolerance {tolerance:.0%}")
    if bad:
        print("If that is meant, run scripts/check_counts.sh --update and say in the commit why.")
        return 1
    if "less" in words:
        print("Notice: fewer instructions than expected. Keep the better figures: scripts/check_counts.sh --update")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dumps", help="the folder of callgrind's output")
    parser.add_argument("expected", help="JSON: tools, instructions")
    parser.add_argument("--tool", action="append", default=[], metavar="NAME=VERSION")
    parser.add_argument("--update", action="store_true", help="write the counts to the expected ones")
    arguments = parser.parse_args()
    counts = read_counts(arguments.dumps)
    tools = dict(tool.split("=", 1) for tool in arguments.tool)
    if not arguments.update:
        with open(arguments.expected) as file:
            return judge(json.load(file), counts, tools)
    with open(arguments.expected, "w") as file:
        json.dump({"tools": tools, "instructions": counts}, file, indent=1)
        file.write("\n")
    print(f"{len(counts)} cases written to {arguments.expected}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
