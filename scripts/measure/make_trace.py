#!/usr/bin/env python3
"""Writes a made-up request trace in Mooncake's format: for trying `nvllm-inspect trace` where no published trace is at hand.

Three kinds of traffic in one file, all from one seed: conversations that come back with all that was said, loops of agents
that send their growing transcript to tools and back within seconds, and documents that are asked about once. Each shares one
of a few system prompts. Arrivals are Poisson with bursts.
"""

import argparse
import json
import random

PIECE = 512


class Pieces:
    """Hashes of 512 tokens each; equal hashes are equal tokens."""

    def __init__(self):
        self.next = 0

    def take(self, tokens):
        count = tokens // PIECE
        self.next += count
        return list(range(self.next - count, self.next))


def request(pieces, time_s, prefix, tail_tokens, answer):
    """A prompt that begins with whole pieces and ends with `tail_tokens` of its own."""
    length = len(prefix) * PIECE + tail_tokens
    hashes = prefix + pieces.take((tail_tokens + PIECE - 1) // PIECE * PIECE)
    return {"timestamp": int(1000 * time_s), "input_length": length, "output_length": answer, "hash_ids": hashes}


def conversation(rng, pieces, start_s, system, agent):
    """Turns of one user, or steps of one agent; every prompt begins with all before it."""
    rows, time_s, history = [], start_s, list(system)
    for _ in range(rng.randint(4, 20) if agent else 1 + int(rng.expovariate(0.4))):
        asked = rng.randint(30, 400) if agent else int(rng.lognormvariate(6, 1.2)) + 20
        answer = rng.randint(10, 80) if agent else min(2000, int(rng.lognormvariate(5.5, 0.8)) + 1)
        rows.append(request(pieces, time_s, history, min(asked, 30000), answer))
        history += pieces.take(asked + answer + PIECE // 2)
        time_s += rng.expovariate(1 / 4) if agent else rng.lognormvariate(4, 1)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--agents", type=float, default=0.3, help="share of agents among starts")
    parser.add_argument("--documents", type=float, default=0.3, help="share of one-off documents among starts")
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    rng, pieces = random.Random(flags.seed), Pieces()
    systems = [pieces.take(PIECE * size) for size in (1, 3, 6, 12)]
    rows = []
    while len(rows) < flags.requests:
        start_s = rng.uniform(0, flags.seconds)
        for _ in range(rng.choice((1, 1, 1, 8))):  # bursts
            kind, system = rng.random(), rng.choice(systems)
            if kind < flags.documents:
                rows.append(request(pieces, start_s, system[:1], rng.randint(2000, 30000), rng.randint(20, 400)))
            else:
                rows += conversation(rng, pieces, start_s, system, kind < flags.documents + flags.agents)
    rows.sort(key=lambda row: row["timestamp"])
    for row in rows[:flags.requests]:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
