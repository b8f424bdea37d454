"""docs/results.csv: one line for each measured value beside one peer, and how numbers are written there.

The columns: when and with which commit; the machine; the model and how its weights are stored; the workload; what was measured and
in which unit; our value, its range over the turns, and its share of the machine's limit in percent; the peer and the same of it.
A value that was measured beside several peers has a line for each of them. An empty field was not measured.
"""

import csv
import pathlib
import re
import subprocess

FILE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results.csv"
FIELDS = ["date", "commit", "machine", "model", "workload", "metric", "unit", "ours", "ours_range", "ours_limit", "peer", "theirs",
          "theirs_range", "theirs_limit", "turns", "note"]


def number(value):
    """Four digits, or all digits before the point."""
    if value is None or value == "":
        return ""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def span(low, high):
    return "" if low is None or low == high else f"{number(low)}..{number(high)}"


def percent(share):
    return "" if share is None else f"{100 * share:.0f}"


def commit():
    done = subprocess.run(["git", "-C", FILE.parent, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip()


def processor():
    return re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text()).group(1)


def line(**fields):
    """A line with every field; an unknown field is a mistake of the caller."""
    unknown = set(fields) - set(FIELDS)
    if unknown:
        raise ValueError(f"no such column: {', '.join(sorted(unknown))}")
    return {field: fields.get(field, "") for field in FIELDS}


def read(path=FILE):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def append(path, lines):
    """Adds lines to a file of results, which is made with its head line if it does not exist."""
    path = pathlib.Path(path)
    is_new = not path.exists()
    with open(path, "a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(lines)
