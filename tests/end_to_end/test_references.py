"""The pages of docs/reference are what the programs say of themselves."""

import subprocess
import sys
import unittest

from programs import BIN, SOURCE, environment


class References(unittest.TestCase):
    def test_pages_are_current(self):
        done = subprocess.run([sys.executable, "-B", SOURCE / "scripts" / "make_references.py", "--bin", BIN, "--check"],
                              capture_output=True, text=True, env=environment())
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_table_of_models_is_current(self):
        done = subprocess.run([sys.executable, "-B", SOURCE / "scripts" / "make_model_table.py", "--bin", BIN, "--check"],
                              capture_output=True, text=True, env=environment())
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
