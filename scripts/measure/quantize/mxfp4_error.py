#!/usr/bin/env python3
"""Where the error of MXFP4 comes from when x is rounded too.

Usage: mxfp4_error.py MODEL MXFP4 HELDOUT.txt [--windows 8] [--bin BIN] [--output FILE.md]
MXFP4 is what `nvllm-quantize -m MODEL --scheme MXFP4 --method rtn` wrote. Needs torch, transformers, safetensors and
compressed-tensors. Says, on the same windows of 512 tokens:
- whether codes and exponents of every linear are those that numpy finds by the written rule (nearest E2M1; the exponent of the
  group's largest magnitude, one more from a mantissa of 1.75 on, less 2), and how many differ;
- the KL divergence that nvllm-quantize measures, and that of transformers and compressed-tensors with the same files;
- that of the dense model whose linears' x alone is rounded to E2M1, by how scales are chosen, and for single linears.
"""

import argparse
import json
import pathlib
import subprocess
import sys

import numpy as np
import torch
import transformers
from safetensors.torch import load_file

SOURCE = pathlib.Path(__file__).resolve().parents[3]
CONTEXT = 512
GROUP = 32
MAGNITUDES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def nearest_codes(values):
    """Indices of the nearest magnitude, of two the even one; 8 more for negative values."""
    middles = (MAGNITUDES[1:] + MAGNITUDES[:-1]) / 2
    magnitude = np.abs(values)[..., None]
    odd = np.arange(7) % 2 == 1
    above = np.where(odd, magnitude >= middles, magnitude > middles)
    return above.sum(-1).astype(np.uint8) + 8 * np.signbit(values).astype(np.uint8)


def written_rule(weight):
    """Codes [out, in] and biased exponents [out, groups] of a float32 matrix."""
    groups = weight.reshape(weight.shape[0], -1, GROUP)
    mantissa, exponent = np.frexp(np.abs(groups).max(-1))  # mantissa from 0.5 to 1
    exponent = exponent - 1 + (mantissa >= 0.875) - 2
    codes = nearest_codes(groups / np.exp2(exponent.astype(np.float32))[..., None])
    return codes.reshape(weight.shape), (exponent + 127).astype(np.uint8)


def compare_codes(model, quantized):
    """Values and exponents that differ from the written rule's, and how many there are."""
    dense = {}
    for file in sorted(model.glob("*.safetensors")):
        dense.update(load_file(file))
    stored = {}
    for file in sorted(quantized.glob("*.safetensors")):
        stored.update(load_file(file))
    wrong = total = 0
    for name in stored:
        if not name.endswith(".weight_packed"):
            continue
        linear = name.removesuffix("_packed")
        codes, exponents = written_rule(dense[linear].float().numpy())
        packed = stored[name].numpy()
        ours = np.stack([packed & 15, packed >> 4], -1).reshape(codes.shape)
        # Of zero there are two; both are zero.
        differ = (ours != codes) & ((ours | codes) & 7 != 0)
        wrong += int(differ.sum()) + int((stored[linear + "_scale"].numpy() != exponents).sum())
        total += codes.size + exponents.size
    if total == 0:
        sys.exit(f"{quantized}: has no packed weights")
    return wrong, total


def rounded(x, rule, group):
    """x in E2M1 with a scale for each group of it."""
    parts = x.unflatten(-1, (-1, group))
    largest = parts.abs().amax(-1, keepdim=True).clamp(min=1e-30)
    exponent = torch.floor(torch.log2(largest))
    scale = {"MX": torch.exp2(exponent + (largest / torch.exp2(exponent) >= 1.75).float() - 2),
             "MX, rounded up": torch.exp2(torch.ceil(torch.log2(largest / 6))), "float": largest / 6}[rule.partition(";")[0]]
    codes = torch.from_numpy(nearest_codes((parts / scale).numpy())).long()
    values = torch.from_numpy(np.concatenate([MAGNITUDES, -MAGNITUDES]))[codes] * scale
    if rule.endswith("largest as it is"):
        values = torch.where(parts.abs() == largest, parts, values)
    if rule.endswith("largest alone"):
        values = torch.where(parts.abs() == largest, values, parts)
    return values.flatten(-2)


class Texts:
    """Windows of a text, and the divergence of models from the dense one on them."""

    def __init__(self, model, heldout, windows):
        tokenizer = transformers.AutoTokenizer.from_pretrained(model)
        ids = tokenizer(heldout.read_text()).input_ids
        if len(ids) < windows * CONTEXT:
            sys.exit(f"{heldout}: has {len(ids)} tokens, but {windows * CONTEXT} are needed")
        self.ids = torch.tensor(ids[:windows * CONTEXT]).reshape(windows, CONTEXT)
        self.dense = loaded(model)
        self.base = self.logprobs(self.dense)

    @torch.no_grad()
    def logprobs(self, model):
        return torch.cat([model(window[None]).logits.float().log_softmax(-1)[:, :-1] for window in self.ids])

    def divergence(self, logprobs):
        return (self.base.exp() * (self.base - logprobs)).sum(-1).mean().item()

    def with_rounded_x(self, rule, group, meant="", columns=slice(None)):
        """Of the dense model, these columns of the x of linears whose names have `meant` in them rounded."""
        def changed(_, inputs):
            x = inputs[0].clone()
            x[..., columns] = rounded(x, rule, group)[..., columns]
            return (x,)

        hooks = [module.register_forward_pre_hook(changed) for name, module in self.dense.named_modules()
                 if isinstance(module, torch.nn.Linear) and name != "lm_head" and meant in name]
        found = self.divergence(self.logprobs(self.dense))
        for hook in hooks:
            hook.remove()
        return found


def loaded(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


@torch.no_grad()
def decompressed(model, ids):
    """The package makes weights of 4 bits bfloat16 at the first pass, exactly, and then cannot multiply float32 with them."""
    try:
        model(ids)
    except RuntimeError:
        for parameter in model.parameters():
            parameter.data = parameter.data.float()
    return model


def measured_by_us(options):
    command = [options.bin / "nvllm-quantize", "compare", options.quantized, "-m", options.model, "--eval", options.heldout,
               "--max-seq-length", CONTEXT, "--eval-tokens", options.windows * (CONTEXT - 1), "--json"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"nvllm-quantize compare ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)["models"][0]["evaluation"]["mean_kld"]


def report(options):
    wrong, total = compare_codes(options.model, options.quantized)
    yield f"Codes and exponents of the weights that differ from numpy's: {wrong} of {total}."
    texts = Texts(options.model, options.heldout, options.windows)
    theirs = texts.divergence(texts.logprobs(decompressed(loaded(options.quantized), texts.ids[:1])))
    yield f"KL divergence over {options.windows} windows of {CONTEXT} tokens: {measured_by_us(options):.5f} by nvllm-quantize, " \
          f"{theirs:.5f} by transformers and compressed-tensors."
    yield ""
    yield "| x alone rounded to E2M1, weights dense | of all linears | of k_proj alone |\n|---|---|---|"
    for rule, group in (("MX", 32), ("MX, rounded up", 32), ("MX", 16), ("float", 32), ("float", 16), ("MX; the largest as it is", 32),
                        ("MX; the largest alone", 32)):
        yield f"| scales {rule}, groups of {group} | {texts.with_rounded_x(rule, group):.5f} | " \
              f"{texts.with_rounded_x(rule, group, 'k_proj'):.5f} |"
    yield ""
    yield "| scales MX, groups of 32 | KL divergence |\n|---|---|"
    for linear in ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"):
        yield f"| of {linear} alone | {texts.with_rounded_x('MX', 32, linear):.5f} |"
    keys = [f"layers.{layer}.self_attn.k_proj" for layer in range(texts.dense.config.num_hidden_layers)]
    costs = [texts.with_rounded_x("MX", 32, name) for name in keys]
    for name, cost in zip(keys, costs):
        yield f"| of {name} alone | {cost:.5f} |"
    worst = keys[costs.index(max(costs))]
    for first in range(0, texts.dense.config.hidden_size, GROUP):
        cost = texts.with_rounded_x("MX", 32, worst, slice(first, first + GROUP))
        yield f"| of {worst}, channels {first} to {first + GROUP - 1} alone | {cost:.5f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("quantized", type=pathlib.Path)
    parser.add_argument("heldout", type=pathlib.Path)
    parser.add_argument("--windows", type=int, default=8)
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build" / "release" / "bin")
    parser.add_argument("--output", type=pathlib.Path)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    lines = []
    for line in report(options):
        print(line, flush=True)
        lines.append(line)
    if options.output:
        options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
