"""LoRA adapters made by the tests, in PEFT's format, and what merging them into their base model gives."""

import json
import math
import pathlib
import random
import re
import shutil
import struct

from programs import DEMO, SHARED
from tensors import read_tensors, write_tensors

# In builds that are slowed down. Dense, fused, with states, latent attention, experts stored apart and together, two ways of names.
SOME_FAMILIES = ("llama", "gpt2", "phi3", "gemma3", "qwen3_next", "deepseek_v3", "mixtral", "granite4_moe", "mamba2")
PROMPT = [5, 9, 11, 20, 7, 3, 40, 60, 33, 12]
# What is no linear of its own, and what is one that adapters do not change.
NOT_ADAPTED = re.compile(r"embed|wte|wpe|norm|conv|router|statics|\.gate(\.wg)?$|kv_b_proj|layers?$")
SIZES = {"F32": 4, "BF16": 2, "F16": 2}


def floats(tensor):
    """The values of a stored tensor."""
    dtype, _, data = tensor
    if dtype == "F32":
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    if dtype == "F16":
        return list(struct.unpack(f"<{len(data) // 2}e", data))
    words = struct.unpack(f"<{len(data) // 2}H", data)
    return list(struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *(word << 16 for word in words))))


def float32(shape, values):
    return "F32", list(shape), struct.pack(f"<{len(values)}f", *values)


def rounded(values):
    """As float32 has them."""
    return struct.unpack(f"<{len(values)}f", struct.pack(f"<{len(values)}f", *values))


class Adapter:
    """Random matrices for linears of a model, by their names in the checkpoint, of which `linears` gives [out, in]."""

    def __init__(self, linears, rank=4, alpha=8.0, seed=0, size=0.6, **config):
        generator = random.Random(seed)
        self.rank, self.scale, self.linears = rank, alpha / rank, linears
        self.config = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": alpha, "bias": "none",
                       "target_modules": sorted({name.rsplit(".", 1)[1] for name in linears if "." in name}), **config}
        self.a = {name: rounded([generator.gauss(0, shape[1] ** -0.5) for _ in range(rank * shape[1])])
                  for name, shape in linears.items()}
        self.b = {name: rounded([generator.gauss(0, size * rank ** -0.5 / self.scale) for _ in range(shape[0] * rank)])
                  for name, shape in linears.items()}

    def write(self, folder, prefix="base_model.model."):
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {}
        for name, (out, width) in self.linears.items():
            tensors[f"{prefix}{name}.lora_A.weight"] = float32([self.rank, width], self.a[name])
            tensors[f"{prefix}{name}.lora_B.weight"] = float32([out, self.rank], self.b[name])
        (folder / "adapter_config.json").write_text(json.dumps(self.config))
        write_tensors(folder / "adapter_model.safetensors", tensors)
        return folder

    def delta(self, name):
        """scale * B A, [out, in] row by row."""
        out, width = self.linears[name]
        a, b, rank = self.a[name], self.b[name], self.rank
        rows = [a[r * width:(r + 1) * width] for r in range(rank)]
        made = []
        for o in range(out):
            factors = [self.scale * b[o * rank + r] for r in range(rank)]
            made.extend(sum(factor * row[i] for factor, row in zip(factors, rows)) for i in range(width))
        return made


def merged(model, adapter, folder, is_in_out=lambda name: False):
    """A copy of the model, in float32, with the adapter in its weights. `is_in_out`: linears that are stored [in, out]."""
    folder = pathlib.Path(folder)
    shutil.copytree(model, folder)
    tensors = {name: float32(tensor[1], floats(tensor)) for name, tensor in read_tensors(folder / "model.safetensors").items()}
    for name, (out, width) in adapter.linears.items():
        _, shape, _ = tensors[name + ".weight"]
        delta = adapter.delta(name)
        if is_in_out(name):
            delta = [delta[o * width + i] for i in range(width) for o in range(out)]
        values = floats(tensors[name + ".weight"])
        tensors[name + ".weight"] = float32(shape, [value + change for value, change in zip(values, delta)])
    write_tensors(folder / "model.safetensors", tensors)
    config = json.loads((folder / "config.json").read_text())
    config["torch_dtype" if "torch_dtype" in config else "dtype"] = "float32"
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def is_in_out(name):
    return re.search(r"\bh\.\d+\.(attn|mlp)\.c_", name) is not None


def linears_of(model):
    """The linears of a checkpoint by name: [out, in]."""
    found = {}
    for name, (_, shape, _) in read_tensors(model / "model.safetensors").items():
        module = name.removesuffix(".weight")
        if module == name or len(shape) != 2 or NOT_ADAPTED.search(module):
            continue
        found[module] = tuple(reversed(shape)) if is_in_out(module) else tuple(shape)
    return found


def request(adapter, prompt=PROMPT, **more):
    return {"prompt": prompt, "adapter": adapter, "max_tokens": 12, "temperature": 0, "logprobs": 1, "ignore_eos": True, **more}


def modules(adapters):
    """As options: adapters by name and folder."""
    return [word for name, folder in adapters.items() for word in ("--lora-modules", f"{name}={folder}")]


def logprobs(answer):
    return [token["logprob"] for token in answer["logprobs"]["content"]]


def compare_with_peft(test, case, answer, tolerance=1e-4):
    """Until two tokens were about as likely. Logarithms of probabilities may differ by `tolerance`."""
    for step, (ours, expected) in enumerate(zip(answer["token_ids"], case["greedy_ids"], strict=True)):
        if ours != expected:
            test.assertLess(case["margins"][step], max(0.01, 2 * tolerance), f"case {case['index']}, step {step}: {ours} for {expected}")
            return
        test.assertTrue(math.isclose(logprobs(answer)[step], case["logprobs"][step], abs_tol=tolerance))


def peft_cases():
    """The models of the shared adapters by name, and the cases."""
    lines = (SHARED / "adapters" / "expected.jsonl").read_text().splitlines()
    models = {"stories260k": SHARED / "models" / "stories260k", "capp-gpt2": SHARED / "models" / "capp-gpt2", "demo": DEMO}
    return models, [json.loads(line) for line in lines]
