"""What a model's files say and is not used: every program names it at its start, and nvllm-inspect describes what cannot run."""

import json
import shutil
import struct
import unittest

from bench_testing import bench
from programs import DEMO, SOURCE, FolderTest, run
from quantize_testing import quantize
from serve_testing import Server
from test_inspect import inspect, inspect_json

FAMILIES = SOURCE / "tests" / "fixtures" / "families"
KEY = "config.json: not used: attention_multiplier"
HEAD = "model.safetensors: not used: v_head (2 tensors)"


def add_tensors(path, names):
    """Appends tensors of one float32 each to a safetensors file."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    for name in names:
        header[name] = {"dtype": "F32", "shape": [1], "data_offsets": [len(body), len(body) + 4]}
        body += struct.pack("<f", 1.0)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


class Notes(FolderTest):
    def model(self):
        folder = self.folder / "model"
        shutil.copytree(DEMO, folder)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"attention_multiplier": 0.5}))
        add_tensors(folder / "model.safetensors", ["v_head.weight", "v_head.bias"])
        return folder

    def test_every_program_tells_them(self):
        model = self.model()
        done = run("-m", model, "-p", "Once", "-n", 4, "--temperature", 0)
        self.assertEqual(done.stdout, run("-p", "Once", "-n", 4, "--temperature", 0, "-m", DEMO).stdout)
        told = {"nvllm-run": done.stderr,
                "nvllm-bench": bench("latency", "-m", model, "--batch-size", 1, "--input-len", 4, "--output-len", 2).stderr,
                "nvllm-quantize": quantize("-m", model, "-o", self.folder / "out", "--method", "rtn", "--dry-run").stderr}
        server = Server(model=model)
        server.stop()
        told["nvllm-serve"] = server.log  # whole once the server has ended
        for program, text in told.items():
            with self.subTest(program):
                self.assertEqual((text.count(KEY), text.count(HEAD)), (1, 1), text)
        notes = inspect_json("model", model)["notes"]
        self.assertTrue(any(note.endswith(KEY) for note in notes), notes)
        self.assertTrue(any(note.endswith(HEAD) for note in notes), notes)

    def test_models_without_oddities_have_none(self):
        for model in (DEMO, *sorted(FAMILIES.iterdir())):
            if (SOURCE / model / "config.json").exists():
                with self.subTest(str(model)):
                    self.assertEqual(inspect_json("model", model)["notes"], [])


class Descriptions(FolderTest):
    def described(self, config):
        (self.folder / "config.json").write_text(json.dumps(config))
        report = inspect_json("model", self.folder)
        self.assertEqual(inspect_json("model", self.folder / "config.json")["reason"], report["reason"])
        self.assertIn("no: ", inspect("model", self.folder).stdout)
        self.assertFalse(report["supported"])
        return report

    def test_what_cannot_run_is_described(self):
        llama = json.loads((FAMILIES / "llama" / "config.json").read_text())
        rows = [
            ({"model_type": "new", "architectures": ["NewForCausalLM"], "hidden_size": 48, "intermediate_size": [64, 96],
              "rope_parameters": {"rope_type": "proportional"}, "num_hidden_layers": 3}, "neither is its model_type"),
            ({"model_type": "new", "architectures": ["NewForConditionalGeneration"], "hidden_size": 48,
              "text_config": {"model_type": "new_text", "hidden_size": 48}}, "neither is its model_type"),
            ({"model_type": "new", "architectures": ["NewModel"], "hidden_size": 48, "llm_config": llama}, "save that part alone"),
            (llama | {"hidden_size": 48, "rope_parameters": {"rope_type": "spiral"}}, "known kinds of RoPE"),
            (llama | {"hidden_size": 48, "quantization": {"bits": 4, "group_size": 64}}, "MLX"),
            (llama | {"hidden_size": 48, "model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"],
                      "use_bidirectional_attention": True}, "see later ones"),
            ({"hidden_size": 48}, "is not supported"),
            ({"hidden_size": 48, "text_config": ["odd"], "quantization_config": 4, "architectures": ["NewModel"]}, "NewModel"),
        ]
        for config, reason in rows:
            with self.subTest(reason):
                report = self.described(config)
                self.assertIn(reason, report["reason"])
                self.assertEqual(report["config"]["hidden_size"], 48)


if __name__ == "__main__":
    unittest.main()
