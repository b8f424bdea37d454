"""Lines of docs/results.csv as the scripts that measure write them, and the checks of the documents."""

import argparse
import pathlib
import re
import sys
import tempfile
import unittest

from programs import SOURCE

for folder in ("scripts", "scripts/measure", "scripts/measure/compare", "scripts/measure/quantize", "scripts/gpu"):
    sys.path.insert(0, str(SOURCE / folder))

import check_docs  # noqa: E402
import compare  # noqa: E402
import report  # noqa: E402
import result_lines as gpu  # noqa: E402
import results  # noqa: E402


def side(median, others=0.01, **more):
    return {"median": median, "least": median - 1, "most": median + 1, "share_of_limit": 0.5, "others": others, "further": {},
            "turns": [{}, {}, {}], **more}


def shown(lines, *columns):
    return [tuple(line[column] for column in columns) for line in lines]


class ResultsTest(unittest.TestCase):
    MACHINE = {"date": "2026-01-02", "commit": "abcdef0", "name": "a machine", "model": "m"}

    def test_a_row_has_a_line_for_each_peer(self):
        rows = {"tg128": {"unit": "tok/s", "failures": {}, "sides": {"nanovllm": side(12.0), "a": side(10.0), "b": side(1234.5)}}}
        lines = list(report.result_lines(self.MACHINE, rows, 0.05))
        self.assertEqual(shown(lines, "workload", "metric", "ours", "ours_range", "ours_limit", "peer", "theirs", "turns"),
                         [("tg128", "decode", "12", "11..13", "50", "a", "10", 3), ("tg128", "decode", "12", "11..13", "50", "b", "1234", 3)])

    def test_further_values_have_lines_of_their_own(self):
        sides = {"nanovllm": side(5.0, further={"ttft_p99_ms": 40.0}), "a": side(4.0, further={"ttft_p99_ms": 50.0})}
        lines = list(report.result_lines(self.MACHINE, {"server32": {"unit": "tok/s", "failures": {}, "sides": sides}}, 0.05))
        self.assertEqual(shown(lines, "metric", "unit", "ours", "theirs"),
                         [("all tokens", "tok/s", "5", "4"), ("ttft_p99_ms", "ms", "40", "50")])

    def test_noise_and_failures_are_notes(self):
        rows = {"pp512": {"unit": "tok/s", "failures": {"b": "exit 1"}, "sides": {"nanovllm": side(5.0, others=0.2)}}}
        (line,) = report.result_lines(self.MACHINE, rows, 0.05)
        self.assertEqual((line["peer"], line["note"]), ("", "not quiet: others took 20.0 % of the CPU time; b failed"))

    def test_every_row_of_the_comparison_has_a_metric(self):
        default = re.search(r'^ROWS = \((.*?)\)$', (SOURCE / "scripts/measure/compare/main.py").read_text(), re.MULTILINE | re.DOTALL)
        rows = re.sub(r'["\s]', "", default.group(1)).split(",")
        self.assertEqual({row: bool(report.metric_of(row)) for row in rows}, dict.fromkeys(rows, True))
        self.assertIn("load40:pp512", rows)

    def test_tables_of_the_gpu_check(self):
        steps = [{"step": "decode", "outcome": "done", "table": [
                     {"shape": "llama-8b", "options": "", "batch": 8, "prompt": 16, "output": 4, "decode tok/s": 1463.1, "% of limit": 76.2}]},
                 {"step": "kernels of PyTorch", "outcome": "done", "table": [
                     {"case": "matmul qkv 1", "median_us": 15.5, "least_us": 15.0, "most_us": 16.0}]},
                 {"step": "late", "outcome": "not run"}]
        lines = list(gpu.result_lines({"commit": "abcdef0", "device": "a GPU"}, steps))
        self.assertEqual(shown(lines, "model", "workload", "metric", "ours", "ours_limit", "peer", "theirs", "theirs_range", "note"), [
            ("llama-8b", "8 streams of 16 + 4", "decode", "1463", "76", "", "", "", ""),
            ("", "matmul qkv 1", "time of an op", "", "", "PyTorch", "15.5", "15..16", ""),
            ("", "late", "outcome", "", "", "", "", "", "not run")])

    def test_rows_of_quantized_models(self):
        rows = [{"recipe": "gptq-w4a16", "excess": {"ours": (0.00298, 0.0003), "theirs": (0.00296, 0.0004)}, "paired_error": 0.0002,
                 "met": True}]
        (line,) = compare.result_lines(rows, argparse.Namespace(model=pathlib.Path("demo")))
        self.assertEqual((line["ours"], line["theirs"], line["unit"]), ("0.00298", "0.00296", "nats/token"))

    def test_files_begin_with_the_columns_and_grow(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "results.csv"
            for workload in ("one", "two, with a comma"):
                results.append(path, [results.line(workload=workload, ours="1")])
            self.assertEqual([line["workload"] for line in results.read(path)], ["one", "two, with a comma"])
            self.assertEqual(path.read_text().splitlines()[0], ",".join(results.FIELDS))

    def test_unknown_columns_are_refused(self):
        with self.assertRaisesRegex(ValueError, "no such column: speed"):
            results.line(speed="1")


class DocumentsTest(unittest.TestCase):
    def test_links_that_lead_nowhere_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            page, other = pathlib.Path(folder) / "a.md", pathlib.Path(folder) / "b.md"
            page.write_text("# One\n\n## Two, three: `four`\n\n```\n## Not a heading\n```\n\n## One\n")
            other.write_text("")
            self.assertEqual(list(check_docs.anchors(page)), ["one", "two-three-four", "one-1"])
            for target in ("#two-three-four", "b.md", "a.md#one-1", "https://example.org/"):
                self.assertIsNone(check_docs.link_fault(page, target), target)
            for target in ("c.md", "#three", "a.md#not-a-heading"):
                self.assertIsNotNone(check_docs.link_fault(page, target), target)


if __name__ == "__main__":
    unittest.main()
