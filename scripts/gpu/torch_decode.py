"""A decoder of Llama's kind in PyTorch with random weights, the peer of our rows end to end: a JSON list on standard output.

One object a batch. Bfloat16, one cache of keys and values of fixed size, scaled_dot_product_attention, greedy choice. Steps of
decode are a CUDA graph (--way graph) or plain calls (--way eager).
"""

import argparse
import json
import pathlib
import statistics
import time

import torch
import torch.nn.functional as F


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("config", type=pathlib.Path, help="config.json of the shape")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--way", choices=("graph", "eager"), default="graph")
    parser.add_argument("--batch", default="1", help="sequences at once, one number a measurement: 1,8,64")
    parser.add_argument("--prompt", type=int, default=1024)
    parser.add_argument("--output", type=int, default=128)
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


ROWS_AT_ONCE = 16  # of a prefill, whose activations would not fit otherwise


class Decoder:
    def __init__(self, config, batch, length, device):
        self.h, self.layers = config["hidden_size"], config["num_hidden_layers"]
        self.heads, self.kv = config["num_attention_heads"], config["num_key_value_heads"]
        self.d = config.get("head_dim") or self.h // self.heads
        self.qk_norm = config["model_type"] == "qwen3"
        self.eps, self.device = config["rms_norm_eps"], device

        def random(*shape):
            return torch.randn(*shape, device=device, dtype=torch.bfloat16) * 0.02

        width, i = (self.heads + 2 * self.kv) * self.d, config["intermediate_size"]
        self.embedding = random(config["vocab_size"], self.h)
        self.head = self.embedding if config.get("tie_word_embeddings") else random(config["vocab_size"], self.h)
        self.weights = [(random(width, self.h), random(self.h, self.heads * self.d), random(2 * i, self.h), random(self.h, i))
                        for _ in range(self.layers)]
        self.ones = torch.ones(max(self.h, self.d), device=device, dtype=torch.bfloat16)
        self.cache = torch.zeros(self.layers, 2, batch, self.kv, length, self.d, device=device, dtype=torch.bfloat16)
        frequencies = 1e4 ** (-torch.arange(0, self.d, 2, device=device) / self.d)
        angles = torch.arange(length, device=device)[:, None] * frequencies
        self.cosines, self.sines = angles.cos().bfloat16(), angles.sin().bfloat16()
        self.places = torch.arange(length, device=device)

    def norm(self, x):
        return F.rms_norm(x, (x.shape[-1],), self.ones[:x.shape[-1]], self.eps)

    def rotate(self, x, positions):
        cosines, sines = self.cosines[positions], self.sines[positions]
        a, b = x.chunk(2, -1)
        return torch.cat((a * cosines - b * sines, b * cosines + a * sines), -1)

    def forward(self, ids, positions, causal, first_row=0):
        """Next ids of [batch, tokens] at `positions` [tokens], whose keys and values come to the cache from `first_row` on."""
        batch, tokens = ids.shape
        x = F.embedding(ids, self.embedding)
        mask = None if causal else (self.places <= positions[-1])[None, None, None]
        for layer, (qkv, out, up, down) in enumerate(self.weights):
            q, k, v = F.linear(self.norm(x), qkv).view(batch, tokens, -1, self.d).transpose(1, 2).split(
                (self.heads, self.kv, self.kv), 1)
            if self.qk_norm:
                q, k = self.norm(q), self.norm(k)
            q, k = self.rotate(q, positions), self.rotate(k, positions)
            keys, values = self.cache[layer, :, first_row:first_row + batch]
            keys.index_copy_(2, positions, k)
            values.index_copy_(2, positions, v)
            if causal:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            else:
                y = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, enable_gqa=True)
            x = x + F.linear(y.transpose(1, 2).reshape(batch, tokens, -1), out)
            gate, value = F.linear(self.norm(x), up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * value, down)
        return F.linear(self.norm(x[:, -1:]), self.head).argmax(-1)


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def step_of(model, ids, position, way):
    """A function that computes one step from `ids` at `position` and leaves the next of both there."""
    def step():
        ids.copy_(model.forward(ids, position, causal=False))
        position.add_(1)

    if way == "eager":
        return step
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def measure(config, batch, options):
    device = torch.device(options.device)
    model = Decoder(config, batch, options.prompt + options.output + 8, device)
    prompt = torch.randint(0, config["vocab_size"], (batch, options.prompt), device=device)
    ids, position = prompt[:, :1].clone(), torch.tensor([options.prompt], device=device)
    step = step_of(model, ids, position, options.way if device.type == "cuda" else "eager")
    for row in range(0, batch, ROWS_AT_ONCE):
        part = prompt[row:row + ROWS_AT_ONCE]
        ids[row:row + ROWS_AT_ONCE].copy_(model.forward(part, model.places[:options.prompt], causal=True, first_row=row))
    synchronize(device)
    decode = []
    for _ in range(options.repeats + 1):
        position.fill_(options.prompt)
        begin = time.perf_counter()
        for _ in range(options.output - 1):
            step()
        synchronize(device)
        decode.append(time.perf_counter() - begin)
    return {"torch": torch.__version__, "way": options.way, "batch": batch, "prompt": options.prompt, "output": options.output,
            "decode tok/s": batch * (options.output - 1) / statistics.median(decode[1:])}


def main():
    options = arguments()
    config = json.loads(options.config.read_text())
    print(json.dumps([measure(config, int(batch), options) for batch in options.batch.split(",")]))


if __name__ == "__main__":
    torch.inference_mode()(main)()
