"""What the scripts of this folder share: arguments, requests, timing, and the line of JSON that they print.

A script gives `generate(requests)`, where a request is (token ids, how many to generate); it returns how many were generated. Rates
are tokens a second: of the prompt with --prompt, of tokens after the first with --generated, of all generated ones with --requests.
"""

import argparse
import json
import pathlib
import random
import time


def arguments(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--checkpoint", required=True, help="folder as Hugging Face stores it")
    parser.add_argument("--converted", help="the same weights in the engine's own format, where it has one")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--prompt", type=int, default=0)
    parser.add_argument("--generated", type=int, default=0)
    parser.add_argument("--requests", help="a file with a request a line: prompt_token_ids, max_tokens")
    parser.add_argument("--share", type=float, default=1.0, help="of the requests, spread over the file, when all would take too long")
    return parser


def random_ids(options, count, seed=3):
    """Of the upper half of the vocabulary, but for its end: control tokens are not among them."""
    size = json.loads((pathlib.Path(options.checkpoint) / "config.json").read_text())["vocab_size"]
    generator = random.Random(seed)
    return [generator.randrange(size // 2, size - 300) for _ in range(count)]


def read_requests(options):
    lines = [json.loads(line) for line in open(options.requests)]
    step = max(1, round(1 / options.share))
    return [(line["prompt_token_ids"], line["max_tokens"]) for line in lines[::step]], 1 / step


def seconds(generate, requests):
    begin = time.perf_counter()
    generated = generate(requests)
    spent_s = time.perf_counter() - begin
    if generated < sum(count for _, count in requests):
        raise SystemExit(f"{generated} tokens were generated, fewer than asked for")
    return spent_s


def measure(options, generate):
    generate([(random_ids(options, options.prompt or 16, seed=4), 4)])  # warm-up: some engines prepare for every new length
    if options.requests:
        requests, share = read_requests(options)
        tokens = sum(count for _, count in requests)
        return {"rate": tokens / seconds(generate, requests), "share_of_work": share}
    if options.prompt:
        return {"rate": options.prompt / seconds(generate, [(random_ids(options, options.prompt), 1)])}
    first_s = seconds(generate, [(random_ids(options, 2), 1)])
    return {"rate": options.generated / (seconds(generate, [(random_ids(options, 2), options.generated + 1)]) - first_s)}


def report(options, generate):
    print(json.dumps(measure(options, generate)))
