"""Quantized weights kept as the CPU multiplies them: the next start maps them, and what does not fit is made anew."""

import os
import pathlib
import subprocess
import unittest

from programs import BIN, DEMO, TIMEOUT_S, FolderTest, environment, run

CANNOT_CREATE = 73


class RepackCache(FolderTest):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "w4a16"
        subprocess.run([BIN / "nvllm-quantize", "-m", DEMO, "--scheme", "W4A16", "--method", "rtn", "-o", self.model], check=True,
                       capture_output=True, timeout=TIMEOUT_S, env=environment())
        self.cache = self.folder / "made" / "here"
        self.plain = self.answer()

    def answer(self, *arguments):
        done = run("-m", self.model, "-p", "Once upon a time", "--max-tokens", "24", "--temperature", "0", *arguments)
        return done.stdout

    def with_cache(self, *arguments):
        self.assertEqual(self.answer("--repack-cache", self.cache, *arguments), self.plain)
        return {file.name: file.stat().st_mtime_ns for file in self.cache.iterdir()}

    def test_the_second_start_writes_nothing(self):
        first = self.with_cache()
        self.assertEqual(len(first), 1)
        self.assertEqual(self.with_cache(), first)
        self.assertEqual(self.with_cache("--isolation", "process"), first)

    def test_weights_that_were_written_again_get_a_file_of_their_own(self):
        first = self.with_cache()
        weights = self.model / "model.safetensors"
        os.utime(weights, ns=(0, weights.stat().st_mtime_ns + 1))
        self.assertEqual(len(self.with_cache()), len(first) + 1)

    def test_weights_without_their_zeros(self):
        self.model = self.folder / "pruned"
        subprocess.run([BIN / "nvllm-quantize", "-m", DEMO, "--scheme", "none", "--method", "magnitude", "--mask-structure", "2:4",
                        "--save-compressed", "-o", self.model], check=True, capture_output=True, timeout=TIMEOUT_S, env=environment())
        self.plain = self.answer()
        first = self.with_cache()
        self.assertEqual(len(first), 1)
        self.assertEqual(self.with_cache(), first)

    def test_a_damaged_file_is_written_again(self):
        name, = self.with_cache()
        file = self.cache / name
        whole = file.read_bytes()
        for damaged in (b"", whole[: len(whole) // 2], whole.replace(b'\\"in\\":', b'\\"on\\":')):
            with self.subTest(size=len(damaged)):
                file.write_bytes(damaged)
                self.assertEqual(list(self.with_cache()), [name])
                self.assertEqual(file.read_bytes(), whole)

    def test_a_folder_that_cannot_be_made(self):
        done = run("-m", self.model, "-p", "x", "--repack-cache", "/proc/none/here", check=False)
        self.assertEqual(done.returncode, CANNOT_CREATE)
        self.assertIn("cannot make the folder for repacked weights", done.stderr)


if __name__ == "__main__":
    unittest.main()
