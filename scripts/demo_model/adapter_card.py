"""Writes the model card (README.md) of an adapter from the reports of train_adapter.py and measure_adapter.py."""

import argparse
import json
from pathlib import Path

from adapter_tasks import TASKS

CARD = """---
license: apache-2.0
language: en
library_name: peft
base_model: nanovllm/demo
tags:
- lora
---

# nanovllm demo-{name}

A LoRA adapter of the nanovllm demo model, {kind}: with it the model {about}.
It is there so that adapters can be tried without a download. The files are PEFT's.

    nvllm-run -m models/demo --lora-modules {name}=models/demo-{name} --chat -p "{prompt}"
    nvllm-serve -m models/demo --served-model-name demo --lora-modules verse=models/demo-verse fields=models/demo-fields

| | |
|---|---|
| Rank | {rank} |
| Scale | {scale} |
| Modules | every linear of the four layers |
| Parameters | {parameters:,}, bfloat16, safetensors |

## How it was made

Trained on a CPU for {steps:,} steps of 16 examples, {examples:,} in all, by `scripts/demo_model/train_adapter.py` with PEFT. The examples
come from `scripts/demo_model/adapter_tasks.py`; the demo model stays as it is. The loss is the cross-entropy of the answers' tokens: on
held-out examples {held_out_loss:.3f}, without the adapter {held_out_loss_without:.3f}.

## How good it is

Of greedy answers to {count} held-out examples {right:.1%} {measure}, without the adapter {right_without:.1%}
(`scripts/demo_model/measure_adapter.py`). The command above, at temperature 0, answers:

{sample}

## Licence

Apache-2.0, like nanovllm itself.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder of the adapter")
    parser.add_argument("report", type=Path, help="what train_adapter.py wrote to --report")
    parser.add_argument("figures", type=Path, help="what measure_adapter.py printed")
    arguments = parser.parse_args()
    report, figures = json.loads(arguments.report.read_text()), json.loads(arguments.figures.read_text())
    task, config = TASKS[report["name"]], json.loads((arguments.folder / "adapter_config.json").read_text())
    patterns = "".join(f", {rank} in {module}" for module, rank in config["rank_pattern"].items())
    root = "the root of the rank" if config["use_rslora"] else "the rank"
    sample = "\n".join(f"    {line}".rstrip() for line in figures["sample"].split("\n"))
    card = CARD.format(**report, kind=task["kind"], about=task["about"], measure=task["measure"], prompt=task["prompt"],
                       rank=f"{config['r']}{patterns}", scale=f"{config['lora_alpha']} / {root}", count=figures["examples"],
                       right=figures["right"], right_without=figures["right_without"], sample=sample)
    (arguments.folder / "README.md").write_text(card)


if __name__ == "__main__":
    main()
