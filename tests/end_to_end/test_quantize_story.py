"""The script in docs/quantize.md, run as it is written: a model is quantized, interrupted, gone on with, served and asked."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from programs import BIN, DEMO, SOURCE, TIMEOUT_S, environment, run
from quantize_testing import QuantizeTest, digests, not_sanitized

DOCUMENT = SOURCE / "docs" / "quantize.md"


class Story(QuantizeTest):
    @not_sanitized
    @unittest.skipUnless(shutil.which("curl"), "docs/quantize.md asks the server by curl, which is not installed")
    def test_the_script_of_the_document(self):
        script, = re.findall(r"^```sh\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
        (self.folder / "models").mkdir()
        (self.folder / "models" / "demo").symlink_to(DEMO)
        source = digests(DEMO)
        # What runs in the background does not outlive a line that fails.
        script = "trap 'jobs -p | xargs -r kill' EXIT\n" + script
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=self.folder, capture_output=True, text=True,
                              timeout=TIMEOUT_S, env=environment(PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("stopped with exit code 130\n", done.stdout)
        self.assertIn("killed with exit code 137\n", done.stdout)
        self.assertIn("block-00000.safetensors\n", done.stdout)
        self.assertIn("28, 4.125 bits a weight", done.stdout)
        out = self.folder / "demo-W4A16"
        self.assertEqual(digests(out), digests(self.made("whole", "--scheme", "W4A16")))
        self.assertFalse((self.folder / "demo-W4A16.partial").exists())
        self.assertEqual(digests(DEMO), source)
        answer = json.loads((self.folder / "answer.json").read_text())
        self.assertIn(json.dumps(answer["id"]), done.stdout)
        said = run("-m", out, "-p", "Once upon a time", "-n", 24, "--temperature", 0).stdout
        self.assertEqual(answer["choices"][0]["text"], said.rstrip("\n"))


if __name__ == "__main__":
    unittest.main()
