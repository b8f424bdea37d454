#!/usr/bin/env python3
"""Writes a checkpoint of random bfloat16 weights in the shape of Llama-3.2-1B, to measure starts and speed.

Usage: make_checkpoint.py FOLDER. Needs nothing but Python: values are random bits with small exponents.
"""

import json
import os
import pathlib
import random
import struct
import sys

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192,
    "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256,
    "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": True,
    "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192},
    "torch_dtype": "bfloat16", "bos_token_id": 128000, "eos_token_id": 128001,
}


def tensors():
    """Names and shapes, as transformers names them."""
    hidden, inner = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    kv = CONFIG["num_key_value_heads"] * CONFIG["head_dim"]
    yield "model.embed_tokens.weight", [CONFIG["vocab_size"], hidden]
    for layer in range(CONFIG["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        yield f"{name}.input_layernorm.weight", [hidden]
        for projection, rows in (("q", hidden), ("k", kv), ("v", kv), ("o", hidden)):
            yield f"{name}.self_attn.{projection}_proj.weight", [rows, hidden]
        yield f"{name}.post_attention_layernorm.weight", [hidden]
        yield f"{name}.mlp.gate_proj.weight", [inner, hidden]
        yield f"{name}.mlp.up_proj.weight", [inner, hidden]
        yield f"{name}.mlp.down_proj.weight", [hidden, inner]
    yield "model.norm.weight", [hidden]


def random_chunk(values):
    """Random bfloat16 values with magnitudes from 1/256 to 1/16."""
    generator = random.Random(0)
    return b"".join(struct.pack("<H", generator.choice((0x3B80, 0xBB80)) + generator.randrange(0x200)) for _ in range(values))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    header, offset = {}, 0
    for name, shape in tensors():
        size = 2
        for dimension in shape:
            size *= dimension
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    chunk = random_chunk(1 << 19)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors():
            left = header[name]["data_offsets"][1] - header[name]["data_offsets"][0]
            while left > 0:
                file.write(chunk[:left])
                left -= min(left, len(chunk))
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    main()
