"""nvllm-quantize: what it writes runs, what is interrupted goes on to the same bytes, what is wrong is said. Kills, full disks
and hostile files are in test_quantize_safety.py."""

import json
import pathlib
import re
import shutil
import unittest

from family_testing import FAMILIES
from programs import DEMO, SOURCE, environment, run
from quantize_testing import BAD_DATA, CANNOT_CREATE, LITTLE, NO_INPUT, USAGE, QuantizeTest, digests, not_sanitized, quantize
from tensors import read_tensors, write_tensors

TEXT = "Once upon a time there was a little dog. The dog liked to play with a red ball in the park.\n" * 8


def header(folder):
    data = (folder / "model.safetensors").read_bytes()
    return json.loads(data[8:8 + int.from_bytes(data[:8], "little")])


class Quantize(QuantizeTest):
    def test_rounding_writes_a_model_that_runs(self):
        before = digests(pathlib.Path(DEMO))
        out = self.made("rtn", "--scheme", "W4A16", "--method", "rtn")
        self.assertEqual(digests(pathlib.Path(DEMO)), before, "the source was changed")
        config = json.loads((out / "config.json").read_text())["quantization_config"]
        self.assertEqual((config["quant_method"], config["format"]), ("compressed-tensors", "pack-quantized"))
        self.assertEqual(config["ignore"], ["lm_head"])
        tensors = header(out)
        packed = tensors["model.layers.0.mlp.down_proj.weight_packed"]
        self.assertEqual((packed["dtype"], packed["shape"]), ("I32", [256, 64]))
        self.assertNotIn("model.layers.0.mlp.down_proj.weight", tensors)
        self.assertIn("model.embed_tokens.weight", tensors)
        for name in ("tokenizer.json", "generation_config.json"):
            self.assertEqual((out / name).read_bytes(), (pathlib.Path(DEMO) / name).read_bytes())
        said = run("-m", out, "-p", "Repeat these words: apple river", "-n", 8, "--temperature", 0).stdout
        self.assertTrue(said.strip())
        self.assertFalse((self.folder / "rtn.partial").exists())

    @not_sanitized
    def test_every_family(self):
        """Experts that are stored as one stack are refused by name; of all others 4 bits run."""
        values_are_keys = self.folder / "gemma4-values-are-keys"
        shutil.copytree(FAMILIES / "gemma4", values_are_keys)
        config = json.loads((values_are_keys / "config.json").read_text())
        (values_are_keys / "config.json").write_text(json.dumps(config | {"attention_k_eq_v": True}))
        tensors = read_tensors(values_are_keys / "model.safetensors")
        write_tensors(values_are_keys / "model.safetensors",
                      {name: tensor for name, tensor in tensors.items() if name != "model.layers.1.self_attn.v_proj.weight"})
        refused = set()
        for folder in [*sorted(path.parent for path in FAMILIES.glob("*/config.json")), values_are_keys]:
            with self.subTest(family=folder.name):
                out = self.folder / f"{folder.name}-W4A16"
                done = quantize("-m", folder, "-o", out, "--scheme", "W4A16", "--group-size", "channel", "--method", "rtn", check=False)
                if done.returncode == BAD_DATA and "holds all experts of a layer" in done.stderr:
                    refused.add(folder.name)
                    continue
                self.assertEqual(done.returncode, 0, done.stderr)
                answer = run("-m", out, "--prompt-ids", "5,6,7,8,9", "-n", "4", "--ignore-eos", "--output-format", "json").stdout
                self.assertEqual(len(json.loads(answer)["token_ids"]), 4)
        self.assertEqual(refused, {"gemma4_moe", "gpt_oss", "granite4_moe", "llama4"})

    def test_gptq_is_the_default_and_better_than_rounding(self):
        rounded = self.made("rtn", "--method", "rtn")
        text = self.folder / "text.txt"
        text.write_text(TEXT)
        fitted = self.folder / "gptq"
        done = quantize("-m", DEMO, "-o", fitted, "--eval", text, "--max-seq-length", 512, "--num-samples", 8)
        self.assertIn("W4A16 by gptq", done.stderr)
        self.assertIn("the bundled text", done.stderr)
        self.assertIn("KL divergence", done.stdout)
        report = json.loads(quantize("report", fitted, "--json").stdout)
        self.assertEqual(report["schema"], "nvllm-quantize.report/1")
        self.assertEqual(len(report["linears"]), 28)
        self.assertAlmostEqual(report["bits_per_weight"], 4.125)
        self.assertEqual(report["evaluation"]["ppl_convention"], "hf")
        self.assertGreater(report["evaluation"]["mean_kld"], 0)
        self.assertLess(report["evaluation"]["mean_kld"], 0.5)
        plain = json.loads(quantize("report", rounded, "--json").stdout)
        # Of weights there, of outputs here: rounding errs by the same share of either.
        self.assertLess(report["mean_relative_error"], 0.6 * plain["mean_relative_error"])
        picture = self.folder / "errors.svg"
        quantize("report", fitted, "--svg", picture)
        self.assertIn("q_proj", picture.read_text())

    @not_sanitized
    def test_every_method_and_scheme_runs(self):
        for name, arguments in {
            "awq": ("--method", "awq", "--scheme", "W4A16_ASYM"),
            "smoothquant": ("--method", "smoothquant", "--method", "gptq", "--scheme", "W8A8"),
            "sparse": ("--method", "sparsegpt", "--mask-structure", "2:4", "--scheme", "none"),
            "both": ("--method", "magnitude", "--method", "gptq", "--scheme", "W8A16", "--group-size", "64"),
            "fp8": ("--method", "rtn", "--scheme", "FP8_DYNAMIC"),
            "nvfp4": ("--method", "gptq", "--scheme", "NVFP4A16"),
        }.items():
            with self.subTest(name):
                out = self.made(name, *arguments, *LITTLE)
                said = run("-m", out, "-p", "Once upon a time", "-n", 8, "--temperature", 0).stdout
                self.assertTrue(said.strip())
                report = json.loads(quantize("report", out, "--json").stdout)
                if name == "sparse":
                    self.assertTrue(all(abs(linear["sparsity"] - 0.5) < 0.01 for linear in report["linears"]))
                    self.assertNotIn("quantization_config", json.loads((out / "config.json").read_text()))

    def test_keys_and_values_in_float8(self):
        arguments = ("--scheme", "FP8_DYNAMIC", "--method", "rtn", "--kv-cache-scheme", "fp8", *LITTLE)
        out = self.made("out", *arguments)
        # As compressed-tensors names them: in config.json, and beside the projections.
        scheme = json.loads((out / "config.json").read_text())["quantization_config"]["kv_cache_scheme"]
        self.assertEqual(scheme, {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor", "dynamic": False,
                                  "observer": "static_minmax"})
        scales = {name: value["shape"] for name, value in header(out).items() if name.endswith(("k_scale", "v_scale"))}
        self.assertEqual(scales, {f"model.layers.{layer}.self_attn.{name}": [1] for layer in range(4) for name in ("k_scale", "v_scale")})

        def token_bytes(*ways):
            return int(re.search(r"tokens of (\d+) B", run("-m", out, "--plan", *ways).stdout)[1])

        self.assertEqual(token_bytes(), token_bytes("--kv-cache-dtype", "fp8"))
        self.assertEqual(2 * token_bytes(), token_bytes("--kv-cache-dtype", "bfloat16"))
        text = self.folder / "text.txt"
        text.write_text(TEXT)
        plain = self.made("plain", *arguments[:4])
        losses = [json.loads(quantize("compare", folder, "-m", DEMO, "--eval", text, "--json").stdout)["models"][0]["evaluation"]["mean_kld"]
                  for folder in (out, plain)]
        self.assertNotEqual(*losses)  # keys and values are judged as they are served
        self.assertLess(losses[0], 2 * losses[1])
        again = self.folder / "again"
        quantize("-m", DEMO, "-o", again, *arguments, check=False, env=environment(NVLLM_FAULTS="quantize.block@2:1=abort"))
        quantize("-m", DEMO, "-o", again, *arguments, "--resume")
        self.assertEqual(digests(again), digests(out))

    @not_sanitized
    def test_formats_of_others(self):
        for name, method in (("awq", "awq"), ("gptq", "gptq"), ("gptq_v2", "gptq")):
            with self.subTest(name):
                out = self.made(name, "--format", name, "--method", method, *LITTLE)
                config = json.loads((out / "config.json").read_text())["quantization_config"]
                self.assertEqual((config["quant_method"], config["bits"], config["group_size"]), (method, 4, 128))
                self.assertEqual(config.get("checkpoint_format", name), name)
                tensors = header(out)
                packed = {"awq": [512, 32], "gptq": [64, 256]}[method]
                self.assertEqual(tensors["model.layers.0.mlp.down_proj.qweight"], {**tensors["model.layers.0.mlp.down_proj.qweight"],
                                                                                  "dtype": "I32", "shape": packed})
                self.assertTrue(run("-m", out, "-p", "Once upon a time", "-n", 8, "--temperature", 0).stdout.strip())
                # Codes, halves as scales, zero points; GPTQ's also have 32 bits for each input.
                linear = json.loads(quantize("report", out, "--json").stdout)["linears"][0]
                order = 32 / linear["out"] if method == "gptq" else 0
                self.assertAlmostEqual(linear["bits_per_weight"], 4 + (16 + 4) / 128 + order)

    @not_sanitized
    def test_zeros_left_out(self):
        arguments = ("--method", "sparsegpt", "--mask-structure", "2:4", "--scheme", "none", *LITTLE)
        whole, compressed = self.made("whole", *arguments), self.made("compressed", *arguments, "--save-compressed")
        said = [run("-m", folder, "-p", "Once upon a time", "-n", 24, "--temperature", 0).stdout for folder in (whole, compressed)]
        self.assertEqual(*said)
        report = json.loads(quantize("report", compressed, "--json").stdout)
        self.assertEqual({(linear["format"], linear["bits_per_weight"]) for linear in report["linears"]}, {("sparse-24-bitmask", 9.0)})
        self.assertEqual(report["on_this_cpu"], [{"scheme": "2:4", "native": 28, "dequantized": 0}])
        planned = quantize("-m", DEMO, "-o", self.folder / "out", *arguments, "--save-compressed", "--dry-run").stdout
        self.assertIn("2:4: 28 linears run natively", planned)
        sparsity = json.loads((compressed / "config.json").read_text())["quantization_config"]["sparsity_config"]
        self.assertEqual((sparsity["format"], sparsity["sparsity_structure"], sparsity["ignore"]), ("sparse-24-bitmask", "2:4", ["lm_head"]))
        self.assertAlmostEqual(sparsity["global_sparsity"], 0.4, delta=0.1)

    def test_what_a_format_cannot_express(self):
        gpt2 = SOURCE / "tests" / "fixtures" / "families" / "gpt2"
        for message, *arguments in (
                ("4 bits only", DEMO, "--format", "awq", "--scheme", "W8A16"),
                ("another order", DEMO, "--format", "awq", "--actorder", "group"),
                ("2, 3, 4 or 8 bits", DEMO, "--format", "gptq", "--scheme", "W5A16"),
                ("2, 3, 4 or 8 bits", DEMO, "--format", "gptq", "--scheme", "FP8_DYNAMIC"),
                ("activations too", DEMO, "--format", "gptq", "--scheme", "W4A8"),
                ("gptq_v2", DEMO, "--format", "gptq", "--scheme", "W4A16_ASYM"),
                ("kv_cache_scheme", DEMO, "--format", "awq", "--kv-cache-scheme", "fp8"),
                ("q_proj is left dense", DEMO, "--format", "gptq", "--ignore", "re:.*q_proj"),
                ("no place for it (pack-quantized", DEMO, "--method", "magnitude", "--mask-structure", "2:4", "--save-compressed"),
                ("no linear has two zeros", DEMO, "--method", "magnitude", "--scheme", "none", "--save-compressed"),
                ("sparse-24-bitmask has no place", gpt2, "--method", "magnitude", "--mask-structure", "2:4", "--scheme", "none",
                 "--save-compressed"),
                ("Conv1D", gpt2, "--method", "rtn", "--group-size", 32)):
            with self.subTest(message):
                self.assertIn(message, self.fails(BAD_DATA, "-m", *arguments[:1], "-o", self.folder / "out", *arguments[1:]))
                self.assertEqual(list(self.folder.iterdir()), [])

    def test_results_side_by_side(self):
        text = self.folder / "text.txt"
        text.write_text(TEXT)
        folders = [self.made("four", "--method", "rtn"), self.made("eight", "--method", "rtn", "--scheme", "W8A16")]
        (folders[1] / "quantization_report.json").unlink()
        self.fails(NO_INPUT, "compare", *folders)
        done = quantize("compare", *folders, "-m", DEMO, "--eval", text, "--json")
        rows = json.loads(done.stdout)["models"]
        self.assertEqual([row.get("methods") for row in rows], ["rtn", None])
        four, eight = (row["evaluation"] for row in rows)
        self.assertEqual(four["base_perplexity"], eight["base_perplexity"])
        self.assertLess(eight["mean_kld"], 0.1 * four["mean_kld"])
        self.assertIn("same top", quantize("compare", folders[0]).stdout)

    def test_progress_as_json(self):
        lines = quantize("-m", DEMO, "-o", self.folder / "out", "--method", "rtn", "--progress", "json").stdout.splitlines()
        records = [json.loads(line) for line in lines]
        self.assertEqual([record["done"] for record in records], list(range(1, 29)))
        self.assertEqual(records[0]["name"], "model.layers.0.self_attn.q_proj")

    def test_a_dry_run_does_nothing(self):
        done = quantize("-m", DEMO, "-o", self.folder / "out", "--dry-run")
        self.assertIn("28 of 29", done.stdout)  # all but the output matrix
        self.assertIn("memory", done.stdout)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_interrupted_runs_go_on_to_the_same_bytes(self):
        whole = digests(self.made("whole", *LITTLE))
        out = self.folder / "out"
        for place in ("quantize.block@0", "quantize.block@2", "quantize.publish"):
            with self.subTest(place):
                arguments = ("-m", DEMO, "-o", out, *LITTLE)
                done = quantize(*arguments, check=False, env=environment(NVLLM_FAULTS=f"{place}:1=abort"))
                self.assertLess(done.returncode, 0, done.stderr)
                self.assertFalse(out.exists(), "half a model appeared")
                self.assertIn("--resume", self.fails(CANNOT_CREATE, *arguments))
                error = self.fails(BAD_DATA, *arguments, "--resume", "--dampening-frac", "0.05")
                self.assertRegex(error, r"dampening_frac was 0\.01 and is 0\.05 now.*--restart")
                quantize(*arguments, "--resume")
                self.assertEqual(digests(out), whole)
                self.assertFalse((self.folder / "out.partial").exists())
                shutil.rmtree(out)

    def test_activations_in_a_file_change_nothing(self):
        whole = digests(self.made("whole", *LITTLE))
        # Between what is needed with activations in memory and without.
        plan = quantize("-m", DEMO, "-o", self.folder / "out", *LITTLE, "--dry-run").stdout
        whole_mib, activations_mib = (float(re.search(word + r" +([0-9.]+) MiB", plan)[1]) for word in ("memory", "activations"))
        limit_bytes = round((whole_mib - activations_mib / 2) * 2**20)
        arguments = (*LITTLE, "--memory-limit", limit_bytes, "--offload-dir", self.folder)
        plan = quantize("-m", DEMO, "-o", self.folder / "out", *arguments, "--dry-run").stdout
        self.assertIn("in a file", plan)
        self.assertEqual(digests(self.made("out", *arguments)), whole)

    def test_calibration_texts(self):
        lines = self.folder / "lines.jsonl"
        lines.write_text("".join(json.dumps(line) + "\n" for line in (
            {"text": TEXT * 4}, {"messages": [{"role": "user", "content": TEXT * 4}, {"role": "assistant", "content": "Yes."}]})))
        (self.folder / "texts").mkdir()
        (self.folder / "texts" / "a.txt").write_text(TEXT * 8)
        for arguments, stdin in ((("--calibration", lines), ""), (("--calibration", self.folder / "texts"), ""),
                                 (("--calibration", "-"), TEXT * 8)):
            done = quantize("-m", DEMO, "-o", self.folder / "out", "--max-seq-length", 256, *arguments, stdin=stdin)
            self.assertRegex(done.stderr, r"\d+ samples, \d+ tokens")
            shutil.rmtree(self.folder / "out")
        short = self.folder / "short.txt"
        short.write_text("A dog.")
        error = self.fails(BAD_DATA, "-m", DEMO, "-o", self.folder / "out", "--calibration", short)
        self.assertRegex(error, r"at least 1024 are needed.*\d+ tokens or more")
        listed = self.folder / "list.json"
        listed.write_text(json.dumps([{"text": TEXT * 4}, {"text": TEXT * 4}]))
        lines.write_text("".join(json.dumps({"text": TEXT * 4}) + "\n" for _ in range(2)))
        read = [quantize("-m", DEMO, "-o", self.folder / "out", "--dry-run", "--calibration", file).stdout.replace(str(file), "")
                for file in (listed, lines)]
        self.assertEqual(*read)
        parquet = self.folder / "data.parquet"
        parquet.write_bytes(b"PAR1" + TEXT.encode() * 20 + b"PAR1")
        self.assertIn("is Parquet", self.fails(BAD_DATA, "-m", DEMO, "-o", self.folder / "out", "--calibration", parquet))
        lines.write_text('{"question": "Why?"}\n')
        self.assertIn("lines.jsonl:1", self.fails(BAD_DATA, "-m", DEMO, "-o", self.folder / "out", "--calibration", lines))

    def test_recipes(self):
        recipe = self.folder / "recipe.yaml"
        recipe.write_text("""
quant_stage:
  quant_modifiers:
    GPTQModifier:
      ignore: ["lm_head"]
      dampening_frac: 0.02
      config_groups:
        group_0:
          targets: ["re:.*self_attn.*"]
          weights: {num_bits: 4, type: int, symmetric: true, strategy: group, group_size: 64}
        group_1:
          targets: ["re:.*mlp.*"]
          weights: {num_bits: 8, type: int, symmetric: true, strategy: channel}
""")
        out = self.made("out", "--recipe", recipe, *LITTLE)
        tensors = header(out)
        self.assertEqual(tensors["model.layers.1.self_attn.q_proj.weight_packed"]["shape"], [256, 32])
        self.assertEqual(tensors["model.layers.1.mlp.up_proj.weight_packed"]["shape"], [512, 64])
        recipe.write_text("quant_stage: {quant_modifiers: {GPTQModifier: {schema: W4A16}}}\n")
        self.assertIn("did you mean scheme", self.fails(BAD_DATA, "-m", DEMO, "-o", self.folder / "x", "--recipe", recipe))

    def test_how_each_scheme_runs_here(self):
        recipe = self.folder / "recipe.yaml"
        # No kernel multiplies groups that are not whole lots of 8.
        recipe.write_text("""
quant_stage:
  quant_modifiers:
    QuantizationModifier:
      ignore: ["lm_head"]
      config_groups:
        group_0:
          targets: ["re:.*self_attn.*"]
          weights: {num_bits: 4, type: int, symmetric: true, strategy: group, group_size: 4}
        group_1:
          targets: ["re:.*mlp.*"]
          weights: {num_bits: 4, type: int, symmetric: true, strategy: group, group_size: 128}
""")
        planned = quantize("-m", DEMO, "-o", self.folder / "out", "--recipe", recipe, "--dry-run").stdout
        out = self.made("out", "--recipe", recipe)
        said = quantize("report", out).stdout
        for line in ("W4A16, groups of 4: 16 linears are dequantized when they are loaded", "W4A16: 12 linears run natively"):
            self.assertIn(line, planned)
            self.assertIn(line, said)
        rows = json.loads(quantize("report", out, "--json").stdout)["on_this_cpu"]
        self.assertEqual(rows, [{"scheme": "W4A16", "native": 12, "dequantized": 0},
                                {"scheme": "W4A16, groups of 4", "native": 0, "dequantized": 16}])
        # The loader says the same.
        self.assertIn("16 of 28 quantized linears", run("-m", out, "-p", "Once", "-n", 1).stderr)
        self.assertNotIn("on_this_cpu", (out / "quantization_report.json").read_text())

    def test_what_is_wrong_is_said(self):
        out = self.folder / "out"
        self.assertIn("W4A16", self.fails(USAGE, "-m", DEMO, "-o", out, "--scheme", "W4A61"))
        self.assertIn("did you mean gptq", self.fails(USAGE, "-m", DEMO, "-o", out, "--method", "gtpq"))
        error = self.fails(BAD_DATA, "-m", DEMO, "-o", out, "--targets", "re:.*qq_proj")
        self.assertIn("matches no linear", error)
        error = self.fails(BAD_DATA, "-m", DEMO, "-o", out, "--group-size", 96)
        self.assertRegex(error, r"q_proj.*256 inputs.*96.*--ignore")
        out.mkdir()
        self.assertIn("exists already", self.fails(CANNOT_CREATE, "-m", DEMO, "-o", out, "--method", "rtn"))
        self.fails(NO_INPUT, "report", out)

    def test_a_source_that_is_quantized_already(self):
        first = self.made("first", "--method", "rtn", "--scheme", "FP8_BLOCK")
        second = self.folder / "second"
        done = quantize("-m", first, "-o", second, "--method", "rtn", "--scheme", "W8A16", "--group-size", 32)
        self.assertIn("quantized already (float-quantized); they are dequantized first", done.stderr)
        tensors = header(second)
        self.assertIn("model.layers.0.mlp.down_proj.weight_packed", tensors)
        self.assertNotIn("model.layers.0.mlp.down_proj.weight", tensors)
        said = [run("-m", folder, "-p", "Once upon a time", "-n", 16, "--temperature", 0).stdout for folder in (DEMO, second)]
        self.assertEqual(said[0][:24], said[1][:24])

    def test_mappings_are_checked_against_the_model(self):
        recipe = self.folder / "recipe.yaml"
        template = """
quant_stage:
  quant_modifiers:
    SmoothQuantModifier: {smoothing_strength: 0.5, mappings: [[MAPPING]]}
    QuantizationModifier: {scheme: W8A8, targets: Linear, ignore: ["lm_head"]}
"""
        for mapping, says in (('["re:.*q_proj", "re:.*k_proj", "re:.*v_proj"], "re:.*self_attn"', "writes nothing that they read"),
                              ('["re:.*gate_proj", "re:.*up_proj"], "re:.*input_layernorm"', "writes nothing that they read"),
                              ('["re:.*gate_proj"], "re:.*post_attention_layernorm"', "is read by model.layers.0.mlp.up_proj too"),
                              ('["re:.*gate_proj", "re:.*up_proj"], "re:.*post_attention_layernorm"', None)):
            with self.subTest(mapping):
                recipe.write_text(template.replace("MAPPING", mapping))
                arguments = ("-m", DEMO, "-o", self.folder / "out", "--recipe", recipe, *LITTLE)
                if says is None:
                    quantize(*arguments)
                    self.assertIn("blocks   as written", quantize("report", self.folder / "out").stdout)
                    continue
                error = self.fails(BAD_DATA, *arguments)
                self.assertIn("the mapping [[", error)
                self.assertIn(says, error)
                self.assertFalse((self.folder / "out").exists())

    def test_what_is_not_done_as_asked_is_told(self):
        out = self.folder / "out"

        def told(*arguments):
            done = quantize("-m", DEMO, "-o", out, "--dry-run", *arguments)
            return done.stderr

        self.assertIn("actorder group (true) became static", told("--actorder", "group"))
        self.assertNotIn("actorder", told("--actorder", "group", "--format", "gptq"))
        recipe = self.folder / "recipe.yaml"
        recipe.write_text("QuantizationModifier: {ignore: [lm_head], config_groups: {g: {targets: [Linear], "
                          "weights: {num_bits: 4, strategy: group, group_size: 128, observer: mse}}}}\n")
        self.assertIn('observer "mse" is not heeded', told("--recipe", recipe))
        self.assertIn("both round", self.fails(USAGE, "-m", DEMO, "-o", out, "--method", "gptq", "--method", "awq"))
        self.assertIn("smoothquant comes after gptq", self.fails(BAD_DATA, "-m", DEMO, "-o", out, "--method", "gptq", "--method",
                                                                 "smoothquant"))
        self.assertIn("matches no linear", self.fails(BAD_DATA, "-m", DEMO, "-o", out, "--ignore", "re:.*nothing"))
        # Beside the output matrix, which stays dense unless nothing is ignored.
        self.assertIn("24 of 29", quantize("-m", DEMO, "-o", out, "--dry-run", "--ignore", "re:.*q_proj").stdout)
        self.assertIn("29 of 29", quantize("-m", DEMO, "-o", out, "--dry-run", "--ignore", "none").stdout)

    def test_four_bits_with_rounded_inputs_are_stored_packed(self):
        packed = self.made("packed", "--scheme", "W4A8", "--method", "rtn")
        wide = self.made("wide", "--scheme", "W4A8", "--method", "rtn", "--format", "int-quantized")
        for folder, name, form in ((packed, "weight_packed", "pack-quantized"), (wide, "weight", "int-quantized")):
            self.assertIn(f"model.layers.0.mlp.down_proj.{name}", header(folder))
            config = json.loads((folder / "config.json").read_text())["quantization_config"]
            self.assertEqual((config["format"], config["config_groups"]["group_0"]["format"]), (form, form))
        self.assertLess((packed / "model.safetensors").stat().st_size, 0.75 * (wide / "model.safetensors").stat().st_size)
        said = [run("-m", folder, "-p", "Once upon a time", "-n", 16, "--temperature", 0).stdout for folder in (packed, wide)]
        self.assertEqual(*said)


if __name__ == "__main__":
    unittest.main()
