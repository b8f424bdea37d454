"""Trains the demo model or its draft sibling on generated text and exports it in the Hugging Face layout."""

import argparse
import json
import math
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from dataset import as_sequences, packed_tokens
from stories import HELD_OUT_SEED, TRAIN_SEED

SIZES = {
    "demo": {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2},
    "demo-draft": {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1},
}
# Steps as they were really trained: (steps with short sequences, steps with long sequences).
STEPS = {"demo": (6400, 600), "demo-draft": (3400, 200)}
SHORT_LENGTH, LONG_LENGTH = 512, 2048
TOKENS_PER_STEP = 2048
HEAD_DIMENSION, ROPE_THETA, MAXIMUM_POSITIONS, NORM_EPSILON = 64, 10000.0, 2048, 1e-5
WARM_UP_STEPS, FINAL_RATE_SHARE, WEIGHT_DECAY, CLIP_NORM = 150, 0.02, 0.1, 1.0
CHECK_TOKENS = 32_768


def build_model(name, tokenizer):
    """A randomly initialised Llama of the named size."""
    config = LlamaConfig(**SIZES[name], vocab_size=len(tokenizer), head_dim=HEAD_DIMENSION, rms_norm_eps=NORM_EPSILON,
                         max_position_embeddings=MAXIMUM_POSITIONS, tie_word_embeddings=True,
                         rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
                         bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id,
                         pad_token_id=tokenizer.pad_token_id, attention_bias=False, mlp_bias=False)
    return LlamaForCausalLM._from_config(config, attn_implementation="sdpa")


def build_optimizer(model, learning_rate):
    """AdamW; the norms are not decayed."""
    matrices = [parameter for parameter in model.parameters() if parameter.ndim >= 2]
    vectors = [parameter for parameter in model.parameters() if parameter.ndim < 2]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=(0.9, 0.98), fused=True)


def learning_rate_at(step, total, peak):
    """Linear warm-up, then a cosine down to a small share of the peak."""
    if step < WARM_UP_STEPS:
        return peak * (step + 1) / WARM_UP_STEPS
    progress = (step - WARM_UP_STEPS) / max(1, total - WARM_UP_STEPS)
    return peak * (FINAL_RATE_SHARE + (1 - FINAL_RATE_SHARE) * 0.5 * (1 + math.cos(math.pi * progress)))


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


def prepare_batches(tokenizer, short_steps, long_steps):
    """All batches of the run in order: first short sequences, then long ones."""
    short = as_sequences(packed_tokens(tokenizer, TRAIN_SEED, short_steps * TOKENS_PER_STEP), SHORT_LENGTH)
    batches = list(torch.from_numpy(short).split(TOKENS_PER_STEP // SHORT_LENGTH))[:short_steps]
    if long_steps:
        long = as_sequences(packed_tokens(tokenizer, TRAIN_SEED + 1, long_steps * TOKENS_PER_STEP, long_chats=True), LONG_LENGTH)
        batches += list(torch.from_numpy(long).split(TOKENS_PER_STEP // LONG_LENGTH))[:long_steps]
    return batches


def save_checkpoint(path, model, optimizer, step):
    """Everything that a run needs to go on from here."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)


def train(arguments, tokenizer):
    """The training loop; returns the model and what is worth knowing about the run."""
    torch.manual_seed(arguments.seed)
    model = build_model(arguments.model, tokenizer)
    optimizer = build_optimizer(model, arguments.learning_rate)
    first_step = 0
    if arguments.resume:
        state = torch.load(arguments.resume)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first_step = state["step"]
    batches = prepare_batches(tokenizer, arguments.steps, arguments.long_steps)
    check = torch.from_numpy(as_sequences(packed_tokens(tokenizer, HELD_OUT_SEED, CHECK_TOKENS, held_out=True), SHORT_LENGTH))
    started, total = time.time(), len(batches)
    for step in range(first_step, total):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step, total, arguments.learning_rate)
        loss = next_token_loss(model, batches[step])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if (step + 1) % 50 == 0:
            rate = (step + 1 - first_step) * TOKENS_PER_STEP / (time.time() - started)
            print(f"step {step + 1}/{total} loss {loss.item():.4f} {rate:.0f} tokens/s", flush=True)
        if (step + 1) % arguments.save_every == 0 or step + 1 == total:
            print(f"step {step + 1} held-out loss {held_out_loss(model, check):.4f}", flush=True)
            save_checkpoint(arguments.checkpoints / f"{arguments.model}-{step + 1}.pt", model, optimizer, step + 1)
    return model, {"steps": arguments.steps, "long_steps": arguments.long_steps, "tokens_seen": total * TOKENS_PER_STEP,
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
    parser.add_argument("--steps", type=int, help="steps with short sequences (default: as the bundled model)")
    parser.add_argument("--long-steps", type=int, help="final steps with long sequences (default: as the bundled model)")
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save-every", type=int, default=500)
    parser.add_argument("--checkpoints", type=Path, default=Path("checkpoints"))
    parser.add_argument("--resume", type=Path, help="go on from this checkpoint")
    arguments = parser.parse_args()
    short_steps, long_steps = STEPS[arguments.model]
    arguments.steps = short_steps if arguments.steps is None else arguments.steps
    arguments.long_steps = long_steps if arguments.long_steps is None else arguments.long_steps
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
