"""Writes the model cards (README.md of the model folders) from measured figures."""

import argparse
import json
from pathlib import Path

from train import LONG_LENGTH, SHORT_LENGTH, SIZES, TOKENS_PER_STEP

KIND_NAMES = {"repeat": "Repeat words or a sentence exactly", "count": "Count up or down (up to 30)",
              "how_many": "How many X are in a list (up to 10 items)", "answer": "Answer a question about a short text",
              "small_talk": "Greetings, \"Who are you?\", questions it cannot answer"}
PURPOSE = {
    "demo": "A very small language model that comes with nanovllm, so that every feature of the toolkit can be tried and "
            "tested without a download. It writes short stories in simple English and follows a few kinds of instructions.",
    "demo-draft": "The smaller sibling of the nanovllm demo model. It has the same tokenizer and the same chat template, and "
                  "it serves as the draft model in speculative decoding. It is less able than the demo model.",
}
LIMITS = """It knows nothing about the world. It was trained only on text from a generator with a small vocabulary,
so its stories vary within some fifteen plots, and at times it mixes up a colour or the name
of the friend. It follows only instructions like those listed above, with the shares of right answers given there, and what it says outside of them has no value. It reads up to 2,048 tokens; most of its training text was
much shorter. English only."""


def front_matter():
    return "---\nlicense: apache-2.0\nlanguage: en\nlibrary_name: transformers\npipeline_tag: text-generation\n---\n"


def architecture_table(name, figures):
    size = SIZES[name]
    return "\n".join([
        "| | |", "|---|---|", "| Architecture | Llama (`LlamaForCausalLM`) |", f"| Parameters | {figures['parameters']:,} |",
        f"| Layers / hidden / intermediate | {size['num_hidden_layers']} / {size['hidden_size']} / {size['intermediate_size']} |",
        f"| Heads / key-value heads / head size | {size['num_attention_heads']} / {size['num_key_value_heads']} / 64 |",
        "| Vocabulary | 2,048 (byte-level BPE), tied embeddings |", "| Positions | 2,048, RoPE theta 10,000 |",
        "| Weights | bfloat16, safetensors |"])


def training_text(report):
    total = report["steps"] + report["long_steps"] + report["practice_steps"]
    practice = f", and at the end {report['practice_steps']:,} steps of practice in short exact answers" if report["practice_steps"] else ""
    return (f"Trained from scratch on a CPU for {total:,} steps of {TOKENS_PER_STEP:,} tokens, {report['tokens_seen']:,} tokens "
            f"in all: {report['steps']:,} steps with sequences of {SHORT_LENGTH} tokens and {report['long_steps']:,} with sequences of "
            f"{LONG_LENGTH:,} tokens{practice}. AdamW, peak learning rate {report['learning_rate']:g}, with a warm-up at the start and half a cosine at the end; "
            f"about {report['minutes']:.0f} minutes of training on one core of a busy machine. Two of its heads began as a copying circuit "
            "(`scripts/demo_model/copy_circuit.py`), which a model of this size is slow to find by itself.\n\n"
            "All training text comes from the generator in `scripts/demo_model/`, which was written for this purpose: "
            "short stories and chats with right answers. No other text was used. "
            "`scripts/demo_model/README.md` tells how to make the model again.")


def accuracy_table(figures):
    rows = ["| Held-out instructions | Exactly right |", "|---|---|"]
    rows += [f"| {KIND_NAMES[kind]} | {100 * share:.1f} % |" for kind, share in figures["accuracy"].items()]
    return "\n".join(rows)


def results_text(figures):
    checks = figures["story_checks"]
    return (f"Held-out text (stories and chats as in training, other seeds, and in half of it pairs of names and objects "
            f"that training text never contains), {figures['held_out_tokens']:,} tokens: loss {figures['held_out_loss']:.4f} "
            f"per token, perplexity {figures['held_out_perplexity']:.3f}. Plain held-out stories alone, "
            f"{figures['story_tokens']:,} tokens: loss {figures['story_loss']:.4f}, perplexity {figures['story_perplexity']:.3f}.\n\n"
            f"{accuracy_table(figures)}\n\n"
            f"Greedy decoding, {figures['cases']} tasks of each kind, compared as whole strings. In stories asked for by name and "
            f"object (sampled, temperature 0.7, top-p 0.95, {max(1, figures['cases'] // 2)} stories): {100 * checks['ended']:.0f} % end by themselves within "
            f"420 tokens, {100 * checks['hero']:.0f} % contain the named character, {100 * checks['object']:.0f} % the named "
            f"object, and {100 * checks['cast']:.0f} % keep to a cast of at most two names. There are only so many greetings and "
            f"counting tasks, so most of those also occur in the training text.")


def samples_text(samples):
    parts = []
    for sample in samples:
        how = "sampled, temperature 0.7, top-p 0.95" if sample["sampled"] else "greedy"
        form = "chat" if sample["form"] == "chat" else "plain text"
        quoted = "\n".join(f"> {line}".rstrip() for line in (sample["text"] or "(did not end)").strip().split("\n"))
        parts.append(f"Prompt ({form}, {how}): `{sample['prompt']}`\n\n{quoted}")
    return "\n\n".join(parts)


def model_card(name, figures, report):
    """The whole card; the one of the draft model has fewer samples."""
    samples = figures["samples"] if name == "demo" else figures["samples"][:1]
    sections = [f"# nanovllm {name}", PURPOSE[name], architecture_table(name, figures), "## How it was made", training_text(report),
                "## What it can do", results_text(figures), "## Samples", samples_text(samples), "## Limits", LIMITS,
                "## Licence", "Apache-2.0, like nanovllm itself."]
    return front_matter() + "\n" + "\n\n".join(sections) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=list(SIZES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("figures", type=Path, help="written by evaluate.py")
    parser.add_argument("report", type=Path, help="written by train.py")
    arguments = parser.parse_args()
    card = model_card(arguments.model, json.loads(arguments.figures.read_text()), json.loads(arguments.report.read_text()))
    (arguments.folder / "README.md").write_text(card, encoding="utf-8")


if __name__ == "__main__":
    main()
