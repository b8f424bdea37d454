"""Conversations through the engine: a template given by flag, and Mistral's format for checkpoints without any."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from programs import BIN, DEMO, SHARED, environment, needs_shared, run, run_jsonl

MESSAGES = [{"role": "user", "content": "Hello <|im_end|>"}]
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}!{% endif %}"
EXPECTED = "<user>Hello <|im_end|>!"


class TemplateByFlag(unittest.TestCase):
    def prompt_ids(self, template):
        return run_jsonl([{"messages": MESSAGES, "max_tokens": 1}], "--chat-template", template)[0]["prompt_token_ids"]

    def test_text_and_file_mean_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "mine.jinja"
            path.write_text(TEMPLATE)
            from_file = self.prompt_ids(str(path))
        self.assertEqual(self.prompt_ids(TEMPLATE), from_file)
        # The template's output has no special token in it, so it is the ids of that text, letters of <|im_end|> included.
        guarded = run_jsonl([{"prompt": EXPECTED, "max_tokens": 1}], "-m", DEMO)[0]["prompt_token_ids"]
        special = {token["id"] for token in json.loads((pathlib.Path(DEMO) / "tokenizer.json").read_text())["added_tokens"]}
        self.assertFalse(special & set(from_file))
        self.assertTrue(special & set(guarded))

    def test_wrong_templates(self):
        for template, code in (("{% for %}", 65), ("/no/such/file", 66)):
            done = run("-m", DEMO, "-p", "x", "--chat-template", template, check=False)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)


class MistralWithoutTemplate(unittest.TestCase):
    CONFIG = {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_size": 64, "intermediate_size": 64,
              "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 4096,
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "bos_token_id": 1, "eos_token_id": 2, "sliding_window": None}

    def test_tools_have_a_template_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder:
            for file in pathlib.Path(DEMO).iterdir():
                if file.name != "tokenizer_config.json":
                    os.symlink(file, pathlib.Path(folder) / file.name)
            config = json.loads((pathlib.Path(DEMO) / "tokenizer_config.json").read_text())
            config["chat_template"] = [{"name": "default", "template": "plain {{ messages[0].content }}"},
                                       {"name": "tool_use", "template": "tools {{ tools|length }} {{ messages[0].content }}"}]
            (pathlib.Path(folder) / "tokenizer_config.json").write_text(json.dumps(config))
            lines = [{"messages": MESSAGES}, {"messages": MESSAGES, "tools": [{"type": "function"}]}, {"messages": MESSAGES, "tools": []}]
            done = subprocess.run([str(BIN / "nvllm-inspect"), "template", "-m", folder], input="".join(json.dumps(line) + "\n" for line in lines),
                                  capture_output=True, text=True, env=environment(), check=True)
        self.assertEqual([json.loads(line)["text"].split(" Hello")[0] for line in done.stdout.splitlines()], ["plain", "tools 1", "tools 0"])

    @needs_shared("chat/mistral_common.jsonl")
    def test_the_publishers_ids(self):
        for version, vocabulary in (("mistral-v1", 32000), ("mistral-v2", 32768)):
            lines = (SHARED / "chat" / "mistral_common.jsonl").read_text().splitlines()
            cases = [case for case in map(json.loads, lines) if case["tokenizer"] == version]
            self.assertTrue(cases)
            with tempfile.TemporaryDirectory() as folder:
                config = {**self.CONFIG, "vocab_size": vocabulary}
                (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
                os.symlink(SHARED / "tokenizers" / version / "tokenizer.model", pathlib.Path(folder) / "tokenizer.model")
                requests = [{**case["conversation"], "max_tokens": 1} for case in cases]
                answers = run_jsonl(requests, "--load-format", "dummy", "--max-model-len", "2048", model=folder)
            for case, answer in zip(cases, answers, strict=True):
                self.assertEqual(answer.get("prompt_token_ids"), case["ids"], (case["name"], answer.get("error")))


if __name__ == "__main__":
    unittest.main()
