"""Bytes and operations of a model: its shape from config.json, what is read in each step from the files."""

import copy
import json
import struct


class Model:
    """What one program works on. The embedding is read by row and multiplied only as the head."""

    def __init__(self, folder):
        config = json.loads((folder / "config.json").read_text())
        hidden, layers, head = config["hidden_size"], config["num_hidden_layers"], config["head_dim"]
        self.queries = config["num_attention_heads"] * head
        kv = config["num_key_value_heads"] * head
        layer = hidden * (2 * self.queries + 2 * kv) + 3 * hidden * config["intermediate_size"]
        self.body, self.head, self.layers = layers * layer, hidden * config["vocab_size"], layers
        self.kv_bytes = 2 * 2 * kv * layers
        self.is_tied = config.get("tie_word_embeddings", False)
        self.weight_bytes = self.bytes_of_tensors(folder)
        self.is_integer = rounds_activations(config.get("quantization_config", {}))

    def bytes_of_tensors(self, folder):
        total = 0
        for path in folder.glob("*.safetensors"):
            with open(path, "rb") as file:
                size, = struct.unpack("<Q", file.read(8))
                header = json.loads(file.read(size))
            for name, entry in header.items():
                if name == "__metadata__" or "embed_tokens" in name and not self.is_tied:
                    continue
                begin, end = entry["data_offsets"]
                total += end - begin
        return total

    def stored_as(self, gguf):
        """The same model in a GGUF file: its size says how many bits a weight has. Tied or not is the file's own affair."""
        other = copy.copy(self)
        other.is_tied = not has_head(gguf)
        weights = self.body + self.head * (1 if other.is_tied else 2)
        bits = 8 * gguf.stat().st_size / weights
        other.weight_bytes = (self.body + self.head) * bits / 8
        other.is_integer = bits < 9  # programs of llama.cpp's kind then round activations to 8 bits
        return other

    def attention(self, context):
        return 4 * self.queries * context * self.layers

    def flop_of_prompt(self, length):
        return 2 * self.body + self.attention(length / 2)

    def flop_of_token(self, context):
        return 2 * (self.body + self.head) + self.attention(context)


def has_head(gguf):
    """Whether the file has an output matrix beside the embedding. Names come with their lengths, behind the vocabulary."""
    name = b"output.weight"
    with open(gguf, "rb") as file:
        return struct.pack("<Q", len(name)) + name in file.read(64 << 20)


def rounds_activations(quantization):
    """Whether products are of integers: activations in int8, or less."""
    groups = quantization.get("config_groups", {}).values()
    activations = [group.get("input_activations") or {} for group in groups]
    return any(one.get("type") == "int" and one.get("num_bits", 16) <= 8 for one in activations)
