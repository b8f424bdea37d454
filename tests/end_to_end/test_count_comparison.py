"""What scripts/check_counts.sh says of counts that rose, fell, came, went, or were made by other tools."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from programs import SOURCE, TIMEOUT_S

COMPARE = SOURCE / "tests" / "counts" / "compare.py"
TOOLS = {"compiler": "g++ 12", "valgrind": "3.19"}


def dumps(counts):
    """As callgrind writes them: a part for each case, and one without a request at the end."""
    parts = ["# callgrind format\n"]
    for number, (name, count) in enumerate(counts + [(None, 11)], 1):
        trigger = f"Client Request: {name}" if name else "Program termination"
        parts.append(f"part: {number}\n\ndesc: Trigger: {trigger}\n\nevents: Ir\nfn=(1) main\n0 {count}\n\ntotals: {count}\n\n")
    return "".join(parts)


class CountComparison(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.expected = self.folder / "expected.json"
        self.expected.write_text(json.dumps({"tools": TOOLS, "instructions": {"a b": 1000000, "c": 5000}}))

    def compare(self, counts, *arguments, tools=TOOLS):
        dumps_of_run = self.folder / "dumps"
        dumps_of_run.mkdir(exist_ok=True)
        (dumps_of_run / "1").write_text(dumps(counts[:1]))
        (dumps_of_run / "2").write_text(dumps(counts[1:]))
        command = [sys.executable, "-B", str(COMPARE), str(dumps_of_run), str(self.expected), *arguments]
        for name, version in tools.items():
            command += ["--tool", f"{name}={version}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        return done.returncode, done.stdout + done.stderr

    def test_equal_counts_pass(self):
        status, text = self.compare([("a b", 1000000), ("c", 5000)])
        self.assertEqual(status, 0, text)
        self.assertIn("2 cases, 0 changed, 0 wrong", text)

    def test_more_than_the_tolerance_fails_and_is_named(self):
        status, text = self.compare([("a b", 1020001), ("c", 5000)])
        self.assertEqual(status, 1, text)
        self.assertRegex(text, r"a b +1000000 +1020001 +\+2\.00 % MORE")
        status, text = self.compare([("a b", 1020000), ("c", 5000)])
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"a b +1000000 +1020000 +\+2\.00 %")

    def test_fewer_are_a_notice(self):
        status, text = self.compare([("a b", 900000), ("c", 5000)])
        self.assertEqual(status, 0, text)
        self.assertRegex(text, r"a b .* -10\.00 % less")
        self.assertIn("check_counts.sh --update", text)

    def test_new_and_missing_cases_fail(self):
        status, text = self.compare([("a b", 1000000), ("d", 5000)])
        self.assertEqual(status, 1, text)
        self.assertRegex(text, r"\nc +5000 +- +gone")
        self.assertRegex(text, r"\nd +- +5000 +new")

    def test_other_tools_are_said_and_judged_widely(self):
        other = {**TOOLS, "compiler": "g++ 13"}
        status, text = self.compare([("a b", 1240000), ("c", 5000)], tools=other)
        self.assertEqual(status, 0, text)
        self.assertIn("compiler is 'g++ 13'; expected counts are of 'g++ 12'", text)
        self.assertIn("NOT COMPARABLE", text)
        status, text = self.compare([("a b", 1260000), ("c", 5000)], tools=other)
        self.assertEqual(status, 1, text)

    def test_two_cases_of_one_name_and_no_counts_are_refused(self):
        status, text = self.compare([("c", 1), ("c", 1)])
        self.assertEqual(status, 1, text)
        self.assertIn("Two cases are called 'c'", text)
        status, text = self.compare([])
        self.assertEqual(status, 1, text)
        self.assertIn("has no counts", text)

    def test_update_writes_what_then_passes(self):
        counts = [("d", 7), ("a b", 2000000)]
        status, text = self.compare(counts, "--update")
        self.assertEqual(status, 0, text)
        written = json.loads(self.expected.read_text())
        self.assertEqual(written, {"tools": TOOLS, "instructions": dict(counts)})
        self.assertEqual(self.compare(counts)[0], 0)


if __name__ == "__main__":
    unittest.main()
