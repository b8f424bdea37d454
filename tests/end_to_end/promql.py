"""Finds what a Prometheus query asks for: metrics, the labels it selects by, and the labels it groups by. No evaluation."""

import re
from dataclasses import dataclass, field

KEYWORDS = {"and", "or", "unless", "offset", "bool", "inf", "nan", "Inf", "NaN"}
GROUPERS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
TOKEN = re.compile(r"""
    (?P<space>\s+)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<range>\[[^\]]*\])
  | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+|ms|[smhdwy])?)
  | (?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)
  | (?P<operator>=~|!~|!=|==|>=|<=|[-+*/%^<>=(){},@])
""", re.VERBOSE)


@dataclass
class Selector:
    metric: str
    matchers: list = field(default_factory=list)  # (label, operator, value)


@dataclass
class Query:
    selectors: list = field(default_factory=list)
    grouping: set = field(default_factory=set)


class PromqlError(Exception):
    pass


def tokens(text):
    at = 0
    while at < len(text):
        found = TOKEN.match(text, at)
        if not found:
            raise PromqlError(f"not understood: {text[at:at + 20]!r} in {text!r}")
        at = found.end()
        if found.lastgroup != "space":
            yield found.lastgroup, found.group()


def check_brackets(parts, text):
    open_brackets = []
    for kind, word in parts:
        if kind == "operator" and word in "({":
            open_brackets.append(word)
        elif kind == "operator" and word in ")}":
            if not open_brackets or "({".index(open_brackets.pop()) != ")}".index(word):
                raise PromqlError(f"brackets do not match in {text!r}")
    if open_brackets:
        raise PromqlError(f"brackets are not closed in {text!r}")


def parse(text):
    """The Query; raises PromqlError for what cannot be one."""
    parts = list(tokens(text))
    check_brackets(parts, text)
    query = Query()
    at = 0
    while at < len(parts):
        kind, word = parts[at]
        following = parts[at + 1][1] if at + 1 < len(parts) else ""
        if kind == "name" and word in GROUPERS and following == "(":
            end = next(i for i in range(at, len(parts)) if parts[i][1] == ")")
            query.grouping.update(name for what, name in parts[at + 2:end] if what == "name")
            at = end
        elif kind == "name" and word not in KEYWORDS and word not in GROUPERS and following != "(" and not (
                at + 1 < len(parts) and following in GROUPERS):
            selector = Selector(word)
            query.selectors.append(selector)
            if following == "{":
                at = read_matchers(parts, at + 2, selector, text)
        at += 1
    if not query.selectors:
        raise PromqlError(f"no metric in {text!r}")
    return query


def read_matchers(parts, at, selector, text):
    while parts[at][1] != "}":
        if at + 2 >= len(parts) or parts[at][0] != "name" or parts[at + 2][0] != "string":
            raise PromqlError(f"a matcher is label=\"value\" in {text!r}")
        if parts[at + 1][1] not in ("=", "!=", "=~", "!~"):
            raise PromqlError(f"no operator of matchers: {parts[at + 1][1]} in {text!r}")
        selector.matchers.append((parts[at][1], parts[at + 1][1], parts[at + 2][1][1:-1]))
        at += 3
        if parts[at][1] == ",":
            at += 1
    return at
