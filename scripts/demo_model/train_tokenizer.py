"""Trains the byte-level BPE tokenizer of the demo models and saves it in the Hugging Face layout."""

import argparse
import json
import random
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from instructions import make_chat
from stories import make_story

VOCABULARY_SIZE = 2048
TOKENIZER_SEED = 10_001
SPECIAL_TOKENS = ["<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|pad|>"]

# Contractions; letters with one leading mark; up to three digits; punctuation; line breaks; spaces.
SPLIT_PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
                 r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")

# A little text outside the corpus, so that a few tokens are left for code, other scripts and signs.
FOREIGN_TEXT = ["int main() { return 0; }", "for (int i = 0; i < n; ++i) sum += values[i];", "def add(a, b):\n    return a + b\n",
                "Größe, Übung, schön, Straße, für", "café, où, été, garçon, être", "niño, mañana, ¿qué?", "привет, мир, это да",
                "καλημέρα κόσμε", "0 1 2 3 4 5 6 7 8 9 10 100 2000", "https://example.com/path?query=1", "{\"key\": [1, 2, true, null]}",
                "the model tensor memory token weight layer attention", "# Title\n\n- item\n- item\n", "    return result;\n        break;\n"]


def corpus(documents):
    """The text that the merges are learned from: stories, the contents of chats, and the foreign lines."""
    rng = random.Random(TOKENIZER_SEED)
    for index in range(documents):
        yield make_story(rng)[0]
        yield from (message["content"] for message in make_chat(rng))
        if index % 40 == 0:
            yield from FOREIGN_TEXT


def train_tokenizer(documents):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT_PATTERN), behavior="isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY_SIZE, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS],
                                  show_progress=False)
    tokenizer.train_from_iterator(corpus(documents), trainer)
    begin = SPECIAL_TOKENS[0]
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{begin} $A", pair=f"{begin} $A {begin}:1 $B:1",
                                      special_tokens=[(begin, tokenizer.token_to_id(begin))])])
    return tokenizer


def write_tokenizer_files(tokenizer, folder):
    """tokenizer.json, tokenizer_config.json with the chat template, special_tokens_map.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    special = {"bos_token": "<|begin|>", "eos_token": "<|end|>", "pad_token": "<|pad|>"}
    settings = {
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(token)): {"content": token, "lstrip": False, "normalized": False, "rstrip": False,
                                                "single_word": False, "special": True}
            for token in SPECIAL_TOKENS},
        **special,
        "additional_special_tokens": ["<|system|>", "<|user|>", "<|assistant|>"],
        "chat_template": (Path(__file__).parent / "chat_template.jinja").read_text().rstrip("\n"),
        "clean_up_tokenization_spaces": False,
        "model_max_length": 2048,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
    (folder / "special_tokens_map.json").write_text(json.dumps(special, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path, help="model folders that get the tokenizer files")
    parser.add_argument("--documents", type=int, default=8000, help="stories and chats to learn the merges from")
    arguments = parser.parse_args()
    tokenizer = train_tokenizer(arguments.documents)
    assert tokenizer.get_vocab_size() == VOCABULARY_SIZE
    for folder in arguments.folders:
        write_tokenizer_files(tokenizer, folder)


if __name__ == "__main__":
    main()
