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


if __name__ == "__main__":
    unittest.main()
