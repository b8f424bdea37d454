"""Answers with proposed tokens under random settings, which must be those of a plain run bit for bit.

    python3 -B tests/end_to_end/soak_speculation.py [--minutes 30] [--seed N] [--requests 64] [--device cuda_emulated] [--model DIRECTORY]

Every round draws a method, a number of proposed tokens and the width of their tree, sizes of batches, chunks and blocks, too few blocks with either way of
preemption, a worker process that is killed again and again, and whether proposals are adaptive. Prints a line a round; ends with 1 at
the first answer that differs, with the settings that show it. On a device the plain run is the device's own, and logprobs are not
compared: their last bits depend on the number of rows."""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

from programs import BIN, DEMO, RUN, SOURCE, children, environment
from test_speculation import essence, requests

MAX_MODEL_LEN = 256
MOST_KILLED = 20  # of a round; a worker that never gets far would compute the same prompts for ever


def drawn_requests(draw, count):
    """Those of the test, longer ones among them, in another order."""
    made = requests(count)
    for request in made:
        if "structured_outputs" not in request:
            request["max_tokens"] = draw.choice((request["max_tokens"], 60, 150))
    draw.shuffle(made)
    return made


def drawn_speculation(draw, options):
    # A draft model has the demo model's vocabulary, and drafts on the CPU.
    if not options.device and pathlib.Path(options.model) == pathlib.Path(DEMO) and draw.random() < 0.5:
        depth, width = draw.randint(1, 8), draw.choice((1, 2, 3, 4, 8))
        config = {"model": str(SOURCE / "models" / "demo-draft"), "num_speculative_tokens": depth, "tree_width": width,
                  "adaptive": draw.random() < 0.2}
        if width > 1:
            config["tree_tokens"] = draw.randint(1, 32)
        return ["--speculative-config", json.dumps(config)]
    least = draw.choice((1, 1, 2))
    config = {"method": draw.choice(("ngram", "suffix")), "num_speculative_tokens": draw.randint(1, 8), "prompt_lookup_min": least,
              "prompt_lookup_max": draw.choice((least, 4, 8)), "adaptive": draw.random() < 0.2}
    return ["--speculative-config", json.dumps(config)]


def drawn_settings(draw, on_device):
    """Arguments, and whether workers are killed."""
    arguments = ["--max-num-seqs", draw.choice((1, 4, 16, 64)), "--max-model-len", MAX_MODEL_LEN]
    block_size = draw.choice((16, 32) if on_device else (1, 3, 16, 32))
    arguments += ["--block-size", block_size]
    if draw.random() < 0.5:
        arguments += ["--prefill-chunk-size", draw.choice((1, 7, 16, 100))]
    if draw.random() < 0.3:
        arguments += ["--max-num-batched-tokens", draw.choice((65, 80, 200))]
    if draw.random() < 0.3:
        arguments += ["--no-enable-prefix-caching"]
    if draw.random() < 0.5:
        arguments += ["--max-blocks", -(-draw.choice((288, 500)) // block_size), "--preemption-mode", draw.choice(("swap", "recompute")),
                      "--swap-space", "4MiB"]
    kills = not on_device and draw.random() < 0.4
    if kills:
        arguments += ["--isolation", "process"]
    return [str(argument) for argument in arguments], kills


def kill_busy_workers(process, log, killed):
    """One whenever steps have been done since the last: a worker that cannot even start is given up."""
    seen = 0
    while process.poll() is None and len(killed) < MOST_KILLED:
        time.sleep(0.01)
        size = log.stat().st_size if log.exists() else 0
        if size <= seen:
            continue
        seen = size
        for worker in children(process.pid):
            try:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)
            except ProcessLookupError:
                pass


def run_all(made, options, arguments, kills=False):
    """Answers in order, the lines of the step log, and how many workers were killed."""
    env = environment(NVLLM_BACKEND_PATH=str(BIN.parent / "test_modules")) if options.device else environment()
    device = ["--device", options.device] if options.device else []
    killed = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "requests.jsonl").write_text("".join(json.dumps(request) + "\n" for request in made))
        with open(folder / "err", "w+") as err:
            process = subprocess.Popen([RUN, "-m", options.model, "--input-format", "jsonl", "--output-format", "jsonl",
                                        "-f", str(folder / "requests.jsonl"), "--step-log", str(folder / "steps"), *device, *arguments],
                                       stdout=subprocess.PIPE, stderr=err, text=True, env=env)
            if kills:
                threading.Thread(target=kill_busy_workers, args=(process, folder / "steps", killed), daemon=True).start()
            out = process.communicate(timeout=1800)[0]
            err.seek(0)
            if process.returncode != 0:
                raise SystemExit(f"nvllm-run ended with {process.returncode}: {' '.join(arguments)}\n{err.read()}")
        steps = [json.loads(line) for line in (folder / "steps").read_text().splitlines()]
    return [json.loads(line) for line in out.splitlines()], steps, len(killed)


def comparable(answers, options):
    return [(ids, None if options.device else logprobs, *rest) for ids, logprobs, *rest in essence(answers)]


def first_difference(answers, expected):
    for index, (one, other) in enumerate(zip(answers, expected)):
        if one != other:
            return index
    return None if len(answers) == len(expected) else min(len(answers), len(expected))


def check_round(made, expected, options, draw):
    """Prints a line; whether all answers are as expected."""
    arguments, kills = drawn_settings(draw, bool(options.device))
    arguments += drawn_speculation(draw, options)
    begin = time.monotonic()
    answers, steps, num_killed = run_all(made, options, arguments, kills)
    index = first_difference(comparable(answers, options), expected)
    print(f"{'equal' if index is None else 'DIFFERENT'}: {len(steps)} steps, {sum(step['num_draft_tokens'] for step in steps)} proposed, "
          f"{steps[-1]['num_preemptions']} preemptions, {num_killed} workers killed, {time.monotonic() - begin:.1f} s: "
          f"{' '.join(arguments)}", flush=True)
    if index is None:
        return True
    print(f"request: {json.dumps(made[index])}\nexpected: {expected[index]}\nanswer: {answers[index]}", file=sys.stderr)
    return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--device")
    parser.add_argument("--model", default=DEMO)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    made = drawn_requests(draw, options.requests)
    plain, _, _ = run_all(made, options, ["--max-model-len", str(MAX_MODEL_LEN), "--block-size", "16"])
    expected = comparable(plain, options)
    end = time.monotonic() + 60 * options.minutes
    rounds = 0
    while rounds == 0 or time.monotonic() < end:
        if not check_round(made, expected, options, draw):
            return 1
        rounds += 1
    print(f"{rounds} rounds of {len(made)} requests, all answers equal")
    return 0


if __name__ == "__main__":
    sys.exit(main())
