"""The same model in other files: every family's, in shards."""

import json
import pathlib
import shutil
import unittest

from family_testing import FAMILIES, essence, ids
from programs import FolderTest, run_jsonl
from tensors import read_tensors, write_tensors

NUM_SHARDS = 3


def write_shards(source, folder):
    """Tensors in turn, so that those of each layer lie in several files."""
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("model.safetensors"))
    tensors = read_tensors(source / "model.safetensors")
    placed = {name: f"model-{index % NUM_SHARDS + 1:05}-of-{NUM_SHARDS:05}.safetensors" for index, name in enumerate(tensors)}
    for file in set(placed.values()):
        write_tensors(folder / file, {name: tensor for name, tensor in tensors.items() if placed[name] == file})
    index = {"metadata": {"total_size": sum(len(values) for _, _, values in tensors.values())}, "weight_map": placed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


class Shards(FolderTest):
    def test_every_family(self):
        request = [{"prompt_token_ids": ids(30, 3), "max_tokens": 8, "temperature": 0.0, "logprobs": 1, "ignore_eos": True}]
        families = [path.parent for path in sorted(FAMILIES.glob("*/config.json"))]
        self.assertGreater(len(families), 30)
        for family in families:
            with self.subTest(family=family.name):
                folder = pathlib.Path(self.folder) / family.name
                write_shards(family, folder)
                self.assertEqual(essence(run_jsonl(request, model=str(folder))), essence(run_jsonl(request, model=str(family))))


if __name__ == "__main__":
    unittest.main()
