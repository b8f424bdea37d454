#!/usr/bin/env python3
"""Writes LoRA adapters of random bfloat16 weights for a checkpoint of make_checkpoint.py, to measure what adapters cost.

Usage: make_adapters.py MODEL FOLDER [--count N] [--rank R ...] [--target-modules NAME ...]: N folders 000, 001, ... in PEFT's format;
several ranks are taken in turns. By default every linear of a Llama's layers is a target. Needs nothing but Python.
"""

import argparse
import itertools
import json
import pathlib

from make_checkpoint import random_chunk, tensors, write_header, write_random

LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def adapter_tensors(config, rank, targets):
    """Names and shapes, as PEFT names them."""
    for name, shape in tensors(config):
        module = name.removesuffix(".weight")
        if module.rsplit(".", 1)[-1] in targets:
            yield f"base_model.model.{module}.lora_A.weight", [rank, shape[1]]
            yield f"base_model.model.{module}.lora_B.weight", [shape[0], rank]


def write_adapter(folder, config, rank, targets, chunk):
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": rank, "bias": "none", "target_modules": list(targets)}
    (folder / "adapter_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    with open(folder / "adapter_model.safetensors", "wb") as file:
        write_random(file, sum(write_header(file, adapter_tensors(config, rank, targets)).values()), chunk)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=32)
    parser.add_argument("--rank", type=int, nargs="+", default=[16])
    parser.add_argument("--target-modules", nargs="+", choices=LINEARS, default=LINEARS)
    arguments = parser.parse_args()
    config = json.loads((arguments.model / "config.json").read_text())
    chunk = random_chunk(1 << 19)
    for index, rank in zip(range(arguments.count), itertools.cycle(arguments.rank)):
        # Each begins elsewhere in the same random bytes, so that no two are equal.
        start = 2 * 4099 * (index + 1) % len(chunk)
        write_adapter(arguments.folder / f"{index:03}", config, rank, arguments.target_modules, chunk[start:] + chunk[:start])


if __name__ == "__main__":
    main()
