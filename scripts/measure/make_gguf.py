#!/usr/bin/env python3
"""Writes a Hugging Face checkpoint of the llama, qwen3 or qwen3_5_text architecture as a GGUF file, so that llama.cpp and what comes
from it can be measured on the same weights.

Usage: make_gguf.py FOLDER FILE
       make_gguf.py ADAPTER FILE MODEL     a LoRA adapter of the llama checkpoint in the folder MODEL
Needs numpy and gguf from PyPI. The tokenizer is byte-level BPE from tokenizer.json.
"""

import json
import pathlib
import struct
import sys

import gguf
import numpy as np

LAYER_NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
# Qwen3.5's, as llama.cpp calls them.
HYBRID_NAMES = LAYER_NAMES | {
    "post_attention_layernorm": "post_attention_norm", "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_b": "ssm_beta", "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out",
}
ARCHITECTURES = {"qwen3_5_text": "qwen35"}
TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def tensors(folder):
    """Names and bfloat16 bits of all tensors, mapped from the file."""
    for path in sorted(folder.glob("*.safetensors")):
        with open(path, "rb") as file:
            size, = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size))
        data = np.memmap(path, np.uint8, "r", 8 + size)
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            if entry["dtype"] != "BF16":
                raise SystemExit(f"{name}: {entry['dtype']}, and only BF16 is written")
            begin, end = entry["data_offsets"]
            yield name, data[begin:end].view(np.uint16).reshape(entry["shape"])


def peer_name(name, is_hybrid):
    stem = name.removesuffix(".weight")
    if stem in TOP_NAMES:
        return TOP_NAMES[stem] + ".weight"
    layer, inner = stem.removeprefix("model.layers.").split(".", 1)
    vectors = {"linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias"}
    if inner in vectors:
        return f"blk.{layer}.{vectors[inner]}"
    return f"blk.{layer}.{(HYBRID_NAMES if is_hybrid else LAYER_NAMES)[inner]}.weight"


def float32(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def hybrid_values(name, bits):
    """What llama.cpp keeps in float32 of Qwen3.5: vectors and convolutions. Norm weights are stored less 1, but for those of states."""
    values = float32(np.ascontiguousarray(bits))
    if name.endswith(".A_log"):
        return -np.exp(values)
    if name.endswith("norm.weight") and ".linear_attn." not in name:
        return values + 1.0
    return values.reshape(values.shape[0], -1) if values.ndim == 3 else values


def add_states(writer, config):
    """Sizes of linear attention. REQUIRES: as many heads of values as of keys, which llama.cpp orders otherwise."""
    heads = config["linear_num_value_heads"]
    if heads != config["linear_num_key_heads"]:
        raise SystemExit("more heads of values than of keys are not written")
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    writer.add_ssm_inner_size(heads * config["linear_value_head_dim"])
    writer.add_ssm_state_size(config["linear_key_head_dim"])
    writer.add_ssm_time_step_rank(heads)
    writer.add_ssm_group_count(heads)
    writer.add_uint32("qwen35.full_attention_interval", config["full_attention_interval"])
    writer.add_rope_dimension_sections([*config["rope_parameters"]["mrope_section"], 0])


def in_pairs(bits, heads):
    """Rows of each head from halves to neighbouring pairs, as llama.cpp rotates the llama architecture."""
    rows, columns = bits.shape
    return bits.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def add_tokenizer(writer, folder, vocab_size, eos):
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    model = tokenizer["model"]
    tokens = [f"[none{i}]" for i in range(vocab_size)]
    types = [gguf.TokenType.NORMAL] * vocab_size
    for text, index in model["vocab"].items():
        tokens[index] = text
    for token in tokenizer["added_tokens"]:
        tokens[token["id"]], types[token["id"]] = token["content"], gguf.TokenType.CONTROL
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]])
    writer.add_eos_token_id(eos)
    writer.add_add_bos_token(False)


def rope_factors(config):
    """Divisors of the frequencies of Llama 3's scaling (its reference implementation)."""
    scaling, size = config["rope_scaling"], config["head_dim"]
    frequencies = config["rope_theta"] ** (-np.arange(0, size, 2) / size)
    wavelengths = 2 * np.pi / frequencies
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    original = scaling["original_max_position_embeddings"]
    smooth = np.clip((original / wavelengths - low) / (high - low), 0.0, 1.0)
    return (1.0 / ((1.0 - smooth) / scaling["factor"] + smooth)).astype(np.float32)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_adapter(folder, target, model):
    settings, config = (json.loads(path.read_text()) for path in (folder / "adapter_config.json", model / "config.json"))
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    writer = gguf.GGUFWriter(target, config["model_type"])
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", settings["lora_alpha"])
    for name, bits in tensors(folder):
        module, part = name.removeprefix("base_model.model.").removesuffix(".weight").rsplit(".", 1)
        projection = module.rsplit(".", 1)[1]
        if part == "lora_B" and projection in heads:
            bits = in_pairs(bits, heads[projection])
        writer.add_tensor(f"{peer_name(module, False)}.{part.lower()}", np.ascontiguousarray(bits).view(np.uint8),
                          raw_dtype=gguf.GGMLQuantizationType.BF16)
    finish(writer)


def main():
    folder, target = pathlib.Path(sys.argv[1]), sys.argv[2]
    if len(sys.argv) > 3:
        write_adapter(folder, target, pathlib.Path(sys.argv[3]))
        return
    config = json.loads((folder / "config.json").read_text())
    architecture = config["model_type"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    rope = config.get("rope_parameters", config)
    is_hybrid = architecture in ARCHITECTURES
    writer = gguf.GGUFWriter(target, ARCHITECTURES.get(architecture, architecture))
    writer.add_name(folder.name)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(int(config["head_dim"] * rope.get("partial_rotary_factor", 1.0)))
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    add_tokenizer(writer, folder, config["vocab_size"], config["eos_token_id"])
    if is_hybrid:
        add_states(writer, config)
    if config.get("rope_scaling"):
        writer.add_tensor("rope_freqs.weight", rope_factors(config))
    for name, bits in tensors(folder):
        if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
            bits = in_pairs(bits, heads if "q_proj" in name else kv_heads)
        if is_hybrid and bits.ndim != 2:
            writer.add_tensor(peer_name(name, is_hybrid), hybrid_values(name, bits))
        elif bits.ndim == 1:
            writer.add_tensor(peer_name(name, is_hybrid), float32(bits))
        else:
            writer.add_tensor(peer_name(name, is_hybrid), np.ascontiguousarray(bits).view(np.uint8),
                              raw_dtype=gguf.GGMLQuantizationType.BF16)
    finish(writer)


if __name__ == "__main__":
    main()
