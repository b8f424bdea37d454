"""Measures a finished model on held-out text: loss, exact answers by kind, how stories hold together, samples."""

import argparse
import json
import math
import random
from pathlib import Path

import numpy
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import words
from dataset import packed_sequences
from instructions import KINDS, to_messages
from stories import HELD_OUT_SEED, make_story

EXACT_KINDS = ["repeat", "count", "how_many", "answer", "small_talk"]
SEQUENCE_LENGTH, BATCH_SIZE = 512, 20
# Differs from the seeds of the training text and of the check during training.
EVALUATION_SEED = HELD_OUT_SEED + 1

SAMPLES = [
    ("chat", "Tell me a story about a girl named Mia and a red kite.", False),
    ("plain", "Once upon a time, there was a brave fox named Nora.", True),
    ("chat", "Repeat these words: apple river stone cloud", False),
    ("chat", "Tom has a green boat. Tom lives in a town by a wide lake. What colour is the boat?", False),
]


@torch.no_grad()
def held_out_loss(model, tokenizer, wanted):
    """Mean loss per token in packed held-out text (stories and chats as in training), and the number of tokens."""
    count = -(-wanted // (SEQUENCE_LENGTH - 1))
    sequences = list(packed_sequences(tokenizer, EVALUATION_SEED, count, SEQUENCE_LENGTH, held_out=True))
    sequences = torch.from_numpy(numpy.stack(sequences))
    total, counted = 0.0, 0
    for batch in sequences.split(8):
        logits = model(input_ids=batch, use_cache=False).logits[:, :-1].float()
        losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="sum")
        total, counted = total + losses.item(), counted + batch[:, 1:].numel()
    return total / counted, counted


@torch.no_grad()
def story_loss(model, tokenizer, wanted):
    """Mean loss per token on plain held-out stories alone, each one read from its beginning."""
    rng = random.Random(EVALUATION_SEED)
    total, counted = 0.0, 0
    while counted < wanted:
        ids = torch.tensor([tokenizer(make_story(rng, held_out=True)[0]).input_ids + [tokenizer.eos_token_id]])
        logits = model(input_ids=ids, use_cache=False).logits[0, :-1].float()
        total += torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum").item()
        counted += ids.shape[1] - 1
    return total / counted, counted


@torch.no_grad()
def complete(model, tokenizer, prompts, maximum, **sampling):
    """Continuations of prompts (lists of ids), without the end token; None stands for one that did not end."""
    texts = []
    for start in range(0, len(prompts), BATCH_SIZE):
        batch = tokenizer.pad({"input_ids": prompts[start:start + BATCH_SIZE]}, padding_side="left", return_tensors="pt")
        sampling = sampling or {"do_sample": False, "temperature": None, "top_p": None}
        output = model.generate(**batch, max_new_tokens=maximum, **sampling)
        for row in output[:, batch["input_ids"].shape[1]:].tolist():
            ended = tokenizer.eos_token_id in row
            texts.append(tokenizer.decode(row[:row.index(tokenizer.eos_token_id)] if ended else row) if ended else None)
    return texts


def chat_prompt(tokenizer, question):
    text = tokenizer.apply_chat_template(to_messages([(question, "")])[:1], tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False).input_ids


def exact_accuracy(model, tokenizer, kind, cases):
    """Share of held-out tasks of one kind whose greedy answer is exactly right, and the first wrong ones."""
    rng = random.Random(EVALUATION_SEED + 1)
    tasks = []
    while len(tasks) < cases:
        made = KINDS[kind][1](rng, True)
        tasks.append(made[0] if isinstance(made, list) else made)
    given = complete(model, tokenizer, [chat_prompt(tokenizer, question) for question, _ in tasks], 160)
    wrong = [{"question": question, "expected": expected, "given": text}
             for (question, expected), text in zip(tasks, given) if text is None or text.strip() != expected]
    return 1 - len(wrong) / cases, wrong[:8]


def story_checks(model, tokenizer, cases):
    """Ask for a story about a named character with an object, sampled; check the cast and the object by name."""
    rng = random.Random(EVALUATION_SEED + 2)
    torch.manual_seed(EVALUATION_SEED)
    wishes = []
    while len(wishes) < cases:
        story, slots = make_story(rng, held_out=True)
        if slots["object"] in story:
            wishes.append((slots, chat_prompt(tokenizer, f"Tell me a story about a {slots['kind']} named {slots['hero']} and a {slots['object']}.")))
    texts = complete(model, tokenizer, [prompt for _, prompt in wishes], 420, do_sample=True, temperature=0.7, top_p=0.95)
    names = set(words.GIRL_NAMES + words.BOY_NAMES)
    counts = {"ended": 0, "hero": 0, "object": 0, "cast": 0}
    for (slots, _), text in zip(wishes, texts):
        if text is None:
            continue
        found = {word.strip('.,!?":;\'').removesuffix("'s") for word in text.split()} & (names - {"Will"})
        counts["ended"] += 1
        counts["hero"] += slots["hero"] in text
        counts["object"] += slots["object"] in text
        # A story of ours has a hero and at most one friend; a third name would be a slip.
        counts["cast"] += len(found) <= 2
    return {key: value / cases for key, value in counts.items()}


def make_samples(model, tokenizer):
    """The samples of the model card: (form, prompt, sampled or greedy, text)."""
    samples = []
    for form, prompt, sampled in SAMPLES:
        torch.manual_seed(EVALUATION_SEED)
        ids = chat_prompt(tokenizer, prompt) if form == "chat" else tokenizer(prompt).input_ids
        sampling = {"do_sample": True, "temperature": 0.7, "top_p": 0.95} if sampled else {}
        samples.append({"form": form, "prompt": prompt, "sampled": sampled, "text": complete(model, tokenizer, [ids], 420, **sampling)[0]})
    return samples


def measure(folder, tokens, cases):
    """All figures of one model."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    loss, counted = held_out_loss(model, tokenizer, tokens)
    plain_loss, plain_counted = story_loss(model, tokenizer, tokens)
    accuracy, wrong = {}, {}
    for kind in EXACT_KINDS:
        accuracy[kind], wrong[kind] = exact_accuracy(model, tokenizer, kind, cases)
    return {"parameters": sum(parameter.numel() for parameter in model.parameters()),
            "held_out_loss": loss, "held_out_perplexity": math.exp(loss), "held_out_tokens": counted,
            "story_loss": plain_loss, "story_perplexity": math.exp(plain_loss), "story_tokens": plain_counted,
            "cases": cases, "accuracy": accuracy, "wrong": wrong,
            "story_checks": story_checks(model, tokenizer, max(1, cases // 2)), "samples": make_samples(model, tokenizer)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("result", type=Path, help="where to write the figures as JSON")
    parser.add_argument("--tokens", type=int, default=105_000)
    parser.add_argument("--cases", type=int, default=100, help="held-out tasks of each kind")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    figures = measure(arguments.folder, arguments.tokens, arguments.cases)
    arguments.result.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")
    print(json.dumps({key: value for key, value in figures.items() if key not in ("wrong", "samples")}, indent=2))


if __name__ == "__main__":
    main()
