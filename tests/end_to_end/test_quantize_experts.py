"""nvllm-quantize with models whose files hold all experts of a layer in one tensor: it writes them one by one, and the result is, byte
for byte, that of the same experts stored one by one. gpt-oss's MXFP4 experts are the values that they stand for."""

import json
import random
import re
import shutil
import struct
import unittest

from family_testing import FAMILIES, ids
from programs import FolderTest, run_jsonl
from quantize_testing import digests, not_sanitized, quantize
from tensors import read_tensors, write_tensors

# By family: the stacks of a layer, and the linears that each holds with the first of its rows and the step to the next.
HALVES = (("gate_proj", 0, 1), ("up_proj", "half", 1))
LAYOUTS = {
    "gemma4_moe": {"experts.gate_up_proj": HALVES, "experts.down_proj": (("down_proj", 0, 1),)},
    "granite4_moe": {"input_linear.weight": HALVES, "output_linear.weight": (("down_proj", 0, 1),)},
    "gpt_oss": {"experts.gate_up_proj": (("gate_proj", 0, 2), ("up_proj", 1, 2)), "experts.down_proj": (("down_proj", 0, 1),)},
}
TURNED = ("gpt_oss",)  # [experts, in, out]
WORDS = 60
REQUESTS = [{"prompt_token_ids": ids(9 + 7 * seed, seed), "max_tokens": 12, "ignore_eos": True, "logprobs": 2, "temperature": 0.0} for seed in range(4)]
# gpt-oss's MXFP4: sixteen values of E2M1, and exponents of a byte.
FLOAT4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
FLOAT4 += tuple(-value for value in FLOAT4)


def rows_of(matrix, shape, turned):
    """The rows of a matrix of 2-byte values, of [in, out] if it is turned."""
    width = 2 * shape[1]
    rows = [matrix[begin:begin + width] for begin in range(0, len(matrix), width)]
    if not turned:
        return rows
    return [b"".join(row[2 * i:2 * i + 2] for row in rows) for i in range(shape[1])]


def experts_of(tensor, turned):
    """The rows of each expert's matrix; the values of each expert's vector."""
    _, shape, values = tensor
    size = len(values) // shape[0]
    parts = [values[begin:begin + size] for begin in range(0, len(values), size)]
    if len(shape) == 2:
        return [[part[i:i + 2] for i in range(0, size, 2)] for part in parts]
    return [rows_of(part, shape[1:], turned) for part in parts]


def chosen(rows, first, step, count_of_linears):
    first = len(rows) // 2 if first == "half" else first
    return rows[first:][::step][:len(rows) // count_of_linears]


def is_stack(name, tensor, family):
    return name.endswith(tuple(LAYOUTS[family])) and len(tensor[1]) == 3 or name.endswith(tuple(stack + "_bias" for stack in LAYOUTS[family]))


def taken_apart(tensors, family):
    """The same tensors, each expert's by itself."""
    apart = {}
    for name, tensor in tensors.items():
        if not is_stack(name, tensor, family):
            apart[name] = tensor
            continue
        stack, linears = next(row for row in LAYOUTS[family].items() if name.endswith((row[0], row[0] + "_bias")))
        is_bias = name.endswith("_bias")
        layer = name.removesuffix("_bias").removesuffix(stack)
        for expert, rows in enumerate(experts_of(tensor, family in TURNED)):
            for linear, first, step in linears:
                own = chosen(rows, first, step, len(linears))
                shape = [len(own)] if is_bias else [len(own), len(own[0]) // 2]
                apart[f"{layer}experts.{expert}.{linear}.{'bias' if is_bias else 'weight'}"] = (tensor[0], shape, b"".join(own))
    return apart


def copy_with(folder, source, tensors, changes=None):
    shutil.copytree(source, folder)
    write_tensors(folder / "model.safetensors", tensors)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | (changes or {})))
    words = {f"w{i}": i for i in range(WORDS)}
    (folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "unk_token": "w0", "vocab": words}}))
    return folder


def bfloat16(values):
    return b"".join(struct.pack("<f", value)[2:] for value in values)


def mxfp4_experts(shape, generator):
    """Random blocks and scales of [experts, out, in], and the dense [experts, in, out] that they stand for."""
    experts, outputs, inputs = shape
    codes = [generator.randrange(16) for _ in range(experts * outputs * inputs)]
    exponents = [generator.randrange(119, 124) for _ in range(experts * outputs * inputs // 32)]
    values = [FLOAT4[code] * 2.0 ** (exponents[i // 32] - 127) for i, code in enumerate(codes)]
    turned = [values[(expert * outputs + row) * inputs + column]
              for expert in range(experts) for column in range(inputs) for row in range(outputs)]
    blocks = bytes(codes[i] | codes[i + 1] << 4 for i in range(0, len(codes), 2))
    return {"_blocks": ("U8", [experts, outputs, inputs // 32, 16], blocks),
            "_scales": ("U8", [experts, outputs, inputs // 32], bytes(exponents))}, ("BF16", [experts, inputs, outputs], bfloat16(turned))


class StackedExperts(FolderTest):
    def folders_of(self, family):
        source = FAMILIES / family
        tensors = read_tensors(source / "model.safetensors")
        return (copy_with(self.folder / f"{family}-stacked", source, tensors),
                copy_with(self.folder / f"{family}-apart", source, taken_apart(tensors, family)))

    def quantized(self, folder, *arguments):
        out = folder.with_name(f"{folder.name}-{len(list(self.folder.iterdir()))}")
        text = self.folder / "text.txt"
        text.write_text(" ".join(f"w{i * i % WORDS}" for i in range(1200)))
        quantize("-m", folder, "-o", out, "--group-size", "channel", "--calibration", text, "--max-seq-length", 64, "--num-samples", 20,
                 *arguments)
        return out

    def answers(self, folder):
        return [(answer["token_ids"], answer["logprobs"]) for answer in run_jsonl(REQUESTS, "--dtype", "float32", model=str(folder))]

    @not_sanitized
    def test_written_like_experts_that_lie_apart(self):
        for family in LAYOUTS:
            stacked, apart = self.folders_of(family)
            with self.subTest(family=family):
                self.assertEqual(self.answers(stacked), self.answers(apart))
            for arguments in (("--method", "rtn"), ("--method", "gptq"), ("--method", "awq"), ("--method", "gptq", "--format", "gptq"),
                              ("--method", "rtn", "--scheme", "FP8_DYNAMIC")):
                with self.subTest(family=family, arguments=arguments):
                    if "--format" in arguments and family != "gpt_oss":
                        continue  # inputs that fill no words of 32 bits
                    written = [self.quantized(folder, *arguments) for folder in (stacked, apart)]
                    self.assertEqual(*[digests(folder)["model.safetensors"] for folder in written])
                    names = read_tensors(written[0] / "model.safetensors")
                    self.assertTrue(any(re.search(r"experts\.0\.up_proj\.(weight|qweight)", name) for name in names))
                    self.assertFalse([name for name, tensor in names.items() if is_stack(name, tensor, family)])
                    self.assertFalse([name for name in names if "router" in name and "packed" in name])
                    self.assertEqual(*[self.answers(folder) for folder in written])

    @not_sanitized
    def test_what_is_ignored_stays_a_stack(self):
        stacked, _ = self.folders_of("granite4_moe")
        out = self.quantized(stacked, "--method", "rtn", "--ignore", "re:.*experts.*", "--ignore", "lm_head")
        before, after = (read_tensors(folder / "model.safetensors") for folder in (stacked, out))
        stacks = [name for name, tensor in before.items() if is_stack(name, tensor, "granite4_moe")]
        self.assertEqual({name: before[name] for name in stacks}, {name: after.get(name) for name in stacks})
        self.assertIn("model.layers.1.self_attn.q_proj.weight_packed", after)
        # One of them makes all of its layer be written by themselves, and none of another layer.
        out = self.quantized(stacked, "--method", "rtn", "--targets", r"re:.*layers\.1.*experts\.3\.up_proj")
        after = read_tensors(out / "model.safetensors")
        self.assertIn("model.layers.1.block_sparse_moe.experts.3.up_proj.weight_packed", after)
        self.assertEqual({name for name, tensor in after.items() if is_stack(name, tensor, "granite4_moe")},
                         {name for name in stacks if ".layers.1." not in name})
        apart = taken_apart(before, "granite4_moe")
        name = "model.layers.1.block_sparse_moe.experts.2.down_proj.weight"
        self.assertEqual(after[name], apart[name])
        self.answers(out)

    def test_mxfp4_experts_are_the_values_they_stand_for(self):
        source = FAMILIES / "gpt_oss"
        dense = read_tensors(source / "model.safetensors")
        packed = dict(dense)
        generator = random.Random(5)
        for name in [name for name in dense if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
            experts, inputs, outputs = dense[name][1]
            parts, dense[name] = mxfp4_experts((experts, outputs, inputs), generator)
            del packed[name]
            packed |= {name + ending: tensor for ending, tensor in parts.items()}
        folders = [copy_with(self.folder / "dense", source, dense),
                   copy_with(self.folder / "mxfp4", source, packed, {"quantization_config": {"quant_method": "mxfp4"}})]
        answers = [self.answers(folder) for folder in folders]
        self.assertEqual([tokens for tokens, _ in answers[0]], [tokens for tokens, _ in answers[1]])
        pairs = [pair for one, other in zip(*answers) for pair in zip(one[1]["content"], other[1]["content"])]
        self.assertEqual(len(pairs), 48)
        self.assertLess(max(abs(a["logprob"] - b["logprob"]) for a, b in pairs), 1e-4)
        # Random experts whose values are not like those of another checkpoint: the test can tell them apart.
        self.assertNotEqual(answers[0], self.answers(source))
        self.assertEqual(*[digests(self.quantized(folder, "--method", "rtn"))["model.safetensors"] for folder in folders])


if __name__ == "__main__":
    unittest.main()
