"""Trains the demo model or its draft sibling on generated text and exports it in the Hugging Face layout."""

import argparse
import json
import math
import time
from itertools import chain
from pathlib import Path

import numpy
import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from copy_circuit import install_copy_circuit, protect_copy_circuit
from dataset import packed_sequences
from stories import HELD_OUT_SEED, TRAIN_SEED

SIZES = {
    "demo": {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2},
    "demo-draft": {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1},
}
# What the bundled models were really trained with: steps with short and with long sequences, the peak learning rate,
# and the share of the steps over which the rate falls at the end.
SCHEDULES = {
    "demo": {"steps": 3070, "long_steps": 130, "practice_steps": 440, "learning_rate": 2e-3, "decay_share": 0.35},
    "demo-draft": {"steps": 2000, "long_steps": 100, "practice_steps": 0, "learning_rate": 3e-3, "decay_share": 0.4},
}
SHORT_LENGTH, LONG_LENGTH = 512, 2048
TOKENS_PER_STEP = 2048
HEAD_DIMENSION, ROPE_THETA, MAXIMUM_POSITIONS, NORM_EPSILON = 64, 10000.0, 2048, 1e-5
WARM_UP_STEPS, FINAL_RATE_SHARE = 80, 0.02
WEIGHT_DECAY, CLIP_NORM, EMBEDDING_RATE_SHARE = 0.1, 1.0, 0.35
# The copying heads stay as they are until the rest of the model has found its feet.
PROTECTED_STEPS = 1000
CHECK_SEQUENCES = 48


def build_model(name, tokenizer):
    """A randomly initialised Llama of the named size."""
    config = LlamaConfig(**SIZES[name], vocab_size=len(tokenizer), head_dim=HEAD_DIMENSION, rms_norm_eps=NORM_EPSILON,
                         max_position_embeddings=MAXIMUM_POSITIONS, tie_word_embeddings=True,
                         rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
                         bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
                         pad_token_id=tokenizer.pad_token_id, attention_bias=False, mlp_bias=False)
    return LlamaForCausalLM._from_config(config, attn_implementation="sdpa")


def build_optimizer(model, learning_rate):
    """AdamW; the embeddings learn slowly, so that tokens stay distinct and copying keeps working."""
    embedding = model.model.embed_tokens.weight
    matrices = [parameter for parameter in model.parameters() if parameter.ndim >= 2 and parameter is not embedding]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY, "rate_share": 1.0},
              {"params": vectors, "weight_decay": 0.0, "rate_share": 1.0},
              {"params": [embedding], "weight_decay": 0.0, "rate_share": EMBEDDING_RATE_SHARE}]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.98), fused=True)


def learning_rate_at(step, total, peak, decay_share):
    """Linear warm-up, a constant stretch, then half a cosine down to a small share of the peak."""
    if step < WARM_UP_STEPS:
        return peak * (step + 1) / WARM_UP_STEPS
    decay_steps = total * decay_share
    progress = max(0.0, (step - (total - decay_steps)) / decay_steps)
    return peak * (FINAL_RATE_SHARE + (1 - FINAL_RATE_SHARE) * 0.5 * (1 + math.cos(math.pi * progress)))


def practice_rate_at(progress, peak):
    """The practice phase has a cosine of its own, from half the peak down to a small share."""
    return peak * max(FINAL_RATE_SHARE, 0.25 * (1 + math.cos(math.pi * progress)))


def next_token_loss(model, batch):
    """Mean cross-entropy of every token but the first."""
    logits = model(input_ids=batch, use_cache=False).logits
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch[:, 1:].flatten())


@torch.no_grad()
def held_out_loss(model, sequences):
    """Loss on held-out sequences, during training a quick check on a few of them."""
    model.eval()
    losses = [next_token_loss(model, batch).item() for batch in sequences.split(4)]
    model.train()
    return sum(losses) / len(losses)


def batches_of(tokenizer, seed, steps, length, **choices):
    """One batch for each step, made when it is needed."""
    rows = TOKENS_PER_STEP // length
    sequences = packed_sequences(tokenizer, seed, steps * rows, length, **choices)
    for _ in range(steps):
        yield torch.from_numpy(numpy.stack([next(sequences) for _ in range(rows)]))


def prepare_batches(tokenizer, arguments):
    """All batches of the run in order: short sequences, then long ones, then practice in exact answers."""
    return chain(batches_of(tokenizer, TRAIN_SEED, arguments.steps, SHORT_LENGTH),
                 batches_of(tokenizer, TRAIN_SEED + 1, arguments.long_steps, LONG_LENGTH, long_chats=True),
                 batches_of(tokenizer, TRAIN_SEED + 2, arguments.practice_steps, SHORT_LENGTH, practice=True))


def save_checkpoint(path, model, optimizer, step):
    """Everything that a run needs to go on from here."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)


def train(arguments, tokenizer):
    """The training loop; returns the model and what is worth knowing about the run."""
    torch.manual_seed(arguments.seed)
    model = build_model(arguments.model, tokenizer)
    install_copy_circuit(model)
    optimizer = build_optimizer(model, arguments.learning_rate)
    first_step = 0
    if arguments.resume:
        state = torch.load(arguments.resume)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first_step = state["step"]
    check = list(packed_sequences(tokenizer, HELD_OUT_SEED, CHECK_SEQUENCES, SHORT_LENGTH, held_out=True))
    check = torch.from_numpy(numpy.stack(check))
    main_steps = arguments.steps + arguments.long_steps
    started, total = time.time(), main_steps + arguments.practice_steps
    for step, batch in enumerate(prepare_batches(tokenizer, arguments)):
        if step < first_step:
            continue
        if step < main_steps:
            rate = learning_rate_at(step, main_steps, arguments.learning_rate, arguments.decay_share)
        else:
            rate = practice_rate_at((step - main_steps) / arguments.practice_steps, arguments.learning_rate)
        for group in optimizer.param_groups:
            group["lr"] = group["rate_share"] * rate
        loss = next_token_loss(model, batch)
        loss.backward()
        if step < PROTECTED_STEPS:
            protect_copy_circuit(model)
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if (step + 1) % 50 == 0:
            speed = (step + 1 - first_step) * TOKENS_PER_STEP / (time.time() - started)
            print(f"step {step + 1}/{total} loss {loss.item():.4f} {speed:.0f} tokens/s", flush=True)
        if (step + 1) % arguments.save_every == 0 or step + 1 == total:
            print(f"step {step + 1} held-out loss {held_out_loss(model, check):.4f}", flush=True)
            save_checkpoint(arguments.checkpoints / f"{arguments.model}-{step + 1}.pt", model, optimizer, step + 1)
    return model, {"steps": arguments.steps, "long_steps": arguments.long_steps,
                   "practice_steps": arguments.practice_steps, "tokens_seen": total * TOKENS_PER_STEP,
                   "minutes": round((time.time() - started) / 60, 1), "learning_rate": arguments.learning_rate}


def model_settings(name, tokenizer):
    """The contents of config.json, with the older and the newer spelling where the two differ."""
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", **SIZES[name], "vocab_size": len(tokenizer),
        "head_dim": HEAD_DIMENSION, "max_position_embeddings": MAXIMUM_POSITIONS, "rms_norm_eps": NORM_EPSILON,
        "rope_theta": ROPE_THETA, "hidden_act": "silu", "attention_bias": False, "mlp_bias": False,
        "tie_word_embeddings": True, "initializer_range": 0.02, "torch_dtype": "bfloat16", "use_cache": True,
        "bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id,
    }


def export(model, name, tokenizer, folder):
    """Write model.safetensors in bfloat16, config.json and generation_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    # The output matrix is the embedding matrix, so it is stored once.
    weights = {key: value.to(torch.bfloat16).contiguous() for key, value in model.state_dict().items() if key != "lm_head.weight"}
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    generation = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id,
                  "pad_token_id": tokenizer.pad_token_id, "do_sample": True, "temperature": 0.7, "top_p": 0.95}
    (folder / "config.json").write_text(json.dumps(model_settings(name, tokenizer), indent=2) + "\n")
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2) + "\n")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=list(SIZES))
    parser.add_argument("folder", type=Path, help="the model folder; it already holds the tokenizer")
    parser.add_argument("--steps", type=int, help="steps with short sequences (default: as the bundled model, like the next three)")
    parser.add_argument("--long-steps", type=int, help="final steps with long sequences")
    parser.add_argument("--practice-steps", type=int, help="steps after that with mostly short exact answers")
    parser.add_argument("--learning-rate", type=float, help="peak of the learning rate")
    parser.add_argument("--decay-share", type=float, help="share of the steps over which the learning rate falls")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save-every", type=int, default=500)
    parser.add_argument("--checkpoints", type=Path, default=Path("checkpoints"))
    parser.add_argument("--resume", type=Path, help="go on from this checkpoint")
    arguments = parser.parse_args()
    for name, value in SCHEDULES[arguments.model].items():
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    return arguments


def main():
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    tokenizer = AutoTokenizer.from_pretrained(arguments.folder)
    model, report = train(arguments, tokenizer)
    export(model, arguments.model, tokenizer, arguments.folder)
    (arguments.checkpoints / f"{arguments.model}-report.json").write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
