#!/usr/bin/env python3
"""Writes a checkpoint of random bfloat16 weights in the shape of a published model, to measure starts and speed.

Usage: make_checkpoint.py FOLDER [SHAPE [BLOCKS]] with one of llama-1b (the default), llama-8b, qwen-0.6b, qwen3.5-0.8b, and of
tiny, tiny-qwen3.5, for trying scripts out; "-full" behind a shape of Qwen3.5 gives every layer full attention: its twin to compare with.
BLOCKS takes the shape's first ones only. Needs nothing but Python: values are random bits with small exponents.
The tokenizer is the bundled demo's, filled up with tokens that no text has but that have a text. Embeddings of the demo's own tokens
are small, so that answers consist of the others: halves of characters and control tokens, which servers hide or refuse, never come.
"""

import json
import math
import os
import pathlib
import random
import shutil
import struct
import sys

SHAPES = {
    "llama-1b": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
        "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": True,
        "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 8192},
        "torch_dtype": "bfloat16", "bos_token_id": 128000, "eos_token_id": 128001,
    },
    "qwen-0.6b": {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 3072,
        "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
        "max_position_embeddings": 40960, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16", "bos_token_id": 151643, "eos_token_id": 151645,
    },
    "llama-8b": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
        "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
        "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 8192},
        "torch_dtype": "bfloat16", "bos_token_id": 128000, "eos_token_id": 128001,
    },
    "tiny": {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 1024,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 8192,
        "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16", "bos_token_id": 8190, "eos_token_id": 8191,
    },
}
# Three layers of four have linear attention.
SHAPES["qwen3.5-0.8b"] = {
    "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "hidden_size": 1024, "intermediate_size": 3584,
    "num_hidden_layers": 24, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 248320,
    "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_num_key_heads": 16, "linear_num_value_heads": 16, "max_position_embeddings": 262144, "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25,
                        "mrope_section": [11, 11, 10], "mrope_interleaved": True},
    "tie_word_embeddings": True, "dtype": "bfloat16", "bos_token_id": 248044, "eos_token_id": 248046,
}
SHAPES["tiny-qwen3.5"] = {
    **SHAPES["qwen3.5-0.8b"], "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 4, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 64, "vocab_size": 8192, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "bos_token_id": 8190, "eos_token_id": 8191,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25},
}
for hybrid in ("qwen3.5-0.8b", "tiny-qwen3.5"):
    SHAPES[f"{hybrid}-full"] = {**SHAPES[hybrid], "full_attention_interval": 1}
TOKENIZER = pathlib.Path(__file__).resolve().parents[2] / "models" / "demo"


def filled_up(vocab_size):
    """The demo's tokenizer with a token for every id."""
    tokenizer = json.loads((TOKENIZER / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    taken = set(vocabulary.values()) | {token["id"] for token in tokenizer["added_tokens"]}
    for index in range(vocab_size):
        if index not in taken:
            vocabulary[f"[unused{index}]"] = index
    return tokenizer


def linear_attention(config, name):
    hidden, value_heads = config["hidden_size"], config["linear_num_value_heads"]
    keys = config["linear_num_key_heads"] * config["linear_key_head_dim"]
    values = value_heads * config["linear_value_head_dim"]
    yield f"{name}.in_proj_qkv.weight", [2 * keys + values, hidden]
    yield f"{name}.in_proj_z.weight", [values, hidden]
    yield f"{name}.in_proj_b.weight", [value_heads, hidden]
    yield f"{name}.in_proj_a.weight", [value_heads, hidden]
    yield f"{name}.conv1d.weight", [2 * keys + values, 1, config["linear_conv_kernel_dim"]]
    yield f"{name}.A_log", [value_heads]
    yield f"{name}.dt_bias", [value_heads]
    yield f"{name}.norm.weight", [config["linear_value_head_dim"]]
    yield f"{name}.out_proj.weight", [hidden, values]


def attention(config, name):
    hidden, head = config["hidden_size"], config["head_dim"]
    queries, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    gates = queries if "full_attention_interval" in config else 0
    for projection, shape in (("q", [queries + gates, hidden]), ("k", [kv, hidden]), ("v", [kv, hidden]), ("o", [hidden, queries])):
        yield f"{name}.{projection}_proj.weight", shape
    if config["model_type"].startswith("qwen3"):
        yield f"{name}.q_norm.weight", [head]
        yield f"{name}.k_norm.weight", [head]


def tensors(config):
    """Names and shapes, as transformers names them."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    interval = config.get("full_attention_interval", 1)
    yield "model.embed_tokens.weight", [config["vocab_size"], hidden]
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        yield f"{name}.input_layernorm.weight", [hidden]
        if (layer + 1) % interval != 0:
            yield from linear_attention(config, f"{name}.linear_attn")
        else:
            yield from attention(config, f"{name}.self_attn")
        yield f"{name}.post_attention_layernorm.weight", [hidden]
        yield f"{name}.mlp.gate_proj.weight", [inner, hidden]
        yield f"{name}.mlp.up_proj.weight", [inner, hidden]
        yield f"{name}.mlp.down_proj.weight", [hidden, inner]
    yield "model.norm.weight", [hidden]
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", [config["vocab_size"], hidden]


def random_chunk(values, least=0x3B80):
    """Random bfloat16 values with magnitudes from that of the bits `least` (1/256) to 16 times that."""
    generator = random.Random(0)
    return b"".join(struct.pack("<H", generator.choice((0, 0x8000)) + least + generator.randrange(0x200)) for _ in range(values))


def write_random(file, size, chunk):
    while size > 0:
        file.write(chunk[:size])
        size -= min(size, len(chunk))


def write_embedding(file, config, size, chunk):
    """Rows of the demo's own tokens, which come first, are 64 times smaller."""
    known = json.loads((TOKENIZER / "config.json").read_text())["vocab_size"] * config["hidden_size"] * 2
    write_random(file, known, random_chunk(1 << 16, least=0x3880))
    write_random(file, size - known, chunk)


def write_header(file, shapes):
    """Of a safetensors file of bfloat16 values, given names and shapes; returns the bytes of each tensor, in their order."""
    header, sizes, offset = {}, {}, 0
    for name, shape in shapes:
        sizes[name] = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + sizes[name]]}
        offset += sizes[name]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)) + text)
    return sizes


def main():
    folder = pathlib.Path(sys.argv[1])
    config = SHAPES[sys.argv[2] if len(sys.argv) > 2 else "llama-1b"]
    if len(sys.argv) > 3:
        config = {**config, "num_hidden_layers": int(sys.argv[3])}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    shutil.copy(TOKENIZER / "tokenizer_config.json", folder)
    (folder / "tokenizer.json").write_text(json.dumps(filled_up(config["vocab_size"])))
    chunk = random_chunk(1 << 19)
    with open(folder / "model.safetensors", "wb") as file:
        for name, size in write_header(file, tensors(config)).items():
            if name == "model.embed_tokens.weight":
                write_embedding(file, config, size, chunk)
            else:
                write_random(file, size, chunk)
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    main()
