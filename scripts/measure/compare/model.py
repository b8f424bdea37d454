"""Bytes and floating-point operations of a model, from its config.json."""

import json


class Model:
    """The embedding is read by row and multiplied only as the head."""

    def __init__(self, folder):
        config = json.loads((folder / "config.json").read_text())
        hidden, layers, head = config["hidden_size"], config["num_hidden_layers"], config["head_dim"]
        self.queries = config["num_attention_heads"] * head
        kv = config["num_key_value_heads"] * head
        layer = hidden * (2 * self.queries + 2 * kv) + 3 * hidden * config["intermediate_size"]
        self.layers, self.body, self.head = layers, layers * layer, hidden * config["vocab_size"]
        self.weight_bytes = 2 * (self.body + self.head)
        self.kv_bytes = 2 * 2 * kv * layers

    def attention(self, context):
        return 4 * self.queries * context * self.layers

    def flop_of_prompt(self, length):
        return 2 * self.body + self.attention(length / 2)

    def flop_of_token(self, context):
        return 2 * (self.body + self.head) + self.attention(context)
