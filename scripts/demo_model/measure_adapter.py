"""Measures an adapter of the demo model on held-out examples: the share of right answers with it and without, as JSON.

Greedy answers of the built nvllm-run; needs no packages. What is right, adapter_tasks.py says.
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from adapter_tasks import TASKS, examples
from stories import HELD_OUT_SEED

MOST_TOKENS = 400


def answers(arguments, lines, *more):
    with tempfile.TemporaryDirectory() as folder:
        requests = Path(folder, "requests.jsonl")
        requests.write_text("".join(json.dumps(line) + "\n" for line in lines))
        command = [arguments.bin / "nvllm-run", "-m", arguments.target, "--input-format", "jsonl", "--output-format", "jsonl",
                   "-n", str(MOST_TOKENS), "--temperature", "0", "-f", requests, *more]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=sorted(TASKS))
    parser.add_argument("folder", type=Path, help="the adapter")
    parser.add_argument("--target", type=Path, default=Path("models/demo"))
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"))
    parser.add_argument("--examples", type=int, default=200)
    arguments = parser.parse_args()
    task = TASKS[arguments.name]
    drawn = examples(arguments.name, HELD_OUT_SEED + 13, arguments.examples, held_out=True)
    lines = [{"prompt" if isinstance(prompt, str) else "messages": prompt} for prompt, _ in drawn]
    with_it = answers(arguments, [{**line, "adapter": arguments.name} for line in lines], "--lora-modules", f"{arguments.name}={arguments.folder}")
    without = answers(arguments, lines)
    figures = {"examples": len(drawn)}
    for what, given in (("right", with_it), ("right_without", without)):
        right = [task["is_right"](line["text"], answer) for line, (_, answer) in zip(given, drawn, strict=True)]
        figures[what] = sum(right) / len(right)
    sample = answers(arguments, [{"messages": [{"role": "user", "content": task["prompt"]}], "adapter": arguments.name}],
                     "--lora-modules", f"{arguments.name}={arguments.folder}")
    figures["sample"] = sample[0]["text"]
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
