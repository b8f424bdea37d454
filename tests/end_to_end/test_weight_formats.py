"""Checkpoints of AutoAWQ's gemv layouts, AutoRound and bitsandbytes: the programs run them with the logits that others compute, say how
they run and what of their settings is not used, and refuse layouts that are not read with what to take instead."""

import json
import math
import shutil
import struct
import unittest

from programs import SOURCE, FolderTest, run, run_jsonl
from quantize_testing import BAD_DATA, quantize
from tensors import read_tensors

FORMATS = SOURCE / "tests" / "fixtures" / "quantized"
NATIVE = ("awq_gemv", "awq_gemv_fast", "auto_round", "auto_round_awq", "auto_round_own", "bnb_int8")
DEQUANTIZED = ("bnb_fp4", "bnb_nf4")


def reference(folder):
    """The prompt, and log probabilities of the token behind it."""
    tensors = read_tensors(folder / "reference.safetensors")
    ids = struct.unpack(f"<{tensors['prompt_ids'][1][0]}i", tensors["prompt_ids"][2])
    rows, width = tensors["logits"][1]
    last = struct.unpack(f"<{width}f", tensors["logits"][2][4 * width * (rows - 1):])
    top = max(last)
    total = top + math.log(sum(math.exp(value - top) for value in last))
    return list(ids), [value - total for value in last]


class WeightFormats(FolderTest):
    def check_next(self, folder, expected, tolerance):
        ids, chances = expected
        request = {"prompt_token_ids": ids, "max_tokens": 1, "temperature": 0, "ignore_eos": True, "logprobs": 20}
        answer, = run_jsonl([request], "--dtype", "float32", model=str(folder))
        top = answer["logprobs"]["content"][0]["top_logprobs"]
        self.assertEqual(answer["token_ids"], [chances.index(max(chances))])
        self.assertEqual(len(top), 20)
        for entry in top:
            self.assertAlmostEqual(entry["logprob"], chances[entry["token_id"]], delta=tolerance)

    def test_others_compute_the_same(self):
        for name in NATIVE + DEQUANTIZED:
            with self.subTest(name):
                self.check_next(FORMATS / name, reference(FORMATS / name), 1e-3)
                said = run("-m", FORMATS / name, "--prompt-ids", "5,6,7", "-n", 1).stderr
                self.assertEqual("14 of 14 quantized linears" in said, name in DEQUANTIZED, said)
                self.assertEqual("llm_int8_threshold: not used" in said, name == "bnb_int8", said)
                self.assertNotIn("extra_config", said)

    def test_a_source_of_another_format(self):
        for name in ("awq_gemv_fast", "auto_round", "bnb_nf4", "bnb_int8"):
            with self.subTest(name):
                out = self.folder / name
                done = quantize("-m", FORMATS / name, "-o", out, "--method", "rtn", "--scheme", "W8A16", "--group-size", 32)
                self.assertIn("are dequantized first", done.stderr)
                tensors = read_tensors(out / "model.safetensors")
                self.assertFalse([tensor for tensor in tensors if tensor.endswith(("qweight", "absmax", "SCB", "scaled_zeros"))])
                self.check_next(out, reference(FORMATS / name), 0.25)

    def test_the_method_that_is_asked_for(self):
        for name, method in (("bnb_nf4", "bitsandbytes"), ("auto_round", "auto-round"), ("awq_gemv", "awq")):
            run("-m", FORMATS / name, "--quantization", method, "--prompt-ids", "5,6,7", "-n", 1)
        done = run("-m", FORMATS / "bnb_nf4", "--quantization", "gptq", "--prompt-ids", "5,6,7", "-n", 1, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("bitsandbytes", done.stderr)

    def test_what_is_not_read_says_what_is(self):
        for name, changes, says in (
                ("awq", {"version": "marlin"}, "gemm, gemv and gemv_fast are read"),
                ("gptq", {"checkpoint_format": "marlin"}, "gptq and gptq_v2 are read"),
                ("auto_round", {"packing_format": "auto_round:llm_compressor"}, "layouts of GPTQ and AWQ are read"),
                ("bnb_nf4", {"bnb_4bit_quant_storage": "bfloat16"}, "uint8 is read"),
                ("awq", {"quant_method": "hqq"}, "methods that can be read are")):
            with self.subTest(says):
                folder = self.folder / f"{name}-{len(says)}"
                shutil.copytree(FORMATS / name, folder)
                config = json.loads((folder / "config.json").read_text())
                config["quantization_config"] |= changes
                (folder / "config.json").write_text(json.dumps(config))
                done = run("-m", folder, "--prompt-ids", "5,6,7", "-n", 1, check=False)
                self.assertEqual(done.returncode, BAD_DATA, done.stderr)
                self.assertIn(says, done.stderr)
                self.assertIn("take the file in compressed-tensors, awq (gemm) or gptq", done.stderr)


if __name__ == "__main__":
    unittest.main()
