"""Settings of every program and command: where they come from, one file for all, checking, printing, and the texts that
are made from the option lists."""

import json
import pathlib
import re
import socket
import subprocess
import tempfile
import unittest

from programs import BIN, DEMO, TIMEOUT_S, FolderTest, environment

PROGRAMS = ("nvllm-run", "nvllm-serve", "nvllm-quantize", "nvllm-bench", "nvllm-inspect")
SHELLS = ("bash", "zsh", "fish")
USAGE, BAD_CONFIG = 64, 78

SHARED_FILE = f"""\
model: {{name: small, path: {DEMO}, precision: bf16, quantization: none}}
gpu: {{memory_limit: 1GiB, utilization_target: 0.5, temperature_alert: 85}}
scheduler: {{batch_size: 3, token_budget: 64, policy: sjf, max_wait_time: 10}}
cache: {{block_size: 16KB, max_blocks: 99, defrag_threshold: 0.5}}
api: {{port: 8123, max_concurrent_requests: 5, timeout: 100, streaming: false, host: localhost}}
monitoring: {{metrics_port: 9100, log_level: warning, alert_rules: ["nvllm_requests_in_flight > 100"]}}
"""
SHARED_OPTIONS = {
    "served-model-name": "small", "model": DEMO, "dtype": "bf16", "quantization": "none", "memory-limit": "1GiB",
    "gpu-memory-utilization": 0.5, "temperature-alert": 85, "max-num-seqs": 3, "max-num-batched-tokens": 64,
    "scheduling-policy": "sjf", "queue-timeout": 10, "block-size": "16000B", "max-blocks": 99,
    "defrag-threshold": 0.5, "port": 8123, "max-concurrent-requests": 5, "request-timeout": 100, "streaming": False,
    "metrics-port": 9100, "log-level": "warning", "alert-rules": ["nvllm_requests_in_flight > 100"]}


def call(program, *arguments, env=None):
    return subprocess.run([str(BIN / program), *map(str, arguments)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, env=env or environment())


def output(program, *arguments, env=None):
    done = call(program, *arguments, env=env)
    if done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}: {program} {' '.join(map(str, arguments))[:2000]}\n{done.stderr}")
    return done.stdout


def every_command():
    """(words that call it, its options) of each program without commands, and of each command."""
    for program in PROGRAMS:
        described = json.loads(output(program, "--list-options"))
        for command in described.get("commands", [described]):
            words = (program, command["command"]) if "command" in command else (program,)
            yield words, command["options"]


COMMANDS = list(every_command())


def settings(*words, env=None):
    """What --print-config says: {option: (value, origin)}."""
    values = {}
    for line in output(*words, "--print-config", env=env).splitlines():
        if line and not line.startswith("#"):
            name, rest = line.split(": ", 1)
            value, origin = rest.rsplit("  # ", 1)
            values[name] = (json.loads(value), origin)
    return values


def number_of(text):
    """'4KiB' and '0.5' as numbers."""
    digits, suffix = re.fullmatch(r"([-+0-9.e]+)([KMGT]iB)?", text).groups()
    return float(digits) * 1024 ** (" KMGT".index(suffix[0]) if suffix else 0)


def three_values(option):
    """Values that the option takes, as texts; the second differs from the first and from the third."""
    if option["choices"]:
        first, second, third = (option["choices"] * 3)[-3:]
        return first, second, third
    if option["kind"] == "boolean":
        return "false", "true", "false"
    if option["name"] == "cpu-mask":
        return "0,2", "0-3", "1-1"
    if option["name"] == "logit-bias":
        return "1+2", "3-4", "5+0.5"
    if option["kind"] == "text":
        return "a", "b", "c"
    bounds = option["range"].removeprefix("at least ").removeprefix("above ").replace(" and at most ", " to ")
    low, _, high = bounds.partition(" to ")
    if option["kind"] == "number":
        low, high = number_of(low or "1"), number_of(high or "5")
        return tuple(f"{low + (high - low) * part:.6g}" for part in (0.25, 0.5, 0.75))
    low = int(number_of(low or "0"))
    values = [low + 1, low + 2, low + 3]
    return tuple(str(min(value, int(number_of(high)))) if high else str(value) for value in values)


def as_shown(option, text):
    """The value as --print-config shows it."""
    if option["is_secret"]:
        text = "***"
    elif option["name"] in ("swap-space", "kv-offloading-size"):
        text += "GiB"
    elif option["kind"] in ("integer", "number", "boolean") or option["kind"] == "size" and not option["is_bytes"]:
        text = json.loads(text)
    return [text] if option["is_list"] else text


class PrecedenceTest(unittest.TestCase):
    """Flag over environment over file over default, for every option of every program."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "all.yaml"

    def check(self, words, options, chosen, origin, env=None):
        found = settings(*words, env=env)
        self.assertEqual(set(found), {option["name"] for option in options})
        for option in options:
            value, where = found[option["name"]]
            with self.subTest(command=words[:2], option=option["name"]):
                self.assertEqual(where, origin(option["name"]))
                self.assertEqual(value, as_shown(option, chosen[option["name"]]))

    def test_every_option_from_every_source(self):
        for words, options in COMMANDS:
            names = [option["name"] for option in options]
            in_file, in_environment, in_flags = (
                dict(zip(names, values)) for values in zip(*map(three_values, options)))
            defaults = settings(*words)
            self.assertEqual(list(defaults), names)
            self.assertEqual({origin for _, origin in defaults.values()}, {"default"})

            self.file.write_text("".join(f"{name}: '{value}'\n" for name, value in in_file.items()))
            lines = {name: f"file {self.file}:{number}" for number, name in enumerate(names, 1)}
            with_file = (*words, "--config", self.file)
            self.check(with_file, options, in_file, lines.get)

            variables = {f"NVLLM_{name.upper().replace('-', '_')}": value for name, value in in_environment.items()}
            env = environment(**variables)
            self.check(with_file, options, in_environment,
                       lambda name: f"environment NVLLM_{name.upper().replace('-', '_')}", env)

            flags = [f"--{name}={value}" for name, value in in_flags.items()]
            self.check((*with_file, *flags), options, in_flags, lambda name: "flag", env)
            self.check((*with_file, *flags), options, in_flags, lambda name: "flag")

            lines = self.write_in_sections(options, in_file)
            self.check(with_file, options, in_file, lines.get)

    def write_in_sections(self, options, values):
        """Each option in its own section; returns where each stands."""
        written, origins = [], {}
        for section in dict.fromkeys(option["section"] for option in options):
            written.append(f"{section}:")
            for option in options:
                if option["section"] == section:
                    written.append(f"  {option['name']}: '{values[option['name']]}'")
                    origins[option["name"]] = f"file {self.file}:{len(written)}"
        self.file.write_text("\n".join(written))
        return origins


class FileTest(FolderTest):
    def write(self, text, name="nvllm.yaml"):
        (self.folder / name).write_text(text)
        return self.folder / name

    def test_one_file_serves_every_program_and_sets_what_each_has(self):
        path = self.write(SHARED_FILE)
        for words, options in COMMANDS:
            with self.subTest(command=words):
                found = settings(*words, "--config", path)
                named = {option["name"]: option for option in options}
                for name, value in SHARED_OPTIONS.items():
                    if name not in named:
                        continue
                    value = [value] if named[name]["is_list"] and not isinstance(value, list) else value
                    self.assertEqual(found[name][0], value, name)
                    self.assertIn("file ", found[name][1])
                self.assertEqual({name for name, (_, origin) in found.items() if origin != "default"},
                                 (set(SHARED_OPTIONS) | ({"host"} if words == ("nvllm-serve",) else set())) & set(named))

    def test_a_key_that_no_program_knows_is_refused_by_all(self):
        path = self.write("scheduler: {batch_sise: 3}\n")
        for words, _ in COMMANDS:
            done = call(*words, "--print-config", env=environment(NVLLM_CONFIG=str(path)))
            self.assertEqual(done.returncode, BAD_CONFIG, words)
            self.assertIn("did you mean 'batch_size'?", done.stderr)

    def test_what_is_printed_reads_back_as_the_same_values(self):
        path = self.write(SHARED_FILE)
        for words, _ in COMMANDS:
            with self.subTest(command=words):
                printed = self.write(output(*words, "--config", path, "--print-config"), "printed.yaml")
                again = settings(*words, "--config", printed)
                self.assertEqual({name: value for name, (value, _) in again.items()},
                                 {name: value for name, (value, _) in settings(*words, "--config", path).items()})

    def test_secrets_are_hidden_and_what_hides_them_is_no_key(self):
        env = environment(NVLLM_API_KEY="s3cret")
        text = output("nvllm-serve", "--print-config", env=env)
        self.assertNotIn("s3cret", text)
        self.assertIn('api-key: ["***"]  # environment NVLLM_API_KEY\n', text)
        done = call("nvllm-serve", "--check-config", "--config", self.write(text))
        self.assertEqual(done.returncode, BAD_CONFIG)
        self.assertIn("api-key: '***' stands for a value that was not printed", done.stderr)
        self.assertEqual(output("nvllm-serve", "--check-config", "--config", self.write(text), env=env), "ok\n")

    def test_checking_says_ok_or_the_fault_and_starts_nothing(self):
        good = self.write(SHARED_FILE, "good.yaml")
        keys = self.write("KEY rpm=many\n", "keys.txt")
        for words, _ in COMMANDS:
            self.assertEqual(output(*words, "--config", good, "--check-config"), "ok\n", words)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.assertEqual(output("nvllm-serve", "--check-config", "--port", taken.getsockname()[1]), "ok\n")
        for code, says, *arguments in (
                (USAGE, "--allow-unauthenticated", "--host", "0.0.0.0"),
                (USAGE, "is not METRIC OP NUMBER", "--alert-rules", "load >"),
                (USAGE, "two models are called", "--model", f"a={DEMO}", "--model", f"a={DEMO}"),
                (USAGE, "unknown option --prot", "--prot", "1"),
                (BAD_CONFIG, "keys.txt", "--api-key-file", keys),
                (BAD_CONFIG, "none.txt", "--api-key-file", self.folder / "none.txt"),
                (BAD_CONFIG, "none", "--model", self.folder / "none"),
                (BAD_CONFIG, "none.jinja", "--chat-template", self.folder / "none.jinja"),
                (BAD_CONFIG, "generation_config.json", "--generation-config", self.folder),
                (USAGE, "the checkpoint is not quantized", "--quantization", "awq"),
                (USAGE, "--model: is empty", "--model", ""),
                (BAD_CONFIG, "none.yaml", "--config", self.folder / "none.yaml"),
                (BAD_CONFIG, "not valid YAML", "--config", self.write("a: [\n", "bad.yaml")),
                (BAD_CONFIG, "--ssl-certfile", "--ssl-certfile", keys)):
            done = call("nvllm-serve", "--check-config", *arguments)
            self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
            self.assertIn(says, done.stderr)
        done = call("nvllm-run", "--check-config", "--inspect-dump-step", "3")
        self.assertEqual(done.returncode, USAGE, done.stderr)


    def test_what_was_read_in_another_way_is_said(self):
        for arguments, env, says in (
                (("--swap-space", "4"), environment(), "--swap-space: 4 counts GiB"),
                ((), environment(NVLLM_SWAP_SPACE="0.5"), "NVLLM_SWAP_SPACE: 0.5 counts GiB"),
                (("--config", self.write("swap-space: 2\n")), environment(), "nvllm.yaml:1: swap-space: 2 counts GiB"),
                ((), environment(NVLLM_MAX_TOKNS="3"), "NVLLM_MAX_TOKNS is not read; did you mean NVLLM_MAX_TOKENS?")):
            done = call("nvllm-run", "--check-config", *arguments, env=env)
            self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)
            self.assertIn(says, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertEqual(call("nvllm-run", "--check-config", "--swap-space", "4GiB").stderr, "")

    def test_no_option_of_another_program_passes_for_a_misspelt_one(self):
        every = {option["name"]: three_values(option)[0] for _, options in COMMANDS for option in options
                 if option["kind"] == "text" and not option["is_list"]}
        for words, options in COMMANDS:
            own = {option["name"] for option in options}
            env = environment(**{f"NVLLM_{name.upper().replace('-', '_')}": value
                                 for name, value in every.items() if name not in own})
            self.assertEqual(call(*words, "--print-config", env=env).stderr, "", words)

    def test_a_file_for_vllm(self):
        path = self.write(f"model: {DEMO}\ntensor-parallel-size: 1\ntrust_remote_code: true\nmax-model-len: 1024\n"
                          "num-gpu-blocks-override: 90\ndisable-log-requests: true\n")
        found = settings("nvllm-serve", "--config", path)
        self.assertEqual(found["max-blocks"], (90, f"file {path}:5"))
        path.write_text("lora-dtype: bfloat16\n")
        done = call("nvllm-serve", "--check-config", "--config", path)
        self.assertEqual(done.returncode, BAD_CONFIG)
        self.assertIn("nvllm.yaml:1: --lora-dtype bfloat16: adapters are kept as they are stored", done.stderr)

    def test_a_port_out_of_range(self):
        done = call("nvllm-serve", "--check-config", "--config", self.write("port: 99999\n"))
        self.assertEqual(done.returncode, BAD_CONFIG)
        self.assertIn("'99999' is not a whole number from 0 to 65535", done.stderr)


class MemoryTest(unittest.TestCase):
    """Options that the memory plan follows, by the plan."""

    def plan(self, *arguments):
        return json.loads(output("nvllm-inspect", "plan", "-m", DEMO, "--json", *arguments))

    def test_a_size_in_bytes_is_as_many_tokens_as_the_bytes_hold(self):
        per_token = self.plan()["kv_bytes_per_token"]
        for size, tokens in (("16KB", 16000 // per_token), ("16KiB", 16384 // per_token), ("1B", 1), ("5", 5)):
            self.assertEqual(self.plan("--block-size", size)["block_size"], tokens, size)
        half = self.plan("--block-size", "16KB", "--dtype", "bf16")
        self.assertEqual(half["block_size"], 16000 // half["kv_bytes_per_token"])
        self.assertEqual(self.plan("--dtype", "fp32")["kv_bytes_per_token"], 2 * half["kv_bytes_per_token"])

    def test_limits_hold(self):
        limited = self.plan("--memory-limit", "40MiB")
        self.assertLessEqual(limited["total_bytes"], 40 << 20)
        self.assertGreater(limited["total_bytes"], 36 << 20)
        few = self.plan("--max-blocks", "140")
        self.assertEqual(few["kv_groups"][0]["num_blocks"], 140)
        machine = ("--available-memory", "1GiB", "--max-num-seqs", "10000")
        self.assertLess(self.plan(*machine)["total_bytes"], 0.6 * (1 << 30))
        filled = self.plan(*machine, "--gpu-memory-utilization", "0.9")["total_bytes"] / (1 << 30)
        self.assertTrue(0.88 < filled <= 0.9, filled)


class TextsTest(unittest.TestCase):
    """Help, manual and completions name every flag."""

    def test_every_flag_of_every_program_is_in_help_manual_and_completions(self):
        manuals = {program: output(program, "--man").replace("\\-", "-") for program in PROGRAMS}
        completions = {(program, shell): output(program, "--completion", shell)
                       for program in PROGRAMS for shell in SHELLS}
        general = ["--config", "--check-config", "--print-config", "--help", "-h", "--version", "--completion", "--man",
                   "--list-options"]
        for words, options in COMMANDS:
            help_text = output(*words, "--help")
            flags = [flag for option in options for flag in option["flags"]]
            for flag in flags + general:
                with self.subTest(command=words, flag=flag):
                    shown = flag.replace("--no-", "--[no-]") if f"--{flag[5:]}" in flags else flag
                    self.assertRegex(help_text.replace("--[no-]", "--[no-]"),
                                     f"(?m)(^|[ ,]){re.escape(shown)}|{re.escape('--[no-]' + flag[2:])}")
                    self.assertIn(f"\\fB{flag}\\fR", manuals[words[0]])
                    self.assertRegex(completions[words[0], "bash"], f'[ "|(]{re.escape(flag)}[ "|)]')
                    self.assertIn(f"'*{flag}", completions[words[0], "zsh"])
                    fish = f" -s {flag[1:]} " if len(flag) == 2 else f" -l {flag[2:]} "
                    self.assertIn(fish, completions[words[0], "fish"])

    def test_bash_reads_the_completions(self):
        for program in PROGRAMS:
            done = subprocess.run(["bash", "-n"], input=output(program, "--completion", "bash"), text=True,
                                  capture_output=True, timeout=TIMEOUT_S)
            self.assertEqual((done.returncode, done.stderr), (0, ""), program)

    def test_help_on_a_topic(self):
        for program, topic, says, says_not in (
                ("nvllm-serve", "limits", "--max-body", "--model"), ("nvllm-serve", "port", "--port N", "--max-body"),
                ("nvllm-run", "prefix", "--[no-]enable-prefix-caching", "--threads"),
                ("nvllm-bench", "latency", "Usage: nvllm-bench latency", "--goodput"),
                ("nvllm-bench", "goodput", "nvllm-bench serve\n", "nvllm-bench latency"),
                ("nvllm-inspect", "config", "--config FILE", "--svg")):
            text = output(program, "--help", topic)
            self.assertIn(says, text)
            self.assertNotIn(says_not, text)
        done = call("nvllm-serve", "--help", "potr")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("did you mean port?", done.stderr)


if __name__ == "__main__":
    unittest.main()
