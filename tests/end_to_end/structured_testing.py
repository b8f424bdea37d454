"""JSON schemas made by a seed, and a check of answers against them; shared by the tests of structured output."""

import json
import random
import re

# Of numbers, whose fractions have as many digits as the model likes, none but integers: answers must come to an end.
PATTERNS = ("^[a-z]{1,6}$", "^(red|green|blue)-[0-9]{2}$", "^[A-F0-9]{4}$")
FORMATS = {"date": r"\d{4}-\d{2}-\d{2}", "uuid": r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"}
NAMES = ("name", "age", "tags", "kind", "size", "note", "place", "color")


def random_schema(source, depth=0):
    kinds = ["text", "pattern", "enum", "const", "integer", "boolean", "null", "format"]
    kinds += ["object", "object", "array", "any"] if depth < 2 else []
    kind = source.choice(kinds if depth else ["object", "object", "array"])
    if kind == "text":
        return {"type": "string", "minLength": source.randint(0, 2), "maxLength": source.randint(3, 12)}
    if kind == "pattern":
        return {"type": "string", "pattern": source.choice(PATTERNS)}
    if kind == "enum":
        return {"enum": source.sample(["one", "two", 3, True, None, "é", 'a"b'], source.randint(1, 4))}
    if kind == "const":
        return {"const": source.choice(["fixed", 5, False, {"a": [1, None]}])}
    if kind == "integer":
        least = source.randint(-50, 50)
        return {"type": "integer", "minimum": least, "maximum": least + source.randint(0, 2000)}
    if kind == "format":
        return {"type": "string", "format": source.choice(sorted(FORMATS))}
    if kind == "array":
        least = source.randint(0, 2)
        return {"type": "array", "items": random_schema(source, depth + 1), "minItems": least,
                "maxItems": least + source.randint(0, 2)}
    if kind == "any":
        return {"anyOf": [random_schema(source, depth + 1) for _ in range(source.randint(2, 3))]}
    if kind in ("boolean", "null"):
        return {"type": kind}
    names = source.sample(NAMES, source.randint(1, 4))
    return {"type": "object", "properties": {name: random_schema(source, depth + 1) for name in names},
            "required": [name for name in names if source.random() < 0.7], "additionalProperties": False}


# Definitions that are used twice. None refers to itself: at a high temperature such answers hardly ever end.
TREE = {"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}, "other": {"$ref": "#/$defs/leaf"}},
        "required": ["root"], "additionalProperties": False,
        "$defs": {"leaf": {"type": "string", "maxLength": 4},
                  "node": {"type": "object", "required": ["leaf"], "additionalProperties": False,
                           "properties": {"leaf": {"$ref": "#/$defs/leaf"}, "next": {"$ref": "#/$defs/leaf"}}}}}


def schemas(count, seed=0):
    source = random.Random(seed)
    return [TREE] + [random_schema(source) for _ in range(count - 1)]


def is_of_type(value, name):
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
             "number": (int, float)}
    return isinstance(value, kinds[name]) and (name in ("boolean", "null") or not isinstance(value, bool))


def same(one, other):
    """As JSON has it: true is not 1."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def complaint(value, schema, root=None):
    """Why a value is not what the schema says, or None: for the keywords above alone."""
    root = schema if root is None else root
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        return complaint(value, target, root)
    if "anyOf" in schema and all(complaint(value, one, root) for one in schema["anyOf"]):
        return f"{value!r} is none of {schema['anyOf']}"
    if "enum" in schema and not any(same(value, one) for one in schema["enum"]):
        return f"{value!r} is not in {schema['enum']}"
    if "const" in schema and not same(value, schema["const"]):
        return f"{value!r} is not {schema['const']!r}"
    if "type" in schema and not is_of_type(value, schema["type"]):
        return f"{value!r} is no {schema['type']}"
    return complaint_of_parts(value, schema, root)


def complaint_of_parts(value, schema, root):
    if isinstance(value, str):
        is_long_enough = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
        matches = re.search(schema.get("pattern", ""), value) and re.fullmatch(FORMATS.get(schema.get("format"), r"[\s\S]*"), value)
        return None if is_long_enough and matches else f"{value!r} is not as {schema}"
    if isinstance(value, int):
        return None if schema.get("minimum", value) <= value <= schema.get("maximum", value) else f"{value} is not in {schema}"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return f"{len(value)} items are not as {schema}"
        return next(filter(None, (complaint(one, schema.get("items", {}), root) for one in value)), None)
    if isinstance(value, dict) and "properties" in schema:
        missing = set(schema.get("required", ())) - set(value)
        unknown = set(value) - set(schema["properties"])
        if missing or (unknown and schema.get("additionalProperties") is False):
            return f"{sorted(missing)} are missing, {sorted(unknown)} are too many"
        known = (complaint(one, schema["properties"].get(name, {}), root) for name, one in value.items())
        return next(filter(None, known), None)
    return None


def fault_of(text, schema):
    """Why a text is no answer under the schema, or None."""
    try:
        return complaint(json.loads(text), schema)
    except ValueError as error:
        return f"{text!r} is no JSON: {error}"
