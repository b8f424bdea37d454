"""Writes the model card (README.md) of a draft head from the report of train_head.py and the table of measure_drafts.py."""

import argparse
import json
from pathlib import Path

from model_card import front_matter

LAYOUTS = {
    "eagle": "EAGLE: one block over the demo model's last hidden state and the embedding of the next token; the demo model's output matrix",
    "eagle3": "EAGLE-3: one block over hidden states after layers 1, 2 and 3 of the demo model, which are fused, and the embedding of the "
              "next token; an output matrix of its own over the 768 most frequent tokens",
    "mtp": "a next-token layer in MiMo's layout: one block over the demo model's last hidden state and the embedding of the next token; the "
           "demo model's output matrix, and a copy of its embeddings",
}

CARD = """{front}
# nanovllm demo-{method}

A draft head for the nanovllm demo model: it proposes tokens in speculative decoding, and is of no use alone. The file has the layout in
which such heads are published, so that the reader for those is what reads it.

    nvllm-run -m models/demo --speculative-config '{{"method": "{method}", "model": "models/demo-{method}"}}' -p "Once upon a time"

| | |
|---|---|
| Layout | {layout} |
| Hidden / intermediate | 256 / 256, heads as in the demo model |
| Weights | bfloat16, safetensors |

## How it was made

Trained on a CPU for {steps:,} steps, {tokens_seen:,} tokens, by `scripts/demo_model/train_head.py`, on the generated text that the demo model
was trained on (another seed); the demo model stays as it is. The loss is the cross-entropy with the demo model's own distribution, over
a chain of four drafts that go on from the head's own states (training-time test, EAGLE-3, Li et al. 2025).

## How often it is right

On held-out text, the share of positions where the first so many drafts are all the demo model's greedy tokens: {agreement}.

Greedy answers to held-out prompts, {requests} of each kind, four drafts in each step (`scripts/demo_model/measure_drafts.py`):

{table}

## Licence

Apache-2.0, like nanovllm itself.
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder of the head")
    parser.add_argument("report", type=Path, help="what train_head.py wrote to --report")
    parser.add_argument("table", type=Path, help="what measure_drafts.py printed")
    parser.add_argument("--requests", type=int, default=60)
    arguments = parser.parse_args()
    report = json.loads(arguments.report.read_text())
    agreement = ", ".join(f"{count}: {share:.1%}" for count, share in enumerate(report["agreement"], 1))
    card = CARD.format(front=front_matter(), method=report["method"], layout=LAYOUTS[report["method"]], steps=report["steps"],
                       tokens_seen=report["tokens_seen"], agreement=agreement, requests=arguments.requests,
                       table=arguments.table.read_text().strip())
    (arguments.folder / "README.md").write_text(card)


if __name__ == "__main__":
    main()
