"""No flag, route, field or metric that users know goes away: the programs have every name of the committed lists."""

import subprocess
import sys
import unittest

from programs import BIN, SOURCE, environment

FOLDER = SOURCE / "tests" / "fixtures" / "public_names"


class PublicNames(unittest.TestCase):
    def test_no_name_is_gone(self):
        done = subprocess.run([sys.executable, "-B", SOURCE / "scripts" / "make_public_names.py", "--bin", BIN, "--check"],
                              capture_output=True, text=True, env=environment())
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_lists_hold_what_they_promise(self):
        known = {"flags.txt": "nvllm-run --top-p", "routes.txt": "POST /admin/drain", "fields.txt": "ChatCompletionRequest top_p",
                 "metrics.txt": "nvllm_preemptions_total"}
        for file, name in known.items():
            with self.subTest(file):
                self.assertIn(name, (FOLDER / file).read_text().splitlines())


if __name__ == "__main__":
    unittest.main()
