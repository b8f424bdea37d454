"""Conversations through the engine: a template given by flag, and Mistral's format for checkpoints without any."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from programs import BIN, DEMO, SHARED, environment, needs_shared, run, run_jsonl
from serve_testing import Server

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


class OneConversation(unittest.TestCase):
    """The same messages are the same tokens in every program."""

    # Walks through arguments, looks into the content, knows four roles.
    TEMPLATE = """
{%- for m in messages %}
  {%- if m.role not in ['system', 'user', 'assistant', 'tool'] %}{{ raise_exception('no such role: ' + m.role) }}{% endif %}
  {{- '[' + m.role + ']' + m.content }}{% if '!' in m.content %}(loud){% endif %}
  {%- for call in m.tool_calls %}
    {{- '<' + call.function.name }}{% for key, value in call.function.arguments.items() %} {{ key }}={{ value }}{% endfor %}>
  {%- endfor %}
{%- endfor %}
{%- if effort is defined or reasoning_effort is defined %}{{ (effort or '') ~ (reasoning_effort or '') }}{% endif %}
{%- if add_generation_prompt %}[assistant]{% endif %}"""

    @staticmethod
    def calls(*arguments):
        return [{"id": f"call_{i}", "type": "function", "function": {"name": f"f{i}", "arguments": text}} for i, text in enumerate(arguments)]

    def conversations(self):
        """(fields of the request, the text that its template makes)"""
        hello = {"role": "user", "content": "Hello"}
        yield {"messages": [hello]}, "[user]Hello[assistant]"
        parts = [{"type": "text", "text": "one!"}, "two", {"type": "input_text", "text": "three"}, {"text": "four"}]
        yield {"messages": [{"role": "user", "content": parts}]}, "[user]one!\ntwo\nthree\nfour(loud)[assistant]"
        called = [hello, {"role": "assistant", "content": None, "tool_calls": self.calls('{"b": 1, "a": {"c": [2]}}', "", {"x": "\u00fc"})},
                  {"role": "tool", "tool_call_id": "call_0", "content": [{"type": "text", "text": "5"}]}]
        yield {"messages": called}, "[user]Hello[assistant]<f0 b=1 a={'c': [2]}><f1><f2 x=\u00fc>[tool]5[assistant]"
        replayed = {"role": "assistant", "content": None, "refusal": "no", "audio": None, "function_call": None, "annotations": [],
                    "tool_calls": []}
        yield {"messages": [hello, replayed, hello]}, "[user]Hello[assistant]no[user]Hello[assistant]"
        yield {"messages": [{"role": "developer", "content": "x"}, hello], "chat_template_kwargs": {"effort": "e"},
               "reasoning_effort": "low", "add_generation_prompt": False}, "[system]x[user]Helloelow"
        yield {"messages": [hello, {"role": "assistant", "content": ["Once", "upon"]}], "add_generation_prompt": False,
               "continue_final_message": True}, "[user]Hello[assistant]Once\nupon"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "mine.jinja"
        self.path.write_text(self.TEMPLATE)

    def inspect(self, command, *arguments, lines):
        done = subprocess.run([str(BIN / "nvllm-inspect"), command, "-m", DEMO, *map(str, arguments)],
                              input="".join(json.dumps(line) + "\n" for line in lines), capture_output=True, text=True, env=environment())
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_tokens_are_the_same(self):
        requests, texts = map(list, zip(*self.conversations()))
        # The variables of a template, as they stand in a line of nvllm-inspect.
        lines = [{**request, **request.get("chat_template_kwargs", {})} for request in requests]
        self.assertEqual([line.get("text") for line in self.inspect("template", "--template", self.path, lines=lines)], texts)
        expected = [line["ids"] for line in self.inspect("tokens", "--input-format", "jsonl", lines=[{"text": text} for text in texts])]
        batch = run_jsonl([{**request, "max_tokens": 1} for request in requests], "--chat-template", str(self.path))
        self.assertEqual([answer.get("prompt_token_ids") for answer in batch], expected)
        with Server("--chat-template", str(self.path)) as server:
            for request, ids in zip(requests, expected, strict=True):
                self.assertEqual(server.must(server.post("/tokenize", request))["tokens"], ids)
                answer = server.must(server.post("/v1/chat/completions", {**request, "max_tokens": 1}))
                self.assertEqual(answer["usage"]["prompt_tokens"], len(ids))

    def test_faults_are_the_same(self):
        hello = {"role": "user", "content": "Hello"}
        broken = self.calls('{"city": "Par')
        cases = (([hello, {"role": "robot", "content": "x"}], "no such role: robot"),
                 ([hello, {"role": "assistant", "content": None, "tool_calls": broken}], "messages[1].tool_calls[0].function.arguments"),
                 ([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}], "messages[0].content[0].type"),
                 ([hello, {"role": "user"}], "messages[1].content"))
        lines = [{"messages": messages} for messages, _ in cases]
        inspected = self.inspect("template", "--template", self.path, lines=lines)
        done = run("-m", DEMO, "--input-format", "jsonl", "--output-format", "jsonl", "--chat-template", str(self.path),
                   stdin="".join(json.dumps(line) + "\n" for line in lines), check=False)
        self.assertEqual(done.returncode, 65)
        batch = [json.loads(line) for line in done.stdout.splitlines()]
        with Server("--chat-template", str(self.path)) as server:
            for line, (_, says), shown, answered in zip(lines, cases, inspected, batch, strict=True):
                refused = server.post("/v1/chat/completions", {**line, "max_tokens": 1})
                self.assertEqual(refused.status, 400)
                for message in (refused.json()["error"]["message"], json.dumps(shown["error"]), json.dumps(answered["error"])):
                    self.assertIn(says, message)

    def test_a_template_of_the_request(self):
        request = {"messages": MESSAGES, "chat_template": "{{ messages[0].role }}!"}
        ids = self.inspect("tokens", "--input-format", "jsonl", lines=[{"text": "user!"}])[0]["ids"]
        self.assertEqual(run_jsonl([{**request, "max_tokens": 1}])[0]["prompt_token_ids"], ids)
        with Server() as server:
            for path in ("/v1/chat/completions", "/tokenize"):
                refused = server.post(path, request)
                self.assertEqual(refused.status, 400)
                self.assertIn("--trust-request-chat-template", refused.json()["error"]["message"])
        with Server("--trust-request-chat-template") as server:
            answer = server.must(server.post("/tokenize", {**request, "return_token_strs": True}))
            self.assertEqual(answer["tokens"], ids)
            self.assertEqual("".join(answer["token_strs"]), "user!")
            self.assertEqual(server.post("/v1/chat/completions", {**request, "chat_template": "{% if %}", "max_tokens": 1}).status, 400)

    def test_tools_are_counted_and_shown(self):
        template = "{{ tools | length if tools else 'none' }}{{ messages[0].content }}"
        tools = [{"type": "function", "function": {"name": "f"}}]
        with Server("--chat-template", template) as server:
            for more, text in (({}, "none"), ({"tools": []}, "none"), ({"tools": tools * 3}, "3")):
                ids = server.must(server.post("/tokenize", {"messages": MESSAGES, **more}))["tokens"]
                shown = server.must(server.post("/detokenize", {"tokens": ids}))["prompt"]
                self.assertEqual(shown, text + MESSAGES[0]["content"])
                answer = server.chat(MESSAGES, max_tokens=1, tool_choice="none", **more)
                self.assertEqual(answer["usage"]["prompt_tokens"], len(ids))


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
