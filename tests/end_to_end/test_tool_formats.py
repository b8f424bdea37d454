"""nvllm-inspect tools: texts of models in, reasoning, content and calls out, whole and one character at a time."""

import json
import pathlib
import subprocess
import tempfile
import unittest

from programs import BIN, SOURCE, environment

TABLE = SOURCE / "tests" / "fixtures" / "output"
TOOLS = json.loads((TABLE / "tools.json").read_text())
NAMES = [tool["function"]["name"] for tool in TOOLS]


def inspect(lines, *arguments, code=0):
    """The answers to the lines (objects, or texts as they are)."""
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    done = subprocess.run([str(BIN / "nvllm-inspect"), "tools", *map(str, arguments)], input=text, capture_output=True, text=True,
                          env=environment(), check=False)
    if done.returncode != code:
        raise AssertionError(f"exit {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


class Formats(unittest.TestCase):
    def test_the_table_by_flags(self):
        cases = [json.loads(line) for line in (TABLE / "cases.jsonl").read_text().splitlines()]
        kinds = {(case["format"], case.get("reasoning_format", "")) for case in cases if case["format"]}
        for name, reasoning in sorted(kinds):
            chosen = [case for case in cases if (case["format"], case.get("reasoning_format", "")) == (name, reasoning)]
            flags = ["--format", name] + (["--reasoning", reasoning] if reasoning else [])
            objects = [{"text": c["text"], "tools": TOOLS, "prompt_end": c.get("prompt_end", "")} for c in chosen]
            named = [{**line, "tools": NAMES} for line in objects]
            whole = inspect(objects, *flags)
            self.assertEqual(whole, inspect(objects, *flags, "--stream"))
            self.assertEqual(whole, inspect(named, *flags, "--tools", TABLE / "tools.json"))
            for case, answer in zip(chosen, whole, strict=True):
                got = [{"name": call["name"], "value": json.loads(call["arguments"])} for call in answer["tool_calls"]]
                self.assertEqual(got, case["expected"]["tool_calls"], (name, case["what"]))
                self.assertEqual(answer["reasoning"], case["expected"]["reasoning"], (name, case["what"]))

    def test_schemas_of_named_tools(self):
        line = {"text": "<function=f><parameter=a>7</parameter></function>", "tools": ["f"]}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tools.json"
            path.write_text(json.dumps({"f": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}}))
            answers = inspect([line], "--format", "qwen3_coder", "--tools", path)
        self.assertEqual(json.loads(answers[0]["tool_calls"][0]["arguments"]), {"a": "7"})
        untyped = inspect([line], "--format", "qwen3_coder")
        self.assertEqual(json.loads(untyped[0]["tool_calls"][0]["arguments"]), {"a": 7})

    def test_without_a_format(self):
        text = '{"name": "f", "arguments": {"a": 1}}'
        call = {"reasoning": None, "content": None, "tool_calls": [{"name": "f", "arguments": '{"a": 1}'}]}
        self.assertEqual(inspect([{"text": text, "tools": ["f"]}]), [call])
        self.assertEqual(inspect([{"text": text}]), [{"reasoning": None, "content": text, "tool_calls": []}])

    def test_wrong_lines_are_answered(self):
        answers = inspect(["{", {"tools": []}, {"text": 3}, {"text": "x", "tools": [{}]}, {"text": "x"}], "--format", "hermes", code=65)
        self.assertEqual(["error" in answer for answer in answers], [True, True, True, True, False])
        self.assertIn("tools[0].name", json.dumps(answers[3]))

    def test_wrong_flags(self):
        inspect([], "--format", "qwen9", code=64)
        inspect([], "--tools", "/no/such/file", code=66)


if __name__ == "__main__":
    unittest.main()
