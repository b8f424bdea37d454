"""Trains a LoRA adapter of the demo model with PEFT: a style (verse) or a task (fields).

The model stays as it is. The loss is that of the answers' tokens; examples come from adapter_tasks.py.
"""

import argparse
import json
import time
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

from adapter_tasks import TASKS, examples
from stories import HELD_OUT_SEED, TRAIN_SEED
from train import CLIP_NORM, learning_rate_at

STEPS, EXAMPLES_PER_STEP, LEARNING_RATE, DECAY_SHARE = 400, 16, 3e-3, 0.5
CHECK_EXAMPLES = 64
IGNORED = -100


def tokens_of(tokenizer, prompt, answer):
    """The ids of prompt and answer, and what of them is to be learned."""
    if isinstance(prompt, str):
        start = [tokenizer.bos_token_id, *tokenizer(prompt, add_special_tokens=False).input_ids]
        whole = [tokenizer.bos_token_id, *tokenizer(prompt + answer, add_special_tokens=False).input_ids, tokenizer.eos_token_id]
    else:
        start = tokenizer(tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True), add_special_tokens=False).input_ids
        messages = [*prompt, {"role": "assistant", "content": answer}]
        whole = tokenizer(tokenizer.apply_chat_template(messages, tokenize=False), add_special_tokens=False).input_ids
    known = next((i for i, (a, b) in enumerate(zip(start, whole)) if a != b), len(start))
    return whole, [IGNORED] * known + whole[known:]


def batch_of(tokenizer, drawn):
    pairs = [tokens_of(tokenizer, *example) for example in drawn]
    longest = max(len(ids) for ids, _ in pairs)
    ids = torch.tensor([ids + [tokenizer.pad_token_id] * (longest - len(ids)) for ids, _ in pairs])
    labels = torch.tensor([labels + [IGNORED] * (longest - len(labels)) for _, labels in pairs])
    return ids, labels


def loss_of(model, ids, labels):
    # Padding stands behind everything that is learned, so that no mask is needed.
    logits = model(input_ids=ids, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=IGNORED)


@torch.no_grad()
def held_out_loss(model, batches):
    return sum(loss_of(model, *batch).item() for batch in batches) / len(batches)


def train(model, tokenizer, arguments):
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=arguments.learning_rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    drawn = examples(arguments.name, TRAIN_SEED + 4, arguments.steps * EXAMPLES_PER_STEP)
    check = examples(arguments.name, HELD_OUT_SEED + 4, CHECK_EXAMPLES, held_out=True)
    batches = [batch_of(tokenizer, check[first:first + EXAMPLES_PER_STEP]) for first in range(0, CHECK_EXAMPLES, EXAMPLES_PER_STEP)]
    started, before = time.time(), held_out_loss(model, batches)
    for step in range(arguments.steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step, arguments.steps, arguments.learning_rate, DECAY_SHARE)
        loss = loss_of(model, *batch_of(tokenizer, drawn[step * EXAMPLES_PER_STEP:(step + 1) * EXAMPLES_PER_STEP]))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if (step + 1) % 25 == 0 or step + 1 == arguments.steps:
            after = held_out_loss(model, batches)
            print(f"step {step + 1}/{arguments.steps} loss {loss.item():.4f} held-out {after:.4f} {time.time() - started:.0f} s", flush=True)
    return {"name": arguments.name, "steps": arguments.steps, "examples": arguments.steps * EXAMPLES_PER_STEP,
            "parameters": sum(parameter.numel() for parameter in parameters), "minutes": round((time.time() - started) / 60, 1),
            "held_out_loss": after, "held_out_loss_without": before}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", choices=sorted(TASKS))
    parser.add_argument("target", type=Path, help="the folder of the model that the adapter is for")
    parser.add_argument("folder", type=Path, help="where the adapter goes")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--learning-rate", type=float, default=LEARNING_RATE)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--report", type=Path, help="where figures go, for the model card")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    tokenizer = AutoTokenizer.from_pretrained(arguments.target)
    target = AutoModelForCausalLM.from_pretrained(arguments.target, dtype=torch.float32, attn_implementation="sdpa")
    model = get_peft_model(target, LoraConfig(task_type="CAUSAL_LM", bias="none", **TASKS[arguments.name]["settings"]))
    report = train(model, tokenizer, arguments)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    model.save_pretrained(arguments.folder)
    if arguments.report:
        arguments.report.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
