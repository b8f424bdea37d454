"""Model directories that lie: refused with one line, the right exit code and little memory, or understood and answered."""

import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from programs import DEMO, RUN, SOURCE, environment
from tensors import read_tensors, write_tensors

FAMILIES = SOURCE / "tests" / "fixtures" / "families"
MOST_MEMORY_KIB = 64 * 1024  # before a refusal
MOST_TOKENIZER_KIB = 1024 * 1024
REFUSED = (65, 77)
SANITIZED = b"__asan_init" in pathlib.Path(RUN).read_bytes()


def ask(folder, *arguments):
    """Exit code, lines on standard error and peak memory of one short answer."""
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen([RUN, "-m", str(folder), "-n", "2", *(arguments or ("-p", "Once"))], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=errors, env=environment())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        return process.returncode, errors.read().strip().splitlines(), usage.ru_maxrss


class HostileModel(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        for file in pathlib.Path(DEMO).iterdir():
            os.symlink(file, self.folder / file.name)

    def replace(self, name, text):
        (self.folder / name).unlink(missing_ok=True)
        (self.folder / name).write_text(text)

    def check(self, what, allowed, most_kib, *arguments):
        code, errors, peak_kib = ask(self.folder, *arguments)
        with self.subTest(what):
            self.assertIn(code, allowed, errors)
            if code == 0:
                return code
            # What of the files is not used may stand before the error.
            self.assertLess(len(errors), 32, errors)
            for line in errors[:-1]:
                self.assertRegex(line, "^nvllm-run: (?!error: )")
            self.assertTrue(errors[-1].startswith("nvllm-run: error: "), errors)
            if not SANITIZED:
                self.assertLess(peak_kib, most_kib)
        return code


class HostileConfigs(HostileModel):
    def test_config(self):
        good = json.loads((pathlib.Path(DEMO) / "config.json").read_text())
        values = [None, -1, 0, 10**9, 2**63, 2**64, 1.5, "many", [], {}, [[]], True, 1e300]
        refused = 0
        cases = [({key: value for key, value in good.items() if key != name}, f"{name} missing") for name in good]
        cases += [({**good, name: value}, f"{name}: {value!r}") for name in good for value in values]
        for config, what in cases:
            self.replace("config.json", json.dumps(config))
            refused += self.check(what, (0, *REFUSED), MOST_MEMORY_KIB) != 0
        print(f"config.json: {refused} of {len(cases)} refused, the others understood")
        self.assertGreater(refused, 60)
        for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"):
            for value in (-1, 0, 10**9, 2**63, "many"):
                self.replace("config.json", json.dumps({**good, key: value}))
                self.check(f"{key}: {value}", REFUSED, MOST_MEMORY_KIB)


class HostileTensors(HostileModel):
    """A fixture whose tensors are changed."""

    family = ""

    def setUp(self):
        super().setUp()
        for file in self.folder.iterdir():
            file.unlink()
        self.config = json.loads((FAMILIES / self.family / "config.json").read_text())
        self.tensors = read_tensors(FAMILIES / self.family / "model.safetensors")

    def write(self, tensors, config):
        write_tensors(self.folder / "model.safetensors", tensors)
        self.replace("config.json", json.dumps(config))

    def check_shapes(self, name, shapes, tensors, config):
        for shape in shapes:
            changed = dict(tensors)
            bytes_each = {"U8": 1, "BF16": 2}[tensors[name][0]]
            changed[name] = (tensors[name][0], shape, bytes(bytes_each * math.prod(shape)))
            self.write(changed, config)
            self.check(f"{name} {shape}", (65,), MOST_MEMORY_KIB, "--prompt-ids", "1,2,3")


class HostileStacks(HostileTensors):
    """Tensors that hold all experts of a layer: fewer of them than the config says, or of another shape, must not be read past their end."""

    family = "gpt_oss"

    def test_dense(self):
        self.write(self.tensors, self.config)
        self.assertEqual(self.check("unchanged", (0,), 0, "--prompt-ids", "1,2,3"), 0)
        stack = "model.layers.1.mlp.experts.gate_up_proj"
        experts, into, out = self.tensors[stack][1]
        self.check_shapes(stack, ([1, into, out], [experts + 1, into, out], [experts, into, 2], [experts, 2, out], [experts, into], [0, into, out]),
                          self.tensors, self.config)
        self.check_shapes(stack + "_bias", ([1, out], [experts + 1, out], [experts, 2], [experts * out], [experts, out, 1]),
                          self.tensors, self.config)
        absent = dict(self.tensors)
        del absent[stack + "_bias"]
        self.write(absent, self.config)
        self.check("no bias", (65,), MOST_MEMORY_KIB, "--prompt-ids", "1,2,3")

    def test_mxfp4(self):
        tensors = dict(self.tensors)
        for name in [name for name in tensors if name.endswith(("experts.gate_up_proj", "experts.down_proj"))]:
            experts, into, out = tensors.pop(name)[1]
            tensors[name + "_blocks"] = ("U8", [experts, out, into // 32, 16], bytes(experts * out * into // 2))
            tensors[name + "_scales"] = ("U8", [experts, out, into // 32], b"\x7f" * (experts * out * into // 32))
        config = self.config | {"quantization_config": {"quant_method": "mxfp4"}}
        self.write(tensors, config)
        self.assertEqual(self.check("unchanged", (0,), 0, "--prompt-ids", "1,2,3"), 0)
        stack = "model.layers.0.mlp.experts.down_proj"
        experts, out, groups, _ = tensors[stack + "_blocks"][1]
        self.check_shapes(stack + "_blocks", ([1, out, groups, 16], [experts, 2, groups, 16], [experts, out, groups, 8], [experts, out], [experts]),
                          tensors, config)
        self.check_shapes(stack + "_scales", ([1, out, groups], [experts, 2, groups], [experts, out, 2], [experts * out]), tensors, config)


class HostileLatents(HostileTensors):
    """Latent attention: its matrix of keys and values is taken apart by heads, so its shape must be what the config says."""

    family = "deepseek_v3"

    def test_shapes(self):
        self.write(self.tensors, self.config)
        self.assertEqual(self.check("unchanged", (0,), 0, "--prompt-ids", "1,2,3"), 0)
        layer = "model.layers.1.self_attn."
        for name in ("kv_b_proj", "kv_a_proj_with_mqa", "q_a_proj", "q_b_proj", "o_proj"):
            out, into = self.tensors[layer + name + ".weight"][1]
            self.check_shapes(f"{layer}{name}.weight", ([out - 1, into], [out, into + 1], [into, out], [1, out, into], [out * into], [0, into], [2, 2]),
                              self.tensors, self.config)
        for name in ("kv_a_layernorm", "q_a_layernorm"):
            size, = self.tensors[layer + name + ".weight"][1]
            self.check_shapes(f"{layer}{name}.weight", ([size + 1], [1], [size, 1], [0]), self.tensors, self.config)
        absent = dict(self.tensors)
        del absent[layer + "kv_b_proj.weight"]
        self.write(absent, self.config)
        self.check("no kv_b_proj", (65,), MOST_MEMORY_KIB, "--prompt-ids", "1,2,3")

    def test_sizes(self):
        for key in ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
            for value in (-1, 0, 1, 7, 24, 8190, 10**6, 10**9, 2**63, 1.5, "many", [], None):
                self.write(self.tensors, self.config | {key: value})
                self.check(f"{key}: {value!r}", (65,), MOST_MEMORY_KIB, "--prompt-ids", "1,2,3")
            self.write(self.tensors, {name: size for name, size in self.config.items() if name != key})
            self.check(f"no {key}", (65,), MOST_MEMORY_KIB, "--prompt-ids", "1,2,3")


class HostileTokenizers(HostileModel):
    def vocabulary(self, model, **sections):
        self.replace("tokenizer.json", json.dumps({"version": "1.0", "model": model, **sections}))

    def test_five_million_merges(self):
        # Written by a process of its own: a child's peak begins at its parent's size.
        script = "import sys, json, pathlib\n" \
            "count, folder, full = int(sys.argv[1]), sys.argv[2], sys.argv[3] == 'full'\n" \
            "merges = [f'x{i // 2000} y{i % 2000}' for i in range(count)]\n" \
            "names = ['a'] + [f'{letter}{i}' for i in range(2500) for letter in 'xy']\n" \
            "names += [merge.replace(' ', '') for merge in merges] if full else []\n" \
            "vocab = {name: index for index, name in enumerate(names)}\n" \
            "pathlib.Path(folder, 'tokenizer.json').write_text(json.dumps({'version': '1.0', 'model': {'type': 'BPE', 'vocab': vocab, 'merges': merges}}))\n"
        (self.folder / "tokenizer.json").unlink()
        for kind in ("results that are no tokens", "full"):
            count = 50_000 if SANITIZED else 5_000_000
            subprocess.run([sys.executable, "-c", script, str(count), str(self.folder), kind], check=True)
            self.check(f"five million merges, {kind}", (0, *REFUSED), MOST_TOKENIZER_KIB)

    def test_cycles_gaps_and_enormous_ids(self):
        bytes_vocab = {"a": 0, "b": 1, "ab": 2, "aba": 3}
        for what, vocab, merges in (
                ("a merge of itself", bytes_vocab, ["a b", "ab a", "ab a", "aba a"]),
                ("ids with gaps", {"a": 0, "b": 1000, "ab": 50_000_000}, ["a b"]),
                ("an id of 2^31", {"a": 0, "b": 2**31}, []),
                ("an id of 2^63", {"a": 0, "b": 2**63}, []),
                ("two tokens of one id", {"a": 0, "b": 0, "ab": 0}, ["a b"])):
            self.vocabulary({"type": "BPE", "vocab": vocab, "merges": merges})
            self.check(what, (0, *REFUSED), MOST_TOKENIZER_KIB)

    def test_patterns_that_explode(self):
        model = {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}
        text = "a" * 20_000 + "b"
        for pattern in (r"(a+)+$", r"(a|aa)+$", r"(.*)*c", r"(a*)*b\1", r"(?:a?){500}a{500}", r"(" * 2000 + "a" + r")" * 2000, r"a{1,65535}{1,65535}"):
            self.vocabulary(model, pre_tokenizer={"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False})
            self.check(pattern[:40], (0, *REFUSED), MOST_TOKENIZER_KIB, "-p", text)


class HostileTemplates(HostileModel):
    LOOPS = [
        "{% for i in range(99999) %}{% for j in range(99999) %}{{ j }}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f(n) %}{{ g(n) }}{% endmacro %}{% macro g(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
    ]
    GROWTH = [
        "{{ 'a' * 99999999999 }}", "{{ [1] * 99999999999 }}", "{{ 2 ** 99999 }}", "{{ range(999999999)|list }}",
        "{{ '%99999999999d' % 1 }}", "{{ 'a'.center(99999999999) }}", "{{ 'a'.ljust(10 ** 12) }}", "{{ '{:>99999999999}'.format(1) }}",
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
        "{{ 'aaaa'|replace('', 'b' * 99999)|replace('', 'c' * 99999) }}", "{{ ('a' * 9999)|wordwrap(1, true, 'b' * 99999) }}",
        "{{ 'a'|indent(999999999, true) }}", "{{ (['a'] * 9999)|join('b' * 999999) }}", "{{ '\\n' * 99999 | indent(99999) }}",
    ]
    REACHING_OUT = [
        f"{{{{ {expression} }}}}" for expression in (
            "''.__class__.__mro__[1].__subclasses__()", "messages.__init__.__globals__", "cycler.__init__.__globals__.os.popen('id').read()",
            "lipsum.__globals__", "self.__init__", "joiner.__init__.__globals__", "namespace.__init__", "config.items()", "request.environ",
            "''|attr('__class__')", "messages|map(attribute='__class__')|list", "x.y.z", "undefined_function()", "open('/etc/passwd').read()",
            "import('os')", "().__class__", "{}.__class__.__base__", "loop.__class__", "range.__self__", "raise_exception.__globals__",
            "strftime_now.__globals__", "''.format.__globals__", "'{0.__class__}'.format('')", "messages[0].__dict__", "messages.pop.__self__")]
    SYNTAX = ["{% include '/etc/passwd' %}", "{% import 'os' as os %}", "{% from 'x' import y %}", "{% extends 'base' %}", "{% for %}", "{{",
              "{% if %}", "{% endfor %}", "{{ 1 + }}", "{{ (" + "(" * 100_000 + " }}", "{% set = 1 %}", "{% block x %}", "{{ 'a", "{# never closed",
              "{% raw %}never closed", "{{ 1" + "+1" * 100_000 + " }}", "{% if 1 %}" * 100_000]

    def test_they_end_with_a_fault(self):
        templates = self.LOOPS + self.GROWTH + self.REACHING_OUT + self.SYNTAX
        request = json.dumps({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1})
        (self.folder / "requests.jsonl").write_text(request + "\n")
        refused = 0
        for template in templates:
            config = json.loads((pathlib.Path(DEMO) / "tokenizer_config.json").read_text())
            self.replace("tokenizer_config.json", json.dumps({**config, "chat_template": template}))
            harmless = template in self.REACHING_OUT  # undefined values may print as nothing
            refused += self.check(template[:60], (0, 65) if harmless else (65,), 4 * MOST_MEMORY_KIB,
                                  "--input-format", "jsonl", "-f", str(self.folder / "requests.jsonl")) != 0
        print(f"templates: {refused} of {len(templates)} ended with a fault, the others wrote nothing of what they asked for")
        self.assertGreaterEqual(len(templates), 60)


if __name__ == "__main__":
    unittest.main()
