"""Many sampled answers under random schemas, every one of which must be valid: with too few blocks, on the emulated device, and
with a worker that is killed now and then.

    python3 -B tests/end_to_end/soak_structured.py [--answers 10000] [--schemas 50] [--seed N] [--temperature 1.5]
        [--blocks 48] [--device cuda_emulated] [--kill-every 5] [--model DIRECTORY]

An answer that max_tokens cuts off is no whole document; it is counted apart. Ends with 1 at the first invalid one."""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time

from programs import BIN, DEMO, RUN, children, environment
from structured_testing import fault_of, schemas

CHOICES = 4  # of a request


def made_requests(options, made):
    """Every fifth is held to nothing."""
    count = -(-options.answers // CHOICES)
    for index in range(count + count // 4):
        body = {"prompt": f"Record {index}:", "temperature": options.temperature, "seed": options.seed * 1_000_000 + index}
        if index % 5 == 4:
            yield {**body, "max_tokens": 40, "ignore_eos": True}, None
        else:
            schema = made[index % len(made)]
            yield {**body, "max_tokens": options.max_tokens, "n": CHOICES, "structured_outputs": {"json": schema}}, schema


def kill_workers(process, every_s, killed):
    while process.poll() is None:
        time.sleep(every_s)
        for worker in children(process.pid):
            try:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)
            except ProcessLookupError:
                pass


def arguments_of(options):
    arguments = ["-m", options.model, "--input-format", "jsonl", "--output-format", "jsonl", "--max-model-len", str(options.max_model_len)]
    if options.blocks:
        arguments += ["--max-blocks", str(options.blocks), "--block-size", "16"]
    if options.device:
        arguments += ["--device", options.device, "--async-scheduling"]
    if options.kill_every:
        arguments += ["--isolation", "process"]
    return arguments


def run_all(options, requests):
    """The answers, in order."""
    env = environment(NVLLM_BACKEND_PATH=str(BIN.parent / "test_modules")) if options.device else environment()
    process = subprocess.Popen([RUN, *arguments_of(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    killed = []
    if options.kill_every:
        threading.Thread(target=kill_workers, args=(process, options.kill_every, killed), daemon=True).start()
    lines = "".join(json.dumps(request) + "\n" for request in requests)

    def feed():
        process.stdin.write(lines)
        process.stdin.close()

    threading.Thread(target=feed, daemon=True).start()
    for line in process.stdout:
        yield json.loads(line)
    if process.wait() != 0:
        raise SystemExit(f"nvllm-run ended with {process.returncode}")
    if options.kill_every:
        print(f"{len(killed)} workers were killed")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--answers", type=int, default=10000)
    parser.add_argument("--schemas", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--temperature", type=float, default=1.5)
    parser.add_argument("--max-tokens", type=int, default=600)
    parser.add_argument("--max-model-len", type=int, default=1024)
    parser.add_argument("--blocks", type=int, help="of 16 tokens, of the whole cache")
    parser.add_argument("--device")
    parser.add_argument("--kill-every", type=float, help="seconds")
    parser.add_argument("--model", default=DEMO)
    options = parser.parse_args()
    begin = time.monotonic()
    made = list(made_requests(options, schemas(options.schemas, options.seed)))
    num_whole = num_cut = num_tokens = 0
    for answer in run_all(options, [request for request, _ in made]):
        request, schema = made[answer["index"]]
        if "error" in answer:
            print(f"{answer['error']} for {json.dumps(request)}", file=sys.stderr)
            return 1
        if schema is None:
            continue
        num_tokens += len(answer["token_ids"])
        if answer["finish_reason"] == "length":
            num_cut += 1
        elif fault := fault_of(answer["text"], schema):
            print(f"invalid: {fault}\n{json.dumps(request)}\n{answer['text']}", file=sys.stderr)
            return 1
        else:
            num_whole += 1
    print(f"{num_whole} whole answers, all valid; {num_cut} were cut off; {num_tokens} tokens; {time.monotonic() - begin:.0f} s")
    if num_whole + num_cut < options.answers:
        print("answers are missing", file=sys.stderr)
        return 1
    return 0 if num_whole > 0.9 * (num_whole + num_cut) else 1


if __name__ == "__main__":
    sys.exit(main())
