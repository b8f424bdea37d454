"""Runs of nvllm-quantize, shared by the tests of it."""

import hashlib
import os
import pathlib
import subprocess
import unittest

from programs import BIN, DEMO, FolderTest, TIMEOUT_S, environment

QUANTIZE = str(BIN / "nvllm-quantize")
USAGE, BAD_DATA, NO_INPUT, CANNOT_CREATE, IO = 64, 65, 66, 73, 74
# Two short samples: enough for every block to be computed, little enough for a test.
LITTLE = ("--num-samples", 2, "--max-seq-length", 600)
# Whole runs by each method and format, of which tests/lib/quantize has smaller ones, and the whole story of the document.
not_sanitized = unittest.skipIf(bool(os.environ.get("NVLLM_SANITIZED")), "runs of whole models take too long under a sanitizer")


def quantize(*arguments, check=True, env=None, stdin="", **options):
    done = subprocess.run([QUANTIZE, *map(str, arguments)], input=stdin, capture_output=True, text=True,
                          timeout=TIMEOUT_S, env=env or environment(), **options)
    if check and done.returncode != 0:
        raise AssertionError(f"exit {done.returncode}: {' '.join(map(str, arguments))}\n{done.stderr}")
    return done


def digests(folder):
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(pathlib.Path(folder).iterdir())}


class QuantizeTest(FolderTest):
    def made(self, name, *arguments):
        folder = self.folder / name
        quantize("-m", DEMO, "-o", folder, *arguments)
        return folder

    def fails(self, code, *arguments, **options):
        done = quantize(*arguments, check=False, **options)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr
