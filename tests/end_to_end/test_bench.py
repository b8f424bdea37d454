"""nvllm-bench: every sub-command on the demo model with tiny sizes. Outcomes, counts and keys; never times."""

import json
import math
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest
from xml.etree import ElementTree

from programs import BIN, DEMO, TIMEOUT_S, environment, run

BENCH = str(BIN / "nvllm-bench")
USAGE, BAD_DATA, NO_INPUT, UNAVAILABLE, CANNOT_CREATE = 64, 65, 66, 69, 73


def bench(*arguments, check=True):
    done = subprocess.run([BENCH, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S,
                          stdin=subprocess.DEVNULL, env=environment(NVLLM_MODEL=DEMO))
    if check and done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}: {' '.join(map(str, arguments))}\n{done.stderr}")
    return done


class BenchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def result(self, *arguments):
        """The result object of a run that writes one, and its table."""
        path = self.folder / "result.json"
        done = bench(*arguments, "--output-json", path)
        return json.loads(path.read_text()), done.stdout

    def fails(self, code, *arguments, says=()):
        done = bench(*arguments, check=False)
        self.assertEqual(done.returncode, code, f"{arguments}: {done.stderr}")
        self.assertIn("nvllm-bench: error: ", done.stderr)
        self.assertEqual(done.stdout, "")
        for text in says:
            self.assertIn(str(text), done.stderr)

    def check_environment(self, result):
        for key in ("cpu", "cores", "isa", "threads", "memory_bytes", "load_average", "version", "model", "command",
                    "date"):
            self.assertIn(key, result["environment"])


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

    def test_data_sets(self):
        result, _ = self.result("--dataset-name", "prefix_repetition", "--prefix-len", 40, "--num-prefixes", 2,
                                *self.SMALL)
        self.assertEqual(result["total_prompt_tokens"], 6 * 52)
        lines = self.file("requests.jsonl", '{"prompt": "Once upon a time", "max_tokens": 3}\n\n'
                                            '{"prompt_token_ids": [1, 2, 3], "output_len": 1}\n')
        result, _ = self.result("--dataset-name", "jsonl", "--dataset-path", lines, "--repeats", 1)
        self.assertEqual(result["num_requests"], 2)

    def test_bad_input(self):
        self.fails(USAGE, "--dataset-name", "sonnet", says=["random", "jsonl", "prefix_repetition", "nano-vllm"])
        self.fails(USAGE, "--dataset-name", "jsonl", says=["--dataset-path"])
        self.fails(USAGE, "--batching", "dynamic", says=["continuous", "static"])
        self.fails(USAGE, "thruput", says=["throughput"])
        self.fails(NO_INPUT, "--dataset-name", "jsonl", "--dataset-path", "/no/such/file", says=["/no/such/file"])
        broken = self.file("broken.jsonl", '{"prompt": "a"}\n{"prompt": "b"')
        self.fails(BAD_DATA, "--dataset-name", "jsonl", "--dataset-path", broken, says=["broken.jsonl:2"])
        self.fails(BAD_DATA, "--input-len", 5000, says=["5000"])
        self.fails(CANNOT_CREATE, *self.SMALL, "--output-json", "/no/such/folder/x.json", says=["/no/such/folder"])

    def test_interrupt(self):
        child = subprocess.Popen([BENCH, "--num-prompts", "5000", "--output-len", "500", "--repeats", "100"],
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(NVLLM_MODEL=DEMO))
        time.sleep(1.0)
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=TIMEOUT_S)
        self.assertEqual((child.returncode, out), (130, b""))


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


TEXT = "Once upon a time there was a little dog. The dog liked to play with a red ball in the park.\n" * 6


class Perplexity(BenchTest):
    def logprobs(self, text):
        """Of a text's tokens from the second on, as nvllm-run reports them."""
        answer = json.loads(run("-m", DEMO, "-p", text, "-n", 1, "--temperature", 0, "--prompt-logprobs", 0,
                                "--output-format", "json").stdout)
        return [token["logprob"] for token in answer["prompt_logprobs"] if token]

    def test_one_window_is_the_mean_of_the_prompts_logprobs(self):
        text = self.file("text.txt", TEXT)
        logprobs = self.logprobs(TEXT)
        result, table = self.result("perplexity", "-f", text)
        self.check_environment(result)
        self.assertEqual(result["num_tokens"], len(logprobs))
        self.assertAlmostEqual(result["perplexity"], math.exp(-sum(logprobs) / len(logprobs)), places=5)
        self.assertEqual((result["ppl_convention"], result["num_windows"]), ("hf", 1))
        self.assertIn("Final estimate: PPL = ", table)
        self.assertIn("convention hf", table)

    def test_windows(self):
        text = self.file("text.txt", TEXT)
        total = self.result("perplexity", "-f", text)[0]["num_tokens"] + 1
        result, _ = self.result("perplexity", "-f", text, "-c", 32)
        self.assertEqual((result["num_windows"], result["num_tokens"]), (total // 32, total // 32 * 31))
        result, _ = self.result("perplexity", "-f", text, "-c", 32, "--ppl-convention", "llama.cpp")
        self.assertEqual((result["num_windows"], result["num_tokens"]), (total // 32, total // 32 * 15))
        result, _ = self.result("perplexity", "-f", text, "-c", 32, "--stride", 8)
        self.assertEqual(result["num_tokens"], total - 1)

    def test_divergence(self):
        text, base = self.file("text.txt", TEXT), self.folder / "base.rows"
        plain, _ = self.result("perplexity", "-f", text, "-c", 32, "--save-all-logits", base)
        same, table = self.result("perplexity", "--kl-divergence", "--kl-divergence-base", base)
        self.check_environment(same)
        self.assertEqual((same["mean_kld"], same["max_kld"], same["same_top"]), (0, 0, 1))
        self.assertEqual(same["num_tokens"], plain["num_tokens"])
        self.assertAlmostEqual(same["perplexity"], plain["perplexity"], places=5)
        self.assertIn("Mean KLD", table)
        other, _ = self.result("perplexity", "--kl-divergence", "--kl-divergence-base", base, "--dtype", "float32")
        self.assertGreater(other["mean_kld"], 0)
        self.assertLess(other["mean_kld"], 0.01)
        self.fails(USAGE, "perplexity", "--kl-divergence", says=["--kl-divergence-base"])
        self.fails(BAD_DATA, "perplexity", "--kl-divergence", "--kl-divergence-base", text, says=["text.txt"])
        base.write_bytes(base.read_bytes()[:-100])
        self.fails(BAD_DATA, "perplexity", "--kl-divergence", "--kl-divergence-base", base, says=["ends after"])
        self.fails(NO_INPUT, "perplexity", "--kl-divergence", "--kl-divergence-base", "/no/such", says=["/no/such"])

    def test_the_batch_changes_nothing(self):
        text = self.file("text.txt", TEXT)
        values = {self.result("perplexity", "-f", text, "-c", 24, "--max-num-seqs", batch)[0]["perplexity"]
                  for batch in (1, 7)}
        self.assertEqual(len(values), 1)

    def test_bad_input(self):
        text = self.file("text.txt", TEXT)
        self.fails(USAGE, "perplexity", says=["-f"])
        self.fails(NO_INPUT, "perplexity", "-f", "/no/such/file", says=["/no/such/file"])
        self.fails(BAD_DATA, "perplexity", "-f", self.file("empty.txt", ""), says=["empty.txt"])
        self.fails(USAGE, "perplexity", "-f", text, "--ppl-convention", "mine", says=["hf, llama.cpp"])
        self.fails(USAGE, "perplexity", "-f", text, "-c", 100000, says=["2048"])
        self.fails(USAGE, "perplexity", "-f", text, "-c", 8, "--stride", 9, says=["--stride"])


class Task(BenchTest):
    def test_accuracy(self):
        lines = self.file("questions.jsonl", """
{"query": "Once upon a", "choices": ["time", "zebra", "quickly"], "gold": 0}
{"context": "Tom had a red ball. Tom liked to play with the red", "choices": ["moon.", "ball."], "answer": 1}

{"question": "Once upon a", "choices": ["zebra", "time"], "label": 0}
""")
        result, table = self.result("task", lines)
        self.check_environment(result)
        self.assertEqual([sample["acc"] for sample in result["samples"]], [1, 1, 0])
        self.assertEqual([len(sample["logprobs"]) for sample in result["samples"]], [3, 2, 2])
        self.assertAlmostEqual(result["acc"], 2 / 3)
        self.assertAlmostEqual(result["acc_stderr"], 1 / 3)
        self.assertEqual(result["samples"][0]["logprobs"][0], result["samples"][2]["logprobs"][1])
        self.assertIn("acc_norm", table)

    def test_bad_input(self):
        good = '{"query": "a", "choices": ["b", "c"], "gold": 0}\n'
        for bad in ('{"query": "a", "choices": ["b", "c"], "gold": 2}', '{"query": "a", "choices": ["b"], "gold": 0}',
                    '{"query": "a", "choices": ["b", ""], "gold": 0}', '{"choices": ["b", "c"], "gold": 0}', "[]",
                    '{"query": "a", "choices": ["b", "c"], "gold"', '{"query": 1, "choices": ["b", "c"], "gold": 0}'):
            self.fails(BAD_DATA, "task", self.file("bad.jsonl", good + bad), says=["bad.jsonl:2"])
        self.fails(BAD_DATA, "task", self.file("none.jsonl", "\n"), says=["none.jsonl"])
        self.fails(NO_INPUT, "task", "/no/such/file", says=["/no/such/file"])
        self.fails(USAGE, "task", says=["JSONL"])


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


class Compare(BenchTest):
    def result_with(self, name, samples):
        return self.file(name, json.dumps({"avg_latency": sum(samples) / len(samples), "latencies": samples}))

    def test_verdicts(self):
        a = self.result_with("a.json", [1.00, 1.01, 0.99, 1.02, 0.98])
        b = self.result_with("b.json", [2.00, 2.02, 1.98, 2.04, 1.96])
        noisy = self.result_with("c.json", [0.7, 1.4, 0.8, 1.2, 1.0])
        for other, differs, ratio in ((b, True, 2.0), (noisy, False, 1.02)):
            result, table = self.result("compare", a, other)
            row, = [row for row in result["comparisons"] if row["name"] == "latencies"]
            self.assertEqual(row["differs"], differs)
            self.assertAlmostEqual(row["ratio"], ratio)
            self.assertTrue(row["ratio_low"] < ratio < row["ratio_high"])
            self.assertIn("differs" if differs else "not shown", table)

    def test_bad_input(self):
        a = self.result_with("a.json", [1, 2])
        self.fails(USAGE, "compare", a, says=["two results"])
        self.fails(NO_INPUT, "compare", a, "/no/such/file", says=["/no/such/file"])
        self.fails(BAD_DATA, "compare", a, self.file("b.json", '{"latencies": [1,'), says=["b.json"])
        self.fails(BAD_DATA, "compare", a, self.file("b.json", "[]"), says=["b.json"])
        self.fails(BAD_DATA, "compare", a, self.file("b.json", '{"other": 1}'), says=["no figure"])


class SweepAndPlot(BenchTest):
    FLAGS = ("--set", "num-iters=2", "--set", "num-iters-warmup=0", "--set", "output-len=3")

    def test_grid_and_resume(self):
        rows = self.folder / "sweep.jsonl"
        grid = ("sweep", "latency", "--vary", "batch-size=1,2", "--vary", "input-len=4,8", *self.FLAGS, "-o", rows)
        dry = bench(*grid, "--dry-run")
        self.assertEqual(len(dry.stdout.splitlines()), 4)
        bench(*grid)
        lines = rows.read_text().splitlines()
        self.assertEqual([(row["batch_size"], row["input_len"]) for row in map(json.loads, lines)],
                         [(1, 4), (1, 8), (2, 4), (2, 8)])
        rows.write_text("\n".join(lines[:2]) + "\n" + lines[2][:40])
        self.assertEqual(bench(*grid, "--resume").stdout.count("there already"), 2)
        self.assertEqual(len({json.loads(line)["sweep_key"] for line in rows.read_text().splitlines()}), 4)
        svg = ElementTree.fromstring(bench("plot", rows).stdout)
        self.assertEqual(svg.tag, "{http://www.w3.org/2000/svg}svg")

    def test_a_point_that_fails(self):
        rows = self.folder / "sweep.jsonl"
        done = bench("sweep", "latency", "--vary", "input-len=5000,4", *self.FLAGS, "-o", rows, check=False)
        self.assertEqual(done.returncode, BAD_DATA)
        self.assertEqual(len(rows.read_text().splitlines()), 1)

    def test_charts(self):
        detailed = self.file("serve.json", json.dumps({
            "label": "a <b>", "output_throughput": 10, "mean_e2el_ms": 3, "start_times": [5.0, 5.5],
            "ttfts": [0.1, 0.2], "latencies": [1.0, 0.5]}))
        kernels = self.file("kernels.json", json.dumps({
            "roof": {"read_gb_s": 20, "float32_gflop_s": 300},
            "ops": [{"op": "matmul", "flop_per_byte": 1.0, "gflop_s": 15}]}))
        for arguments in ((detailed,), ("--kind", "timeline", detailed), ("--kind", "roofline", kernels)):
            path = self.folder / "chart.svg"
            bench("plot", *arguments, "-o", path)
            svg = ElementTree.parse(path).getroot()
            self.assertEqual(svg.tag, "{http://www.w3.org/2000/svg}svg")
            self.assertNotIn("<script", path.read_text())
            self.assertIn("prefers-color-scheme: dark", path.read_text())

    def test_bad_input(self):
        self.fails(USAGE, "sweep", "latency", says=["--vary"])
        self.fails(USAGE, "sweep", "latency", "--vary", "batch-size", says=["batch-size"])
        self.fails(USAGE, "sweep", "nothing", "--vary", "a=1", says=["throughput, latency, micro"])
        broken = self.file("broken.jsonl", '{"sweep_key": "x"}\n{"sweep_key\n')
        self.fails(BAD_DATA, "sweep", "latency", "--vary", "batch-size=1", "-o", broken, "--resume",
                   says=["broken.jsonl:2"])
        self.fails(USAGE, "plot", says=["no result"])
        self.fails(USAGE, "plot", "--kind", "pie", broken, says=["latency, timeline, roofline"])
        self.fails(BAD_DATA, "plot", self.file("x.json", "{}"), says=["output_throughput"])
        self.fails(BAD_DATA, "plot", "--kind", "timeline", self.file("x.json", '{"start_times": [1]}'), says=["ttfts"])
        self.fails(BAD_DATA, "plot", "--kind", "roofline", self.file("x.json", '{"ops": [1]}'), says=["roof"])
        self.fails(NO_INPUT, "plot", "/no/such/file", says=["/no/such/file"])


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
        for part in ("matmul decode", "matmul prefill", "rms_norm", "rope", "gated_activation", "attention decode",
                     "attention prefill"):
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
            result, _ = self.result("kernels", *self.TINY, "--filter", "decode", "--dtype", dtype)
            self.assertEqual(len(result["ops"]), 4)
        self.fails(USAGE, "kernels", *self.TINY, "--filter", "convolution", says=["convolution"])
        self.fails(USAGE, "kernels", "--dtype", "int3", says=["float32, bfloat16, float16"])


if __name__ == "__main__":
    unittest.main()
