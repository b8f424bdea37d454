"""A model quantized by llm-compressor, by a recipe and samples that nvllm-quantize takes too.

Usage: llm_compressor.py MODEL RECIPE.yaml SAMPLES.jsonl OUTPUT [THREADS]
SAMPLES has one {"text": ...} a line; each is one sample, beginning token included. THREADS is 1 where nothing is said: matrices of small
models are so small that more threads wait for each other. Prints the seconds that it took, and when each block was solved.
Runs in an environment with llmcompressor and its dependencies, of which nothing is part of this project.
"""

import json
import pathlib
import sys
import time

import torch
from datasets import Dataset
from llmcompressor import oneshot
from llmcompressor.core import LifecycleCallbacks
from transformers import AutoModelForCausalLM, AutoTokenizer

MOST_TOKENS = 2048


def note_solved_blocks(times):
    """Appends when the work on each part of the model was done: the embedding, then block after block."""
    solve = LifecycleCallbacks.sequential_epoch_end

    def solve_and_note(*arguments, **named):
        event = solve(*arguments, **named)
        times.append(time.monotonic())
        return event

    LifecycleCallbacks.sequential_epoch_end = solve_and_note


def main():
    model_path, recipe, samples, output = map(pathlib.Path, sys.argv[1:5])
    torch.set_num_threads(int(sys.argv[5]) if len(sys.argv) > 5 else 1)
    torch.manual_seed(0)
    torch.Tensor.pin_memory = lambda tensor, *_: tensor  # its AWQ pins memory even where there is no GPU
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    model = AutoModelForCausalLM.from_pretrained(model_path, dtype="auto")
    length = min(MOST_TOKENS, model.config.max_position_embeddings)
    texts = [json.loads(line)["text"] for line in samples.read_text().splitlines()]
    rows = [tokenizer(text, truncation=True, max_length=length) for text in texts]
    data = Dataset.from_list([{"input_ids": row["input_ids"], "attention_mask": row["attention_mask"]} for row in rows])
    solved = []
    note_solved_blocks(solved)
    begin = time.monotonic()
    oneshot(model=model, tokenizer=tokenizer, dataset=data, recipe=str(recipe), output_dir=str(output), max_seq_length=length,
            num_calibration_samples=len(texts), shuffle_calibration_samples=False)
    print(json.dumps({"seconds": time.monotonic() - begin, "samples": len(texts), "tokens": sum(len(row["input_ids"]) for row in rows),
                      "solved_at": [moment - begin for moment in solved]}))


if __name__ == "__main__":
    main()
