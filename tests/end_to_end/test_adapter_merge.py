"""nvllm-quantize --merge-lora: the checkpoint has W + scale B A in place of W, whatever a file keeps W in."""

import json
import math
import shutil
import unittest

from adapter_testing import SOME_FAMILIES, Adapter, compare_with_peft, float32, floats, is_in_out, linears_of, merged, peft_cases, request
from family_testing import FAMILIES
from programs import SHARED, FolderTest, needs_shared, run_jsonl
from quantize_testing import BAD_DATA, CANNOT_CREATE, USAGE, quantize
from tensors import read_tensors, write_tensors
from test_quantize_experts import taken_apart


class Merging(FolderTest):
    def merge(self, model, adapter, name="out"):
        out = self.folder / name
        done = quantize("-m", model, "--merge-lora", adapter.write(self.folder / f"{name}-adapter"), "-o", out)
        self.assertIn(f"modules    {len(adapter.linears)} merged", done.stdout)
        return read_tensors(out / "model.safetensors")

    def check_values(self, tensor, expected):
        """As bfloat16 has them."""
        self.assertEqual(tensor[0], "BF16")
        for ours, value in zip(floats(tensor), expected, strict=True):
            self.assertTrue(math.isclose(ours, value, rel_tol=2 ** -8, abs_tol=1e-6), f"{ours} for {value}")

    def test_linears_of_families(self):
        for name in SOME_FAMILIES:
            with self.subTest(family=name):
                model = FAMILIES / name
                adapter = Adapter(linears_of(model), seed=3)
                tensors = self.merge(model, adapter, name)
                source = read_tensors(model / "model.safetensors")
                expected = read_tensors(merged(model, adapter, self.folder / f"{name}-expected", is_in_out) / "model.safetensors")
                self.assertEqual(sorted(tensors), sorted(source))
                for tensor, (dtype, shape, values) in source.items():
                    self.assertEqual(tensors[tensor][:2], (dtype, shape))
                    if tensor.removesuffix(".weight") in adapter.linears:
                        self.check_values(tensors[tensor], floats(expected[tensor]))
                    else:
                        self.assertEqual(tensors[tensor][2], values, tensor)

    def test_experts_that_one_tensor_has(self):
        for name in ("granite4_moe", "gpt_oss", "gemma4_moe"):
            with self.subTest(family=name):
                source = read_tensors(FAMILIES / name / "model.safetensors")
                apart = taken_apart(source, name)
                linears = {tensor.removesuffix(".weight"): shape for tensor, (_, shape, _) in apart.items()
                           if ".experts." in tensor and tensor.endswith(".weight") and ".experts.1." not in tensor}
                adapter = Adapter(linears, seed=5)
                tensors = self.merge(FAMILIES / name, adapter, name)
                self.assertEqual({tensor: value[1] for tensor, value in tensors.items()},
                                 {tensor: value[1] for tensor, value in source.items()})
                for tensor, values in taken_apart(tensors, name).items():
                    linear = tensor.removesuffix(".weight")
                    if linear not in linears:
                        self.assertEqual(values, apart[tensor], tensor)
                        continue
                    self.check_values(values, [value + change for value, change in zip(floats(apart[tensor]), adapter.delta(linear))])

    def test_a_head_or_an_embedding_that_is_one_matrix_with_the_other(self):
        model = FAMILIES / "gpt2"
        source = read_tensors(model / "model.safetensors")
        embedding = next(name for name in source if name.endswith("wte.weight"))
        adapter = Adapter({"lm_head": tuple(source[embedding][1])}, seed=7)
        tensors = self.merge(model, adapter, "head")
        self.assertEqual(tensors[embedding], source[embedding])
        self.check_values(tensors["lm_head.weight"],
                          [value + change for value, change in zip(floats(source[embedding]), adapter.delta("lm_head"))])
        self.assertIs(json.loads((self.folder / "head" / "config.json").read_text())["tie_word_embeddings"], False)
        line = {**request(None), "logprobs": 0}
        own, = run_jsonl([{**line, "adapter": "a"}], "--lora-modules", f"a={self.folder / 'head-adapter'}", "--dtype", "float32", model=model)
        ours, = run_jsonl([line], "--dtype", "float32", model=self.folder / "head")
        self.assertEqual(own["token_ids"][:3], ours["token_ids"][:3])

    def test_what_is_refused(self):
        model = FAMILIES / "llama"
        linears = linears_of(model)
        name, shape = next(iter(linears.items()))
        adapter = Adapter({name: shape}).write(self.folder / "adapter")
        strange = Adapter({"model.layers.0.self_attn.other": shape}).write(self.folder / "strange")
        large = Adapter({name: (shape[0] + 1, shape[1])}).write(self.folder / "large")
        for code, says, arguments in (
                (USAGE, "--scheme: --merge-lora does not quantize", ("--merge-lora", adapter, "--scheme", "W8A16")),
                (USAGE, "--merge-lora: is empty", ("--merge-lora", "")),
                (66, "no such folder", ("--merge-lora", self.folder / "none")),
                (BAD_DATA, "self_attn.other.weight is no tensor of the model", ("--merge-lora", strange)),
                (BAD_DATA, "is the adapter of another model?", ("--merge-lora", large)),
                (CANNOT_CREATE, "", ("--merge-lora", adapter, "-o", model))):
            done = quantize("-m", model, *(() if "-o" in arguments else ("-o", self.folder / "out")), *arguments, check=False)
            self.assertEqual(done.returncode, code, f"{arguments}: {done.stderr}")
            self.assertIn(says, done.stderr)
        self.assertFalse((self.folder / "out").exists())
        quantize("-m", model, "--method", "rtn", "--scheme", "W8A16", "--group-size", "channel", "-o", self.folder / "small")
        done = quantize("-m", self.folder / "small", "--merge-lora", adapter, "-o", self.folder / "out", check=False)
        self.assertEqual(done.returncode, BAD_DATA)
        self.assertIn("merge the adapter into the dense model", done.stderr)

    def test_a_key_that_is_not_heeded_is_told_of(self):
        model = FAMILIES / "llama"
        adapter = Adapter(linears_of(model), some_new_key=1).write(self.folder / "adapter")
        done = quantize("-m", model, "--merge-lora", adapter, "-o", self.folder / "out", "--dry-run")
        self.assertIn("some_new_key", done.stderr)

    def test_linears_and_biases_that_are_saved_whole(self):
        for name, linear in (("gpt2", "h.0.attn.c_proj"), ("qwen2", "layers.0.self_attn.q_proj")):
            with self.subTest(family=name):
                model = FAMILIES / name
                source = read_tensors(model / "model.safetensors")
                module = next(tensor for tensor in source if tensor.endswith(linear + ".weight")).removesuffix(".weight")
                saved = {f"{module}{ending}": floats(source[f"{module}{ending}"])[::-1] for ending in (".weight", ".bias")}
                folder = Adapter({}).write(self.folder / f"{name}-adapter")
                write_tensors(folder / "adapter_model.safetensors",
                              {f"base_model.model.{tensor}": float32(source[tensor][1], values) for tensor, values in saved.items()})
                quantize("-m", model, "--merge-lora", folder, "-o", self.folder / name)
                tensors = read_tensors(self.folder / name / "model.safetensors")
                for tensor, values in saved.items():
                    self.assertEqual(floats(tensors[tensor]), values, tensor)

    def test_a_plan_makes_nothing(self):
        model = FAMILIES / "llama"
        adapter = Adapter(linears_of(model)).write(self.folder / "adapter")
        done = quantize("-m", model, "--merge-lora", adapter, "-o", self.folder / "out", "--dry-run")
        self.assertIn("merge into", done.stdout)
        self.assertFalse((self.folder / "out").exists())


@needs_shared("adapters")
class SharedAdaptersMerged(FolderTest):
    """Answers that PEFT gave, of DoRA too."""

    def test_every_adapter(self):
        folder = SHARED / "adapters"
        models, cases = peft_cases()
        count = 0
        for name, model in models.items():
            for adapter in sorted({case["adapter"] for case in cases if case["model"] == name} - {None}):
                out = self.folder / adapter
                quantize("-m", model, "--merge-lora", folder / name / adapter, "-o", out)
                own = [case for case in cases if case["model"] == name and case["adapter"] == adapter]
                lines = [{**request(None, case["prompt_ids"]), "max_tokens": 32, "logprobs": 0} for case in own]
                for line in lines:
                    del line["adapter"]
                count += len(own)
                for case, answer in zip(own, run_jsonl(lines, "--dtype", "float32", model=out), strict=True):
                    with self.subTest(model=name, adapter=adapter, case=case["index"]):
                        # The demo model's weights are rounded once more, to bfloat16.
                        compare_with_peft(self, case, answer, 0.1 if name == "demo" else 1e-4)
                shutil.rmtree(out)
        print(f"{count} cases")


if __name__ == "__main__":
    unittest.main()
