"""Measures how many drafts of each method the demo model accepts on held-out stories and instructions, as a table.

Greedy answers, one request at a time, always as many drafts as the method proposes. Needs the built nvllm-run, and no packages.
"""

import argparse
import json
import random
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

from instructions import make_chat
from stories import HELD_OUT_SEED, make_story

FIRST_WORDS, MOST_TOKENS = 6, 200
ACCEPTED = re.compile(r"(\d+) of (\d+) proposed tokens accepted")


def story_requests(count):
    rng = random.Random(HELD_OUT_SEED + 11)
    return [{"prompt": " ".join(make_story(rng, held_out=True)[0].split()[:FIRST_WORDS])} for _ in range(count)]


def instruction_requests(count):
    """Chats up to their last answer, which the model is to give; no stories."""
    rng = random.Random(HELD_OUT_SEED + 12)
    return [{"messages": make_chat(rng, held_out=True, with_stories=False)[:-1]} for _ in range(count)]


def measure(arguments, config, requests):
    """Accepted drafts as a share of all, tokens of a step that has no prompt, and the median time of proposing beside that of the rest of such a step."""
    with tempfile.TemporaryDirectory() as folder:
        lines, log = Path(folder, "requests.jsonl"), Path(folder, "steps.jsonl")
        lines.write_text("".join(json.dumps(request) + "\n" for request in requests))
        command = [arguments.bin / "nvllm-run", "-m", arguments.target, "--input-format", "jsonl", "--output-format", "jsonl",
                   "--max-num-seqs", "1", "-n", str(MOST_TOKENS), "--temperature", "0", "--show-timings", "--step-log", log, "--threads", str(arguments.threads),
                   "--speculative-config", json.dumps(config | {"adaptive": False}), "-f", lines]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        steps = [step for step in map(json.loads, log.open()) if step["num_prefill_tokens"] == 0]
    accepted, proposed = map(int, ACCEPTED.search(done.stderr).groups())
    draft_ms = statistics.median(step["draft_ms"] for step in steps)
    own_ms = statistics.median(step["step_ms"] - step["draft_ms"] for step in steps)
    return accepted / max(1, proposed), 1 + accepted / len(steps), draft_ms / own_ms


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("configs", nargs="+", help="NAME=JSON, as --speculative-config takes it")
    parser.add_argument("--target", type=Path, default=Path("models/demo"))
    parser.add_argument("--bin", type=Path, default=Path("build/release/bin"))
    parser.add_argument("--threads", type=int, default=1, help="one: threads that wait for each other spoil times on a used machine")
    parser.add_argument("--costs", action="store_true", help="the time of proposing beside that of the rest of a step, too")
    parser.add_argument("--requests", type=int, default=60, help="of each kind of text")
    arguments = parser.parse_args()
    kinds = {"stories": story_requests(arguments.requests), "instructions": instruction_requests(arguments.requests)}
    cost = " | time of proposing" if arguments.costs else ""
    heads = " | ".join(f"{kind}: accepted | tokens a step{cost}" for kind in kinds)
    print(f"| drafts | {heads} |")
    print("|---" * (heads.count("|") + 2) + "|")
    for name, config in (text.split("=", 1) for text in arguments.configs):
        figures = [measure(arguments, json.loads(config), requests) for requests in kinds.values()]
        print(f"| {name} | " + " | ".join(f"{share:.1%} | {tokens:.2f}" + (f" | {cost:.2f}" if arguments.costs else "") for share, tokens, cost in figures) + " |", flush=True)


if __name__ == "__main__":
    main()
