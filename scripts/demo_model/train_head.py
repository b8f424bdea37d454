"""Trains a draft head of the demo model, in a published layout: EAGLE, EAGLE-3, or a next-token layer in MiMo's layout.

The target stays as it is; the head learns to give the target's distribution of the token after next. As in use, it also goes on from
its own states: of each row a chain of further tokens is drafted, over the keys that the target's states gave and the chain's own
(training-time test, EAGLE-3, Li et al. 2025).
"""

import argparse
import json
import math
import time
from pathlib import Path

import numpy
import torch
from safetensors.torch import save_file
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer

from dataset import packed_sequences
from stories import HELD_OUT_SEED, TRAIN_SEED
from train import CLIP_NORM, NORM_EPSILON, ROPE_THETA, SHORT_LENGTH, TOKENS_PER_STEP, learning_rate_at

METHODS = ("eagle", "eagle3", "mtp")
STEPS, LEARNING_RATE, DECAY_SHARE = 1500, 2e-3, 0.5
INTERMEDIATE = 256
# Of EAGLE-3: the target's layers that are done where a state is taken, and the tokens that the head knows.
AUX_LAYERS, DRAFT_VOCABULARY, COUNTED_SEQUENCES = (1, 2, 3), 768, 400
CHAIN, CHAIN_DECAY = 4, 0.8
CHECK_SEQUENCES = 32
# What a layout calls the parts around its block.
NAMES = {
    "eagle": {"block": "layers.0", "join": "fc"},
    "eagle3": {"block": "midlayer", "fuse": "fc", "embedding_norm": "midlayer.input_layernorm", "hidden_norm": "midlayer.hidden_norm",
               "final_norm": "norm", "head": "lm_head"},
    "mtp": {"block": "model.mtp_layers.0", "join": "model.mtp_layers.0.input_proj", "embedding_norm": "model.mtp_layers.0.token_layernorm",
            "hidden_norm": "model.mtp_layers.0.hidden_layernorm", "final_norm": "model.mtp_layers.0.final_layernorm",
            "first_norm": "model.mtp_layers.0.input_layernorm"},
}


def rms(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + NORM_EPSILON) * weight


def rotate(x, positions):
    """x: [batch, heads, tokens, size]; the halves of a head are the pairs."""
    half = x.shape[-1] // 2
    angles = positions[:, None].float() / ROPE_THETA ** (torch.arange(half) / half)
    cos, sin = torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Head(torch.nn.Module):
    """The head's tensors by their published names, and a drafted chain over them."""

    def __init__(self, method, target, target_ids=None):
        super().__init__()
        self.method, self.names, self.config = method, NAMES[method], target.config
        self.embedding = target.model.embed_tokens.weight.detach().float()
        self.target_ids = target_ids
        hidden, size = self.config.hidden_size, self.config.head_dim
        self.heads, self.kv_heads = self.config.num_attention_heads, self.config.num_key_value_heads
        block, reads = self.names["block"], 2 * hidden if method == "eagle3" else hidden
        shapes = {f"{block}.self_attn.q_proj": (self.heads * size, reads), f"{block}.self_attn.k_proj": (self.kv_heads * size, reads),
                  f"{block}.self_attn.v_proj": (self.kv_heads * size, reads), f"{block}.self_attn.o_proj": (hidden, self.heads * size),
                  f"{block}.mlp.gate_proj": (INTERMEDIATE, hidden), f"{block}.mlp.up_proj": (INTERMEDIATE, hidden),
                  f"{block}.mlp.down_proj": (hidden, INTERMEDIATE)}
        if "join" in self.names:
            shapes[self.names["join"]] = (hidden, 2 * hidden)
        if "fuse" in self.names:
            shapes[self.names["fuse"]] = (hidden, len(AUX_LAYERS) * hidden)
        if "head" in self.names:
            shapes[self.names["head"]] = (len(target_ids), hidden)
        made = {f"{name}.weight": torch.randn(shape) / math.sqrt(shape[1]) for name, shape in shapes.items()}
        if "head" in self.names:
            made[f"{self.names['head']}.weight"] = self.embedding[target_ids].clone()
        made[f"{block}.post_attention_layernorm.weight"] = torch.ones(hidden)
        made |= {f"{self.names[norm]}.weight": torch.ones(hidden) for norm in ("embedding_norm", "hidden_norm", "final_norm", "first_norm")
                 if norm in self.names}
        if method == "mtp":
            made |= {f"{block}.self_attn.{part}_proj.bias": torch.zeros(made[f"{block}.self_attn.{part}_proj.weight"].shape[0]) for part in "qkv"}
        self.index = {name: f"tensor_{number}" for number, name in enumerate(made)}
        for name, tensor in made.items():
            self.register_parameter(self.index[name], torch.nn.Parameter(tensor))

    def tensors(self):
        return {name: getattr(self, attribute) for name, attribute in self.index.items()}

    def linear(self, name, x):
        bias = self.index.get(f"{name}.bias")
        return functional.linear(x, getattr(self, self.index[f"{name}.weight"]), bias and getattr(self, bias))

    def norm(self, part, x):
        name = self.names.get(part)
        return rms(x, getattr(self, self.index[f"{name}.weight"])) if name else x

    def attention(self, x, positions, cache):
        """Row i sees the rows up to i of the chain's first step, and its own rows of later steps; `cache` holds keys and values."""
        name, (batch, tokens, _) = self.names["block"] + ".self_attn", x.shape
        q, k, v = (self.linear(f"{name}.{part}_proj", x).view(batch, tokens, -1, self.config.head_dim).transpose(1, 2) for part in "qkv")
        k = rotate(k, positions)
        cache.append(tuple(t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v)))
        q = rotate(q, positions) / math.sqrt(self.config.head_dim)
        first_k, first_v = cache[0]
        scores = [q @ first_k.transpose(2, 3) + torch.full((tokens, tokens), -torch.inf).triu(1)]
        scores += [(q * later_k).sum(-1, keepdim=True) for later_k, _ in cache[1:]]
        weights = torch.cat(scores, -1).softmax(-1)
        mixed = weights[..., :tokens] @ first_v
        for step, (_, later_v) in enumerate(cache[1:]):
            mixed = mixed + weights[..., tokens + step, None] * later_v
        return self.linear(f"{name}.o_proj", mixed.transpose(1, 2).reshape(batch, tokens, -1))

    def step(self, token_ids, hidden, positions, cache):
        """The state of each row from the token after it and the state before; and what the next step goes on from."""
        embedding, state = self.norm("embedding_norm", self.embedding[token_ids]), self.norm("hidden_norm", hidden)
        both = torch.cat([state, embedding] if self.method == "mtp" else [embedding, state], -1)
        if "join" in self.names:
            residual = self.linear(self.names["join"], both)
            reads = self.norm("first_norm", residual)
        else:
            residual, reads = hidden, both
        out = residual + self.attention(reads, positions, cache)
        block = self.names["block"]
        x = rms(out, getattr(self, self.index[f"{block}.post_attention_layernorm.weight"]))
        gated = functional.silu(self.linear(f"{block}.mlp.gate_proj", x)) * self.linear(f"{block}.mlp.up_proj", x)
        out = out + self.linear(f"{block}.mlp.down_proj", gated)
        normed = self.norm("final_norm", out)
        return normed, normed if self.method == "mtp" else out

    def logits(self, state):
        """Over the head's own tokens."""
        return self.linear(self.names["head"], state) if "head" in self.names else functional.linear(state, self.embedding)


@torch.no_grad()
def target_states(target, method, batch):
    """What the head reads of the target, and the target's logits."""
    given = target(input_ids=batch, use_cache=False, output_hidden_states=True)
    states = given.hidden_states
    return (torch.cat([states[layer] for layer in AUX_LAYERS], -1) if method == "eagle3" else states[-1]), given.logits


def chain_steps(head, target, batch):
    """Of each step of a drafted chain: the head's logits and the target's logits of the same tokens, [batch, rows, vocabulary]."""
    states, wanted = target_states(target, head.method, batch)
    rows = batch.shape[1] - CHAIN - 1
    hidden = head.linear(head.names["fuse"], states[:, :rows]) if "fuse" in head.names else states[:, :rows]
    cache = []
    for step in range(CHAIN):
        positions = torch.arange(rows) + step
        normed, hidden = head.step(batch[:, 1 + step:1 + step + rows], hidden, positions, cache)
        yield head.logits(normed), wanted[:, 1 + step:1 + step + rows]


def chain_loss(head, target, batch):
    """Cross-entropy with the target's distribution, later steps with less weight."""
    total = 0.0
    for step, (given, wanted) in enumerate(chain_steps(head, target, batch)):
        if head.target_ids is not None:
            wanted = wanted[..., head.target_ids]
        total = total + CHAIN_DECAY ** step * functional.cross_entropy(given.flatten(0, 1), wanted.softmax(-1).flatten(0, 1))
    return total / sum(CHAIN_DECAY ** step for step in range(CHAIN))


@torch.no_grad()
def held_out_agreement(head, target, sequences):
    """By step of the chain: the share of rows whose drafts up to it are the target's greedy tokens after the text's own."""
    right = numpy.zeros(CHAIN)
    for batch in sequences.split(4):
        all_right = True
        for step, (given, wanted) in enumerate(chain_steps(head, target, batch)):
            drafted = given.argmax(-1)
            if head.target_ids is not None:
                drafted = head.target_ids[drafted]
            all_right = (drafted == wanted.argmax(-1)) & all_right
            right[step] += all_right.float().mean().item() * len(batch)
    return right / len(sequences)


def frequent_tokens(tokenizer, count):
    """Ids of the tokens that training text has most, in order of their ids; the end token is among them."""
    counts = numpy.zeros(len(tokenizer))
    for sequence in packed_sequences(tokenizer, TRAIN_SEED, COUNTED_SEQUENCES, SHORT_LENGTH):
        counts += numpy.bincount(sequence, minlength=len(tokenizer))
    counts[tokenizer.eos_token_id] = numpy.inf
    return torch.from_numpy(numpy.sort(numpy.argsort(-counts, kind="stable")[:count]))


def train(head, target, tokenizer, arguments):
    optimizer = torch.optim.AdamW(head.parameters(), lr=arguments.learning_rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    rows = TOKENS_PER_STEP // SHORT_LENGTH
    sequences = packed_sequences(tokenizer, TRAIN_SEED + 3, arguments.steps * rows, SHORT_LENGTH)
    check = torch.from_numpy(numpy.stack(list(packed_sequences(tokenizer, HELD_OUT_SEED, CHECK_SEQUENCES, SHORT_LENGTH, held_out=True))))
    started = time.time()
    for step in range(arguments.steps):
        batch = torch.from_numpy(numpy.stack([next(sequences) for _ in range(rows)]))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step, arguments.steps, arguments.learning_rate, DECAY_SHARE)
        loss = chain_loss(head, target, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(head.parameters(), CLIP_NORM)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if (step + 1) % 50 == 0 or step + 1 == arguments.steps:
            agreement = held_out_agreement(head, target, check)
            print(f"step {step + 1}/{arguments.steps} loss {loss.item():.4f} held-out agreement {numpy.round(agreement, 4).tolist()} "
                  f"{time.time() - started:.0f} s", flush=True)
            export(head, arguments.folder)
    return {"method": head.method, "steps": arguments.steps, "tokens_seen": arguments.steps * TOKENS_PER_STEP,
            "minutes": round((time.time() - started) / 60, 1), "agreement": agreement.tolist()}


def settings(head):
    """The contents of config.json, as the layout has it."""
    target = head.config
    made = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": target.hidden_size, "intermediate_size": INTERMEDIATE,
            "num_hidden_layers": 1, "num_attention_heads": head.heads, "num_key_value_heads": head.kv_heads, "head_dim": target.head_dim,
            "vocab_size": target.vocab_size, "max_position_embeddings": target.max_position_embeddings, "rms_norm_eps": NORM_EPSILON,
            "rope_theta": ROPE_THETA, "hidden_act": "silu", "tie_word_embeddings": head.method == "mtp", "torch_dtype": "bfloat16",
            "bos_token_id": target.bos_token_id, "eos_token_id": target.eos_token_id}
    if head.method == "eagle3":
        made |= {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": len(head.target_ids),
                 "eagle_config": {"eagle_aux_hidden_state_layer_ids": list(AUX_LAYERS), "use_aux_hidden_state": True}}
    if head.method == "mtp":
        made |= {"architectures": ["MiMoForCausalLM"], "model_type": "mimo", "num_hidden_layers": target.num_hidden_layers,
                 "num_nextn_predict_layers": 1, "attention_bias": True}
    return made


def export(head, folder):
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().to(torch.bfloat16).contiguous() for name, tensor in head.tensors().items()}
    if head.method == "eagle3":
        known = torch.zeros(head.config.vocab_size, dtype=torch.bool)
        known[head.target_ids] = True
        tensors |= {"d2t": head.target_ids - torch.arange(len(head.target_ids)), "t2d": known}
    if head.method == "mtp":
        tensors["model.embed_tokens.weight"] = head.embedding.to(torch.bfloat16)
    save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(settings(head), indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("method", choices=METHODS)
    parser.add_argument("target", type=Path, help="the folder of the model that the head is for")
    parser.add_argument("folder", type=Path, help="where the head goes")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--learning-rate", type=float, default=LEARNING_RATE)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--report", type=Path, help="where figures go, for the model card")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    tokenizer = AutoTokenizer.from_pretrained(arguments.target)
    target = AutoModelForCausalLM.from_pretrained(arguments.target, dtype=torch.float32, attn_implementation="sdpa").eval()
    target_ids = frequent_tokens(tokenizer, DRAFT_VOCABULARY) if arguments.method == "eagle3" else None
    report = train(Head(arguments.method, target, target_ids), target, tokenizer, arguments)
    if arguments.report:
        arguments.report.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
