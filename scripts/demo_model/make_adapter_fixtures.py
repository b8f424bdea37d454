"""Writes the reference data of the demo model's adapters: what PEFT computes with them, and `transformers` without them."""

import argparse
import json
from pathlib import Path

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from adapter_tasks import TASKS, examples
from make_fixtures import write_lines
from stories import HELD_OUT_SEED

NEW_TOKENS, EXAMPLES = 32, 4


@torch.no_grad()
def greedy(model, ids, end):
    """Ids that a greedy answer begins with, and their log-probabilities."""
    ids, chosen, logprobs = list(ids), [], []
    while len(chosen) < NEW_TOKENS and (not chosen or chosen[-1] != end):
        scores = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].log_softmax(-1)
        chosen.append(scores.argmax().item())
        logprobs.append(round(scores[chosen[-1]].item(), 6))
        ids.append(chosen[-1])
    return {"greedy_ids": chosen, "logprobs": logprobs}


def prompt_ids(tokenizer, prompt):
    if isinstance(prompt, str):
        return tokenizer(prompt).input_ids
    text = tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False).input_ids


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("demo", type=Path, help="the model; its adapters lie beside it")
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(arguments.demo)
    entries = []
    for name in sorted(TASKS):
        target = AutoModelForCausalLM.from_pretrained(arguments.demo, dtype=torch.float32, attn_implementation="eager").eval()
        model = PeftModel.from_pretrained(target, arguments.demo.parent / f"demo-{name}").float().eval()
        for prompt, _ in examples(name, HELD_OUT_SEED + 14, EXAMPLES, held_out=True):
            ids = prompt_ids(tokenizer, prompt)
            entries.append({"adapter": name, "prompt_ids": ids, **greedy(model, ids, tokenizer.eos_token_id)})
            with model.disable_adapter():
                entries.append({"adapter": None, "prompt_ids": ids, **greedy(model, ids, tokenizer.eos_token_id)})
    write_lines(arguments.output, entries)


if __name__ == "__main__":
    main()
