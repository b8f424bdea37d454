"""nvllm-bench compare, sweep and plot: what becomes of results."""

import json
import unittest
from xml.etree import ElementTree

from bench_testing import BAD_DATA, NO_INPUT, USAGE, BenchTest, bench


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


if __name__ == "__main__":
    unittest.main()
