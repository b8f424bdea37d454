#!/usr/bin/env python3
"""Runs every decoder family in the shape that transformers gives it by default, and writes the table of them into docs/models.md.

Shapes are those of tests/fixtures/config_keys.json. `nvllm-inspect plan` takes them whole; `nvllm-run --load-format dummy` with fewer
layers (--layers, and at least one of each kind), experts (--experts) and tokens (--vocabulary), which change nothing of what a layer
does. Exits with 1 where one does not load.

Usage: make_model_table.py --bin DIR [--check] [ARCHITECTURE ...]; --check compares what is planned with the page and runs nothing.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "models.md"
BEGIN, END = "<!-- table: scripts/make_model_table.py -->\n", "<!-- end of table -->\n"
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def text_part(config):
    return config["text_config"] if isinstance(config.get("text_config"), dict) else config


def is_decoder(config):
    return not any(word in config["architectures"][0] for word in ("Bert", "MPNet", "Roberta", "ROBERTA", "ConditionalGeneration"))


def kinds(config):
    """The layers whose types follow each other, so that few layers have all of them."""
    types = config.get("layer_types") or config.get("layers_block_type")
    if not types:
        return None
    first = {}
    for layer, kind in enumerate(types):
        first.setdefault(kind, layer)
    return max(first.values()) + 1


def num_layers(part):
    return part.get("num_hidden_layers") or part.get("n_layer") or len(part["layers_block_type"])


def shrunk(config, options):
    made = json.loads(json.dumps(config))
    part = text_part(made)
    layers, all_layers = max(options.layers, kinds(part) or 0), num_layers(part)
    layers = min(layers, all_layers)
    for name, value in part.items():
        if isinstance(value, list) and len(value) == all_layers:
            part[name] = value[:layers]
    for name in ("num_hidden_layers", "n_layer"):
        if name in part:
            part[name] = layers
    for name in EXPERTS:
        if isinstance(part.get(name), int):
            part[name] = min(part[name], options.experts)
    for name in ("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk", "n_group", "num_expert_group", "topk_group"):
        if isinstance(part.get(name), int):
            part[name] = min(part[name], options.experts // 2)
    for name in ("vocab_size", "vocab_size_per_layer_input"):
        if isinstance(part.get(name), int):
            part[name] = min(part[name], options.vocabulary)
    for name in ("first_k_dense_replace", "moe_layer_start_index", "num_kv_shared_layers", "num_dense_layers"):
        if isinstance(part.get(name), int):
            part[name] = min(part[name], 1)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        part.pop(name, None)
    if isinstance(part.get("per_layer_config"), dict):
        part["per_layer_config"] = {layer: value for layer, value in part["per_layer_config"].items() if int(layer) < layers}
    return made


def with_folder(config, run):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
        return run(folder)


def plan(programs, config):
    def run(folder):
        done = subprocess.run([programs / "nvllm-inspect", "plan", "-m", folder, "--dtype", "bfloat16", "--available-memory", "64TiB",
                               "--json"], capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()
    return with_folder(config, run)


def answers(programs, config):
    def run(folder):
        done = subprocess.run([programs / "nvllm-run", "-m", folder, "--load-format", "dummy", "--dtype", "bfloat16", "--max-model-len",
                               "64", "--prompt-ids", "5,6,7,8,9", "-n", "3", "--ignore-eos", "--output-format", "jsonl"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            return done.stderr.strip().splitlines()[-1]
        ids = json.loads(done.stdout.splitlines()[0])["token_ids"]
        return None if len(ids) == 3 else f"{len(ids)} tokens"
    return with_folder(config, run)


def number(value):
    return f"{value:,}"


def row(config, planned):
    part = text_part(config)
    layers = num_layers(part)
    hidden = part.get("hidden_size") or part["n_embd"]
    tokens = sum(group["bytes_per_token"] for group in planned["kv_groups"])
    states = sum(group.get("bytes_per_state", 0) for group in planned["kv_groups"])
    return (f"| `{config['architectures'][0]}` | {layers} x {number(hidden)} | {planned['weight_bytes'] / 2 ** 30:.1f} | {number(tokens)} | "
            f"{number(states) if states else ''} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=4096)
    parser.add_argument("architectures", nargs="*")
    options = parser.parse_args()
    configs = json.loads((ROOT / "tests" / "fixtures" / "config_keys.json").read_text())["configs"]
    rows, faults = [], []
    for config in configs:
        name = config["architectures"][0]
        if not is_decoder(config) or (options.architectures and name not in options.architectures):
            continue
        planned = plan(options.bin, config)
        if isinstance(planned, str):
            faults.append(f"{name}: plan: {planned}")
            continue
        rows.append(row(config, planned))
        if options.check:
            continue
        fault = answers(options.bin, shrunk(config, options))
        print(f"{name}: {fault or 'runs'}", file=sys.stderr)
        if fault:
            faults.append(f"{name}: {fault}")
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults or options.architectures:
        return 1 if faults else 0
    head = "| class | layers x width | weights, GiB | cache of a token, bytes | states of a sequence, bytes |\n|---|---|---|---|---|\n"
    before, rest = PAGE.read_text().split(BEGIN)
    old, after = rest.split(END)
    new = head + "\n".join(rows) + "\n"
    if options.check:
        return 0 if old == new else 1
    PAGE.write_text(before + BEGIN + new + END + after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
