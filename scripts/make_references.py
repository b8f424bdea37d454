#!/usr/bin/env python3
"""Writes docs/reference/: the options of every program from its --help, and the HTTP interface from /openapi.json of a server.

Usage: make_references.py [--bin build/release/bin] [--check]
--check writes nothing, and ends with 1 if a page is not what the programs say.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[1]
FOLDER = SOURCE / "docs" / "reference"
PROGRAMS = ["nvllm-run", "nvllm-serve", "nvllm-quantize", "nvllm-bench", "nvllm-inspect"]
GENERATED = "<!-- Written by scripts/make_references.py. Do not edit. -->"
# Sections that are longer than this many lines are written once, in the page of nvllm-run.
MAX_REPEATED_LINES = 6


def environment():
    return {**{key: value for key, value in os.environ.items() if not key.startswith("NVLLM_")}, "COLUMNS": "80"}


def help_of(bin_folder, program, command=None):
    words = [bin_folder / program, *([command] if command else []), "--help"]
    return subprocess.run(words, capture_output=True, text=True, check=True, env=environment(), cwd=SOURCE).stdout


def sections(text):
    """The parts of a help text between empty lines."""
    return re.split(r"\n\s*\n", text.rstrip("\n"))


def commands_of(text):
    """The names below "Commands:" of a help text."""
    listed = next((section for section in sections(text) if section.startswith("Commands:\n")), "")
    return re.findall(r"^  (\S+)", listed, re.MULTILINE)


def without_known(text, known):
    """The help with long sections that another page has left out, and named instead."""
    parts = []
    for section in sections(text):
        lines = section.splitlines()
        if section in known and len(lines) > MAX_REPEATED_LINES:
            parts.append(f"{lines[0].rstrip(':')}: as in nvllm-run.")
        else:
            parts.append(section)
    return "\n\n".join(parts)


def program_page(bin_folder, program, known):
    parts = [f"# {program}", "", GENERATED, "", f"What `{program} --help` says. [All references](README.md)."]
    whole = help_of(bin_folder, program)
    commands = commands_of(whole)
    if commands:
        parts += ["", "```text", whole.rstrip("\n"), "```"]
        for command in commands:
            text = without_known(help_of(bin_folder, program, command), known)
            parts += ["", f"## {program} {command}", "", "```text", text, "```"]
    else:
        text = whole if program == "nvllm-run" else without_known(whole, known)
        parts += ["", "```text", text.rstrip("\n"), "```"]
    return "\n".join(parts) + "\n"


@contextlib.contextmanager
def demo_server(bin_folder, *arguments):
    """The address of a server of the bundled model, which is started and ended."""
    log = subprocess.Popen([bin_folder / "nvllm-serve", "models/demo", "--port", "0", *arguments], stderr=subprocess.PIPE, text=True,
                           env=environment(), cwd=SOURCE)
    try:
        url = next((match.group(1) for line in log.stderr if (match := re.search(r"listening at (\S+)", line))), None)
        if url is None:
            raise SystemExit(f"nvllm-serve ended with {log.wait()} before it listened")
        yield url
    finally:
        log.terminate()
        log.stderr.close()
        log.wait()


def get(url, headers={}):
    """The body of a response; waits for a server that has just started."""
    for _ in range(100):
        try:
            return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10).read().decode()
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"nvllm-serve gave no {url}")


def document(bin_folder):
    """openapi.json of a server of the bundled model."""
    with demo_server(bin_folder) as url:
        return json.loads(get(f"{url}/openapi.json"))


def reference_name(schema):
    return schema["$ref"].rpartition("/")[2]


def type_of(schema):
    """The type of a JSON schema in words."""
    if "$ref" in schema:
        name = reference_name(schema)
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_of(option) for option in schema["anyOf"] if option.get("type") != "null")) or "null"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"] if value is not None) or "null"
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if schema.get("type") == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    return schema.get("type", "any")


def bounds_of(schema):
    options = [option for option in schema.get("anyOf", [schema]) if option.get("type") in ("integer", "number")]
    if not options:
        return ""
    option = options[0]
    low = option.get("minimum", option.get("exclusiveMinimum"))
    high = option.get("maximum", option.get("exclusiveMaximum"))
    above = "above " if "exclusiveMinimum" in option else ""
    if low is None or abs(low) >= 2**31 - 1:
        return "" if high is None or high >= 2**31 - 1 else f"at most {high:g}"
    return f"{above}{low:g} or more" if high is None or high >= 2**31 - 1 else f"{above}{low:g} to {high:g}"


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def request_table(schema):
    required = schema.get("required", [])
    yield "| field | type | range | default | what it does |"
    yield "|---|---|---|---|---|"
    for name, field in schema["properties"].items():
        default = f"`{json.dumps(field['default'])}`" if "default" in field else "required" if name in required else ""
        use = field.get("x-nvllm-use", "full")
        said = field.get("description", "") + ("" if use == "full" else f" ({use})")
        yield f"| `{name}` | {cell(type_of(field))} | {bounds_of(field)} | {cell(default)} | {cell(said)} |"


def fields_of(schema, path=""):
    """(name with its path, type, is required) of a response's fields; objects and lists of objects are opened."""
    for name, field in schema.get("properties", {}).items():
        options = field.get("anyOf", [field])
        yield f"{path}{name}", type_of(field), name in schema.get("required", [])
        for option in options:
            if option.get("properties"):
                yield from fields_of(option, f"{path}{name}.")
            elif option.get("type") == "array" and option.get("items", {}).get("properties"):
                yield from fields_of(option["items"], f"{path}{name}[].")


def response_table(schema):
    yield "| field | type | always there |"
    yield "|---|---|---|"
    for name, kind, is_required in fields_of(schema):
        yield f"| `{name}` | {cell(kind)} | {'yes' if is_required else 'no'} |"


def alternatives_table(schema):
    """One row for each shape that a value may have."""
    yield "| one of | fields |"
    yield "|---|---|"
    for option in schema["anyOf"]:
        fields = "; ".join(f"`{name}`: {kind}" for name, kind, _ in fields_of(option))
        kind = type_of(option["properties"]["type"]) if "type" in option.get("properties", {}) else type_of(option)
        yield f"| {cell(kind)} | {cell(fields)} |"


def routes_table(paths):
    yield "| route | what | request | response |"
    yield "|---|---|---|---|"
    for path, operations in paths.items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            answers = operation["responses"].get("200", {}).get("content", {})
            kinds = [type_of(answer["schema"]) if kind in ("application/json", "text/event-stream") else f"`{kind}`"
                     for kind, answer in answers.items()]
            yield f"| `{method.upper()} {path}` | {cell(operation['summary'])} | {type_of(content) if content else ''} | {cell('; '.join(kinds))} |"


def limits_table(limits):
    yield "| flag | limit | default | range | beyond it |"
    yield "|---|---|---|---|---|"
    for limit in limits:
        cells = [f"`{limit['flag']}`", *(limit.get(key) or "" for key in ("description", "default", "range", "beyond"))]
        yield "| " + " | ".join(map(cell, cells)) + " |"


def http_page(openapi):
    schemas = openapi["components"]["schemas"]
    parts = ["# HTTP reference", "", GENERATED, "",
             "What `/openapi.json` of `nvllm-serve` says. [Serving](../serving.md) explains it. [All references](README.md).", "",
             "## Routes", "", *routes_table(openapi["paths"]), "",
             "A response with an error has the body [Error](#error). A stream ends with `[DONE]`, or with an error event.", "",
             "## Limits", "", *limits_table(openapi["x-nvllm-limits"])]
    for name, schema in schemas.items():
        if "anyOf" in schema:
            parts += ["", f"## {name}", "", *alternatives_table(schema)]
        if "properties" not in schema:
            continue
        is_request = name.endswith("Request")
        parts += ["", f"## {name}", "", *((request_table if is_request else response_table)(schema))]
    return "\n".join(parts) + "\n"


def index_page():
    lines = ["# References", "", GENERATED, "", "| page | what |", "|---|---|"]
    lines += [f"| [{program}]({program}.md) | the help of `{program}`, with its commands |" for program in PROGRAMS]
    lines.append("| [HTTP](http.md) | routes, fields of requests and responses, limits of `nvllm-serve` |")
    return "\n".join(lines) + "\n"


def pages(bin_folder):
    known = set(sections(help_of(bin_folder, "nvllm-run")))
    return {"README.md": index_page(), "http.md": http_page(document(bin_folder)),
            **{f"{program}.md": program_page(bin_folder, program, known) for program in PROGRAMS}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build" / "release" / "bin")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found = pages(options.bin.absolute())
    stale = [name for name, text in found.items() if not (FOLDER / name).exists() or (FOLDER / name).read_text() != text]
    if options.check:
        sys.exit(f"not current: {', '.join(stale)}; run scripts/make_references.py" if stale else 0)
    FOLDER.mkdir(exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(found[name])
    print(f"written: {', '.join(stale) or 'nothing, all current'}")


if __name__ == "__main__":
    main()
