"""nvllm-bench: every measurement of speed on the demo model with tiny sizes. Outcomes, counts and keys; never times."""

import json
import pathlib
import re
import signal
import subprocess
import time
import unittest

from adapter_testing import Adapter, linears_of
from bench_testing import BAD_DATA, BENCH, CANNOT_CREATE, NO_INPUT, UNAVAILABLE, USAGE, BenchTest, bench
from programs import DEMO, TIMEOUT_S, environment
from terminal_testing import Terminal


class Throughput(BenchTest):
    SMALL = ("--num-prompts", 6, "--input-len", 12, "--output-len", 5, "--repeats", 2)

    def test_bare_flags_measure_throughput(self):
        done = bench("--batch", 4, *self.SMALL)
        self.assertRegex(done.stdout, r"Throughput: [\d.]+ requests/s, [\d.]+ total tokens/s, [\d.]+ output tokens/s\n"
                                      r"Total num prompt tokens:  72\nTotal num output tokens:  30\n")

    def test_result(self):
        result, _ = self.result("throughput", "--batch", 3, *self.SMALL)
        self.check_environment(result)
        self.assertEqual((result["num_requests"], result["total_num_tokens"], result["repeats"]), (6, 102, 2))
        for key in ("elapsed_time", "requests_per_second", "tokens_per_second"):
            self.assertGreater(result[key], 0)

    def test_continuous_batching_fills_more_places(self):
        result, table = self.result("throughput", "--batch", 4, "--batching", "both", "--num-prompts", 24,
                                    "--input-len", 4, "--output-len", 20, "--random-range-ratio", 0.9, "--repeats", 1)
        ways = result["batching"]
        self.assertEqual(set(ways), {"continuous", "static"})
        self.assertLess(ways["continuous"]["steps"], ways["static"]["steps"])
        self.assertGreater(ways["continuous"]["slots_filled"], ways["static"]["slots_filled"])
        self.assertIn("slots filled", table)

    def test_rate_of_requests(self):
        result, table = self.result(*self.SMALL, "--request-rate", 40, "--repeats", 1)
        # The last request is sent at count / rate, by which time the others may have ended.
        self.assertGreater(result["elapsed_time"], result["num_requests"] / 40)
        self.assertIn("timed", result["batching"])
        self.assertIn("timed", table)

    def test_adapters_by_where_they_were(self):
        linears = linears_of(pathlib.Path(DEMO))
        for index in range(3):
            Adapter(linears, seed=index).write(self.folder / "adapters" / f"a{index}")
        result, table = self.result(*self.SMALL, "--lora-dir", self.folder / "adapters", "--lora-assignment", "round-robin", "--max-loras", 1,
                                    "--max-cpu-loras", 2, "--batch", 1, "--repeats", 2)
        tiers = result["adapters"]
        self.assertEqual(sum(tiers[tier]["requests"] for tier in ("hot", "warm", "cold")), 2 * result["num_requests"])
        self.assertEqual(tiers["none"]["requests"], 0)
        self.assertGreater(tiers["loads"], 3)
        self.assertGreater(tiers["evictions"], 3)
        self.assertIn("median TTFT ms", table)

    def test_data_sets(self):
        result, _ = self.result("--dataset-name", "prefix_repetition", "--prefix-len", 40, "--num-prefixes", 2,
                                *self.SMALL)
        self.assertEqual(result["total_prompt_tokens"], 6 * 52)
        lines = self.file("requests.jsonl", '{"prompt": "Once upon a time", "max_tokens": 3}\n\n'
                                            '{"prompt_token_ids": [1, 2, 3], "output_len": 1}\n')
        result, _ = self.result("--dataset-name", "jsonl", "--dataset-path", lines, "--repeats", 1)
        self.assertEqual(result["num_requests"], 2)

    def test_synthetic_proposals(self):
        plain, _ = self.result("--batch", 3, *self.SMALL)
        for acceptance in (0.0, 0.5, 1.0):
            config = json.dumps({"method": "synthetic", "synthetic_acceptance": acceptance, "num_speculative_tokens": 3, "adaptive": False})
            result, _ = self.result("--batch", 3, *self.SMALL, "--speculative-config", config)
            way = result["batching"]["continuous"]
            self.assertGreater(way["cpu_time"], 0)
            self.assertEqual(result["total_output_tokens"], plain["total_output_tokens"])
            self.assertGreater(way["draft_tokens"], 0)
            if acceptance in (0.0, 1.0):
                self.assertEqual(way["accepted_draft_tokens"], acceptance * way["draft_tokens"])
            else:
                self.assertLess(way["accepted_draft_tokens"], way["draft_tokens"])
            # How many steps there are without accepted drafts depends a little on when requests arrive.
            if acceptance == 1.0:
                self.assertLess(way["steps"], plain["batching"]["continuous"]["steps"])

    def test_bad_input(self):
        self.fails(USAGE, "--dataset-name", "sonnet", says=["random", "jsonl", "prefix_repetition", "nano-vllm"])
        self.fails(USAGE, "--dataset-name", "jsonl", says=["--dataset-path"])
        self.fails(USAGE, "--batching", "dynamic", says=["continuous", "static"])
        self.fails(USAGE, "thruput", says=["throughput"])
        self.fails(USAGE, "--request-rate", "0", says=["--request-rate"])
        self.fails(USAGE, "--request-rate", "5", "--batching", "both", says=["--batching both"])
        self.fails(USAGE, "--lora-skew", "2", says=["--lora-modules"])
        self.fails(NO_INPUT, "--dataset-name", "jsonl", "--dataset-path", "/no/such/file", says=["/no/such/file"])
        broken = self.file("broken.jsonl", '{"prompt": "a"}\n{"prompt": "b"')
        self.fails(BAD_DATA, "--dataset-name", "jsonl", "--dataset-path", broken, says=["broken.jsonl:2"])
        self.fails(BAD_DATA, "--input-len", 5000, says=["5000"])
        self.fails(CANNOT_CREATE, *self.SMALL, "--output-json", "/no/such/folder/x.json", says=["/no/such/folder"])

    def test_interrupt(self):
        path = self.folder / "result.json"
        child = subprocess.Popen([BENCH, "--num-prompts", "5000", "--output-len", "500", "--repeats", "100",
                                  "--output-json", path],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(NVLLM_MODEL=DEMO))
        while not path.exists() and child.poll() is None:  # signals are watched before it is made
            time.sleep(0.05)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=TIMEOUT_S)
        self.assertEqual(child.returncode, 130)
        # The signal may come before the first step or after it: both outputs are there and say so, or neither.
        result = json.loads(path.read_text() or "{}")
        self.assertEqual(out.startswith(b"PARTIAL: stopped by a signal"), bool(out))
        self.assertEqual(result.get("partial", False), bool(out))
        self.assertEqual(bool(result), bool(out))


class Stopped(BenchTest):
    """On a terminal, with what is measured shown and Ctrl-C once something was."""

    COMMANDS = {
        "throughput": ("--num-prompts", "5000", "--input-len", "4", "--output-len", "20", "--repeats", "100"),
        "latency": ("--num-iters", "100000", "--num-iters-warmup", "0", "--batch-size", "1", "--output-len", "2"),
        "micro": ("-p", "4", "-n", "2", "-r", "50000"),
        "kernels": ("--repeats", "1", "--working-set", "1MiB", "--probe-bytes", "4MiB", "--tokens", "4", "--context", "64"),
    }

    def test_what_was_measured_is_kept(self):
        for command, flags in self.COMMANDS.items():
            with self.subTest(command):
                path = self.folder / f"{command}.json"
                argv = [BENCH, command, *flags, "--output-json", str(path)]
                with Terminal(argv, NVLLM_MODEL=DEMO) as terminal:
                    # Something is done once the count shown is not 0; short commands may be over by then.
                    terminal.wait_for(re.compile(rb"\d+ %  [1-9]\d* of \d+"))
                    terminal.type(b"\x03")
                    self.assertEqual(terminal.wait(), 130, terminal.seen)
                self.assertIn(b"PARTIAL: stopped by a signal", terminal.seen)
                result = json.loads(path.read_text())
                self.assertTrue(result["partial"])
                self.assertTrue(result.get("num_requests") or result.get("latencies") or result.get("tests") or result.get("ops"))

    def test_a_whole_run_is_not_partial(self):
        result, table = self.result("latency", "--num-iters", 2, "--num-iters-warmup", 0, "--output-len", 2)
        self.assertNotIn("partial", result)
        self.assertNotIn("PARTIAL", table)


class StandardOutput(BenchTest):
    def test_json_alone(self):
        for name in ("-", "/dev/stdout"):
            for command in (("latency", "--num-iters", 1, "--num-iters-warmup", 0, "--output-len", 2),
                            ("micro", "-p", 4, "-n", 0, "-r", 1, "-o", "csv")):
                done = bench(*command, "--output-json", name)
                self.assertIn("environment", json.loads(done.stdout))
                self.assertRegex(done.stderr, "Avg latency|build_commit")


class Latency(BenchTest):
    def test_result(self):
        result, table = self.result("latency", "--batch-size", 2, "--input-len", 6, "--output-len", 3, "--num-iters", 4,
                                    "--num-iters-warmup", 1)
        self.check_environment(result)
        self.assertEqual(len(result["latencies"]), 4)
        self.assertEqual(list(result["percentiles"]), ["10", "25", "50", "75", "90", "99"])
        self.assertRegex(table, r"^Avg latency: [\d.e-]+ seconds\n10% percentile latency: ")


class Micro(BenchTest):
    def test_tests_of_all_lists(self):
        result, table = self.result("micro", "-p", "16,32", "-n", 4, "-d", "0,32", "-pg", "8,2",
                                    "-r", 2)
        self.check_environment(result)
        names = [test["test"] for test in result["tests"]]
        self.assertEqual(names, ["pp16", "pp32", "tg4", "pp8+tg2", "pp16 @ d32", "pp32 @ d32", "tg4 @ d32",
                                 "pp8+tg2 @ d32"])
        for test in result["tests"]:
            self.assertEqual((len(test["samples_ns"]), len(test["samples_ts"])), (2, 2))
            self.assertGreater(min(test["samples_ns"]), 0)
        self.assertEqual(table.count(" ± "), 8)

    def test_formats(self):
        for form, rows in (("json", json.loads), ("jsonl", lambda text: [json.loads(s) for s in text.splitlines()])):
            row, = rows(bench("micro", "-p", 8, "-n", 0, "-r", 3, "-o", form).stdout)
            self.assertEqual((row["n_prompt"], row["n_gen"], row["n_depth"], len(row["samples_ts"])), (8, 0, 0, 3))
            for key in ("build_commit", "cpu_info", "model_filename", "model_type", "model_size", "model_n_params",
                        "n_batch", "n_threads", "type_k", "test_time", "avg_ns", "stddev_ns", "avg_ts", "stddev_ts"):
                self.assertIn(key, row)
        head, line = bench("micro", "-p", 0, "-n", 2, "-o", "csv").stdout.splitlines()
        self.assertEqual(head.count(",") + 1, line.count('","') + 1)

    def test_bad_input(self):
        self.fails(USAGE, "micro", "-p", "5-1", says=["--n-prompt", "5-1"])
        self.fails(USAGE, "micro", "-p", 0, "-n", 0, says=["-p"])
        self.fails(USAGE, "micro", "--pg", "3", says=["--pg"])
        self.fails(USAGE, "micro", "-p", 4, "-d", 17, says=["--block-size"])
        self.fails(USAGE, "micro", "-o", "xml", says=["md, json, jsonl, csv"])


class Startup(BenchTest):
    def test_fresh_processes(self):
        result, table = self.result("startup", "--repeats", 3, "--num-warmups", 0)
        self.check_environment(result)
        for phase in ("process", "ready", "first_token", "total"):
            self.assertEqual(len(result["samples"][f"{phase}_ms"]), 3)
            self.assertGreater(result[f"median_{phase}_ms"], 0)
        self.assertIn("3 fresh processes", table)

    def test_a_start_that_fails(self):
        self.fails(UNAVAILABLE, "startup", "-m", "/no/such/folder", says=["/no/such/folder"])


class Trace(BenchTest):
    LINES = ('{"timestamp": 0, "input_length": 40, "output_length": 3, "hash_ids": [1, 2, 3]}\n'
             '{"timestamp": 50, "input_length": 40, "output_length": 5, "hash_ids": [1, 2, 4]}\n\n'
             '{"timestamp": 20, "input_length": 20, "output_length": 2, "hash_ids": [9]}\n')

    def test_replay(self):
        trace = self.file("trace.jsonl", self.LINES)
        result, table = self.result("trace", trace, "--trace-block-size", 16, "--time-scale", 0.5, "--save-detailed")
        self.check_environment(result)
        self.assertEqual((result["completed"], result["failed"], result["total_input_tokens"],
                          result["total_output_tokens"]), (3, 0, 100, 10))
        self.assertEqual((result["input_lens"], result["output_lens"]), ([40, 20, 40], [3, 2, 5]))
        self.assertEqual(result["reusable_share"], 0.32)  # two blocks of 16 of 100 tokens
        for start, due in zip(result["start_times"], (0.0, 0.01, 0.025)):
            self.assertGreaterEqual(start, due)
        self.assertIn("Prompt tokens found in the cache (%):", table)
        result, _ = self.result("trace", trace, "--trace-block-size", 16, "--length-scale", 0.5, "--limit", 2,
                                "--max-input-len", 15)
        self.assertEqual((result["total_input_tokens"], result["total_output_tokens"]), (25, 3))

    def test_bad_input(self):
        good = self.LINES.splitlines()[0] + "\n"
        for bad in ('{"timestamp": 1', "[1]", '{"timestamp": -1, "input_length": 1, "output_length": 1}',
                    '{"timestamp": 1, "input_length": 0, "output_length": 1}',
                    '{"timestamp": 1, "input_length": 1e30, "output_length": 1}',
                    '{"timestamp": 1, "input_length": 1, "output_length": "x"}',
                    '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1, 2, 3]}',
                    '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [-1]}',
                    '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": 7}', "[" * 100000):
            self.fails(BAD_DATA, "trace", "--trace-block-size", 16, self.file("bad.jsonl", good + bad),
                       says=["bad.jsonl:2"])
        self.fails(BAD_DATA, "trace", self.file("none.jsonl", ""), says=["none.jsonl"])
        self.fails(NO_INPUT, "trace", "/no/such/file", says=["/no/such/file"])
        self.fails(USAGE, "trace", says=["JSONL"])


class Kernels(BenchTest):
    TINY = ("--repeats", 2, "--working-set", "1MiB", "--probe-bytes", "4MiB", "--tokens", 4, "--sequences", 2,
            "--context", 20)

    def test_every_op_beside_its_limit(self):
        result, table = self.result("kernels", *self.TINY)
        self.check_environment(result)
        ops = [op["op"] for op in result["ops"]]
        for part in ("matmul decode", "matmul prefill", "W4A16 decode", "W8A8 batch", "FP8 prefill", "2:4 decode", "lora shrink", "lora expand", "rms_norm", "rope",
                     "gated_activation", "attention decode", "attention prefill"):
            self.assertTrue(any(part in op for op in ops), part)
        for op in result["ops"]:
            self.assertIn(op["limit"], ("memory", "compute"))
            self.assertEqual(len(op["samples_us"]), 2)
            for key in ("median_us", "gb_s", "gflop_s", "flop_per_byte", "percent_of_limit"):
                self.assertGreater(op[key], 0)
        self.assertGreater(result["roof"]["read_gb_s"], 0)
        self.assertIn("% of limit", table)
        bench("plot", "--kind", "roofline", self.folder / "result.json")

    def test_filter(self):
        for dtype in ("float32", "float16"):
            result, _ = self.result("kernels", *self.TINY, "--filter", "matmul decode", "--dtype", dtype)
            self.assertEqual(len(result["ops"]), 3)
        self.fails(USAGE, "kernels", *self.TINY, "--filter", "convolution", says=["convolution"])
        self.fails(USAGE, "kernels", "--dtype", "int3", says=["float32, bfloat16, float16"])


if __name__ == "__main__":
    unittest.main()
