"""Reads the plain YAML that our operators' files are written in: mappings and lists by indentation, scalars on one line,
quoted or not, and folded blocks. Anything else is an error, so that what passes here is YAML to every reader."""

import re


class YamlError(Exception):
    pass


def load(text):
    """The document as dicts, lists, strings, numbers, booleans and None. Raises YamlError with the line."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if "\t" in line:
            raise YamlError(f"line {number}: a tab")
        lines.append((number, len(line) - len(line.lstrip(" ")), line.strip()))
    reader = _Reader(lines)
    value = reader.block(0)
    reader.skip_blank()
    if reader.at < len(lines):
        raise YamlError(f"line {lines[reader.at][0]}: not part of anything before")
    return value


class _Reader:
    def __init__(self, lines):
        self.lines = lines
        self.at = 0

    def skip_blank(self):
        while self.at < len(self.lines) and (not self.lines[self.at][2] or self.lines[self.at][2].startswith("#")):
            self.at += 1

    def next_indent(self):
        self.skip_blank()
        return self.lines[self.at][1] if self.at < len(self.lines) else -1

    def block(self, least):
        indent = self.next_indent()
        if indent < least:
            return None
        return self.list(indent) if self.lines[self.at][2].startswith("- ") else self.mapping(indent)

    def list(self, indent):
        items = []
        while self.next_indent() == indent and self.lines[self.at][2].startswith("- "):
            number, _, text = self.lines[self.at]
            rest = text[2:].lstrip()
            if re.match(r'[\w.-]+:( |$)', rest):
                # A mapping that begins on the line of the dash goes on below, in the column of its first key.
                column = indent + len(text) - len(rest)
                self.lines[self.at] = (number, column, rest)
                items.append(self.mapping(column))
            else:
                self.at += 1
                items.append(scalar(rest, number))
        return items

    def mapping(self, indent):
        values = {}
        while self.next_indent() == indent:
            number, _, text = self.lines[self.at]
            match = re.match(r'([\w.-]+):(?: +(.*))?$', text)
            if not match:
                raise YamlError(f"line {number}: expected 'key: value', not '{text}'")
            key, rest = match.group(1), match.group(2) or ""
            if key in values:
                raise YamlError(f"line {number}: the key {key} comes twice")
            self.at += 1
            values[key] = self.value(rest, indent, number)
        if self.next_indent() > indent:
            raise YamlError(f"line {self.lines[self.at][0]}: indented deeper than what it could belong to")
        return values

    def value(self, rest, indent, number):
        if rest in (">-", "|-", ">", "|"):
            return self.folded(indent, rest)
        if rest and not rest.startswith("#"):
            return scalar(rest, number)
        return self.block(indent + 1)

    def folded(self, indent, mark):
        parts = []
        while self.at < len(self.lines) and (self.lines[self.at][1] > indent or not self.lines[self.at][2]):
            parts.append(self.lines[self.at][2])
            self.at += 1
        text = (" " if mark.startswith(">") else "\n").join(part for part in parts if part)
        return text if mark.endswith("-") else text + "\n"


def scalar(text, number):
    if text[0] == '"':
        if not re.fullmatch(r'"(?:[^"\\]|\\["\\nt])*"', text):
            raise YamlError(f"line {number}: a string that does not end, or an escape that is not known")
        return re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t"}.get(found.group(1), found.group(1)), text[1:-1])
    if text[0] in "'{[&*!|>%@`":
        raise YamlError(f"line {number}: {text[0]} is not used in our files")
    if ": " in text or " #" in text:
        raise YamlError(f"line {number}: quote this: {text}")
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(r"-?\d+(\.\d+)?", text):
        return float(text) if "." in text else int(text)
    return text
