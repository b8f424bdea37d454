"""Models with latent attention: one vector of a token is cached, and shared, moved or taken away like keys and values."""

import json
import pathlib
import random
import struct
import subprocess
import unittest

from family_testing import FAMILIES, MovesTest, essence, requests
from programs import BIN, FolderTest, environment, run, run_jsonl
from tensors import read_tensors, write_tensors


def e4m3(code):
    """The value of a float8_e4m3 that is a number."""
    exponent, fraction = code >> 3 & 15, code & 7
    size = (8 + fraction) * 2.0 ** (exponent - 10) if exponent else fraction * 2.0 ** -9
    return -size if code & 128 else size


def bfloat16(values):
    return b"".join(struct.pack("<f", value)[2:] for value in values)


class Answers(MovesTest):
    names = ("deepseek_v2", "deepseek_v2_lite", "deepseek_v3", "glm4_moe_lite")

    def test_nothing_that_moves_blocks_changes_an_answer(self):
        self.check_moves()

    def test_a_lost_worker_computes_again(self):
        self.check_lost_worker()

    def test_drafts_change_no_answer(self):
        drafted = 0
        for name in self.names:
            with self.subTest(model=name):
                drafts = {"method": "suffix", "num_speculative_tokens": 4, "adaptive": False}
                steps = self.steps_of(name, "--speculative-config", json.dumps(drafts))
                drafted += sum(step["num_draft_tokens"] for step in steps)
        self.assertGreater(drafted, 50)

    def test_next_token_layers(self):
        for name, layer in (("deepseek_v3", 1), ("glm4_moe_lite", 2)):
            self.check_next_token_layer(name, layer, "deepseek")

    def test_beams_fork(self):
        self.check_beams()


class Files(FolderTest):
    def model(self, name, tensors, **changes):
        folder = pathlib.Path(self.folder) / name
        folder.mkdir()
        config = json.loads((FAMILIES / "deepseek_v3" / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | changes))
        write_tensors(folder / "model.safetensors", tensors)
        return folder

    def answers(self, folder):
        return essence(run_jsonl(requests()[:6], model=str(folder)))

    def test_layers_behind_the_last_are_set_aside(self):
        tensors = read_tensors(FAMILIES / "deepseek_v3" / "model.safetensors")
        behind = {name.replace("layers.1.", "layers.2."): tensor for name, tensor in tensors.items() if ".layers.1." in name}
        behind["model.layers.2.eh_proj.weight"] = ("BF16", [36, 72], bytes(2 * 36 * 72))
        folder = self.model("mtp", tensors | behind, num_nextn_predict_layers=1)
        self.assertEqual(self.answers(folder), self.answers(FAMILIES / "deepseek_v3"))
        self.assertNotIn("model.layers.2", run("-m", folder, "--prompt-ids", "5,6,7", "-n", "2").stderr)

    def test_a_matrix_of_keys_and_values_in_float8_blocks(self):
        tensors = read_tensors(FAMILIES / "deepseek_v3" / "model.safetensors")
        generator = random.Random(4)
        dense, blocks = dict(tensors), dict(tensors)
        for name, (_, shape, _) in tensors.items():
            if not name.endswith("kv_b_proj.weight"):
                continue
            out, into = shape
            codes = bytes(generator.choice((0, 128)) + generator.randrange(0, 72) for _ in range(out * into))
            scales = [2.0 ** -(2 + row) for row in range((out + 127) // 128)]
            dense[name] = ("BF16", [out, into], bfloat16(e4m3(code) * scales[i // into // 128] for i, code in enumerate(codes)))
            blocks[name] = ("F8_E4M3", [out, into], codes)
            blocks[name + "_scale_inv"] = ("BF16", [len(scales), 1], bfloat16(scales))
        quantization = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
        of_blocks = self.answers(self.model("blocks", blocks, quantization_config=quantization))
        self.assertEqual(of_blocks, self.answers(self.model("dense", dense)))
        self.assertNotEqual(of_blocks, self.answers(FAMILIES / "deepseek_v3"))


# As the file of DeepSeek-V3 has them.
V3 = {"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 1,
      "ep_size": 1, "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168, "initializer_range": 0.02,
      "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840, "model_type": "deepseek_v3",
      "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1,
      "norm_topk_prob": True, "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
      "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
      "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
                       "original_max_position_embeddings": 4096, "type": "yarn"},
      "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": False, "topk_group": 4,
      "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "use_cache": True, "v_head_dim": 128, "vocab_size": 129280}


class Sizes(FolderTest):
    def plan(self, **changes):
        (pathlib.Path(self.folder) / "config.json").write_text(json.dumps(V3 | changes))
        done = subprocess.run([BIN / "nvllm-inspect", "plan", "-m", self.folder, "--load-format", "dummy", "--json", "--max-model-len", "4096"],
                              capture_output=True, text=True, env=environment())
        return done, json.loads(done.stdout)

    def test_the_plan_counts_one_vector_of_a_token(self):
        _, plan = self.plan()
        group, = plan["kv_groups"]
        self.assertEqual((group["kind"], len(group["layers"]), group["kv_heads"], group["head_dim"]), ("latent", 61, 1, 576))
        self.assertEqual(group["bytes_per_token"], 61 * 576 * 2)

    def test_random_weights_of_few_small_layers_run(self):
        small = dict(num_hidden_layers=2, first_k_dense_replace=1, n_routed_experts=16, n_group=4, topk_group=2, hidden_size=256,
                     intermediate_size=512, moe_intermediate_size=64, num_attention_heads=8, num_key_value_heads=8, vocab_size=512,
                     num_nextn_predict_layers=0)
        _, plan = self.plan(**small)
        self.assertEqual(plan["kv_groups"][0]["bytes_per_token"], 2 * 576 * 2)
        done = run("-m", self.folder, "--load-format", "dummy", "--max-model-len", "4096", "--prompt-ids", "5,6,7", "-n", "4", "--ignore-eos",
                   "--output-format", "json")
        self.assertEqual(len(json.loads(done.stdout)["token_ids"]), 4)


if __name__ == "__main__":
    unittest.main()
