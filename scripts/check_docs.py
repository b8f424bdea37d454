#!/usr/bin/env python3
"""Whether the documents hold: links and paths exist, pages keep their length, results.csv is whole, and charts are drawn from it.

Usage: check_docs.py
Names each fault with file and line, and ends with 1 if there is any. Needs nothing but Python; tests/end_to_end/test_references.py
checks the pages that are written from the programs.
"""

import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE / "scripts" / "measure"))

import results  # noqa: E402

MAX_LINES = {"README.md": 130, "ARCHITECTURE.md": 200, "docs/performance.md": 200}
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"`((?:lib|kernels|tools|scripts|tests|docs|cmake|deploy)/[\w./-]*[\w/])`")
HEADING = re.compile(r"#{1,6} +(.*)")


def documents():
    folders = [SOURCE, *(SOURCE / name for name in ("docs", "deploy", "models", "scripts"))]
    return sorted({file for folder in folders for file in (folder.glob("*.md") if folder == SOURCE else folder.rglob("*.md"))})


def prose(text):
    """(number, line) of what is outside of code blocks."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, line


def anchors(file):
    """The names that GitHub gives to the headings."""
    seen = {}
    for _, line in prose(file.read_text()):
        if found := HEADING.fullmatch(line):
            name = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", found.group(1)).strip().lower()
            name = re.sub(r"[^\w\- ]", "", name).replace(" ", "-")
            count = seen.get(name, 0)
            seen[name] = count + 1
            yield f"{name}-{count}" if count else name


def link_fault(file, target):
    """What is wrong with a link, or nothing; links to other sites are not followed."""
    if re.match(r"[a-z]+:", target):
        return None
    path, _, anchor = target.partition("#")
    goal = (file.parent / path).resolve() if path else file
    if not goal.exists():
        return f"leads to {target}, which does not exist"
    if anchor and goal.suffix == ".md" and anchor not in set(anchors(goal)):
        return f"leads to {target}, but {goal.name} has no such heading"
    return None


def link_faults():
    for file in documents():
        for number, line in prose(file.read_text()):
            for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
                if fault := link_fault(file, target):
                    yield f"{file.relative_to(SOURCE)}:{number}: the link {fault}"


def path_faults():
    """Files of the project that a page names and that do not exist. foo stands for a name to be chosen; CHANGELOG.md names old files."""
    for file in documents():
        if file.name == "CHANGELOG.md":
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            for path in PATH.findall(line):
                if "/foo" not in path and not (SOURCE / path).exists():
                    yield f"{file.relative_to(SOURCE)}:{number}: {path} does not exist"


def length_faults():
    for name, bound in MAX_LINES.items():
        count = len((SOURCE / name).read_text().splitlines())
        if count > bound:
            yield f"{name}: {count} lines; at most {bound}"


def index_faults():
    """Pages of docs/ that no link of docs/README.md or of a page that it names leads to."""
    index = SOURCE / "docs" / "README.md"
    reached, pending = set(), [index]
    while pending:
        file = pending.pop()
        if file in reached:
            continue
        reached.add(file)
        targets = [target.partition("#")[0] for _, line in prose(file.read_text()) for target in LINK.findall(line)]
        pending += [goal for target in targets if target and (goal := (file.parent / target).resolve()).suffix == ".md" and goal.exists()]
    for file in sorted((SOURCE / "docs").rglob("*.md")):
        if file not in reached:
            yield f"{file.relative_to(SOURCE)}: no link from docs/README.md leads here"


def result_faults():
    lines = results.FILE.read_text().splitlines()
    if lines[0] != ",".join(results.FIELDS):
        yield f"docs/results.csv: the columns are not {','.join(results.FIELDS)}"
    for number, line in enumerate(results.read(), 2):
        if None in line or None in line.values():
            yield f"docs/results.csv:{number}: not {len(results.FIELDS)} fields"
        elif not re.fullmatch(r"\d{4}-\d\d-\d\d", line["date"]) or not re.fullmatch(r"[0-9a-f]{7,40}|", line["commit"]):
            yield f"docs/results.csv:{number}: date {line['date']!r} or commit {line['commit']!r} is none"


def chart_faults():
    done = subprocess.run([sys.executable, "-B", SOURCE / "scripts" / "measure" / "speed_charts.py", "--check"], capture_output=True,
                          text=True)
    if done.returncode != 0:
        yield f"docs/pictures: {done.stderr.strip()}"


def main():
    faults = [fault for find in (link_faults, path_faults, length_faults, index_faults, result_faults, chart_faults) for fault in find()]
    print("\n".join([*faults, f"docs: {len(documents())} pages, {len(faults)} faults"]))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
