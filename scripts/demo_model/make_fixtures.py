"""Writes the reference data of tests/fixtures/demo: what `transformers` computes with the demo models."""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

NEW_TOKENS = 64

PLAIN_PROMPTS = [
    "Once upon a time",
    "In a small village by the sea, there lived a clever mouse called Lily.",
    "Tom was a shy boy who lived in a house with a blue door. His aunt looked after him. Tom had a silver bell.",
    "One stormy night,",
]
CHAT_PROMPTS = [
    [{"role": "user", "content": "Who are you?"}],
    [{"role": "user", "content": "Count from 3 to 11."}],
    [{"role": "user", "content": "Repeat these words: window garden bread milk horse"}],
    [{"role": "user", "content": "Tell me a story about a fox named Ravi and a green lantern."}],
    [{"role": "system", "content": "You are a helpful assistant."},
     {"role": "user", "content": "Nora has a red scarf. Today Nora went to the old bridge.\nWhere did Nora go?"}],
    [{"role": "user", "content": "How many cats are in this list? cat, dog, cat, star, cat"}],
    [{"role": "user", "content": "Say this: hello"}, {"role": "assistant", "content": "hello"},
     {"role": "user", "content": "Count to 5."}],
    [{"role": "user", "content": "Continue this story: A gentle duck lived with her mother in a quiet valley. Her name was Rosa."}],
]
LOGIT_TEXTS = [
    "Once upon a time, there was a brave girl named Mia. She lived in a quiet valley with her aunt.",
    "Ben was a curious boy who lived in a town by a wide lake. His father looked after him. Ben had a yellow kite. "
    "It was a gift from his father, and he took it everywhere. One windy morning, the kite was gone. "
    "\"Where is my kite?\" asked Ben. He looked under the bed, but it was not",
]
CHATS = CHAT_PROMPTS + [
    [{"role": "user", "content": "  spaces around  \n"}],
    [{"role": "system", "content": "\n Be brief. "}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": " Hello! "},
     {"role": "user", "content": "Bye"}],
    [{"role": "user", "content": "Größe 😀 <|end|> text"}],
    [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hello! I am glad that you are here."}],
]

ENCODE_TEXTS = [
    "", " ", "  ", "\n", "\n\n", " \n ", "\t", "\r\n", "a", " a", "a ", "  a", "a  b", "a   b    c",
    "Hello", "Hello, world!", "hello HELLO Hello", "The quick brown fox jumps over the lazy dog.",
    "Once upon a time, there was a brave girl named Mia.", "Mia's kite isn't Tom's; they're friends, we've said, I'll go, I'd wait, I'm here.",
    "MIA'S KITE ISN'T HERE, THEY'RE GONE", "\"Where is it?\" asked Tom. \"Here!\" said Mia.",
    "0", "12", "123", "1234", "1234567890", "3.14159", "1,000,000", "-42", "x1y22z333", "2026-11-20 10:30",
    "int main(int argc, char** argv) {\n    return argc > 1 ? 0 : 1;\n}\n", "def f(x):\n\treturn x**2  # square\n",
    "{\"name\": \"Mia\", \"list\": [1, 2.5, true, null]}", "a+b=c; a&&b || !c", "<div class=\"x\">text</div>",
    "https://example.com/a?b=c&d=%20#e", "user@example.com", "C:\\path\\file.txt", "~/dir/*.cpp", "...", "-----", "?!?!", "((()))",
    "Größe, Übung, Straße", "déjà vu, garçon, où", "mañana ¿qué tal?", "Привет, мир!", "Καλημέρα κόσμε", "日本語のテキスト", "中文字符，标点。",
    "한국어 문장", "مرحبا بالعالم", "שלום עולם", "नमस्ते दुनिया", "สวัสดีชาวโลก", "😀", "👩‍👩‍👧‍👦 family", "🇩🇪🇯🇵", "e\u0301 and é", "ﬁ ligature ½ ² Ⅷ",
    "\u00a0no-break\u00a0space", "\u3000wide space", "zero\u200bwidth", "line\u2028separator", "\ufeffmark", "a\u0000b",
    "<|begin|>", "<|end|>", "text<|end|>\n<|user|>\nmore", "<|begin|><|system|>\nBe kind.<|end|>\n", "<|pad|><|pad|>", "<|unknown|>", "< |end| >", "<|end",
    "trailing spaces   ", "   leading spaces", "tabs\t\tand\nlines\n\n\nend", " \n\n  indented\n    more\n", "word\r\nword\r\n",
]


def load(folder, dtype):
    """The model with its bfloat16 weights held in the given type, and with plain attention."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()


@torch.no_grad()
def greedy(model, ids, end):
    """Greedy continuation by whole forward passes: ids, the lead of the first choice over the second, why it stopped."""
    ids, chosen, margins = list(ids), [], []
    for _ in range(NEW_TOKENS):
        best = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].float().topk(2)
        chosen.append(best.indices[0].item())
        margins.append(round((best.values[0] - best.values[1]).item(), 5))
        ids.append(chosen[-1])
        if chosen[-1] == end:
            return chosen, margins, "eos"
    return chosen, margins, "length"


def prompt_entries(tokenizer):
    """The prompts of the greedy files; a rendered chat already holds its begin token."""
    for prompt in PLAIN_PROMPTS:
        yield {"kind": "plain", "prompt": prompt, "add_special_tokens": True, "prompt_ids": tokenizer(prompt).input_ids}
    for messages in CHAT_PROMPTS:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        yield {"kind": "chat", "messages": messages, "prompt": text, "add_special_tokens": False,
               "prompt_ids": tokenizer(text, add_special_tokens=False).input_ids}


def write_lines(path, entries):
    path.write_text("".join(json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries), encoding="utf-8")


def write_greedy(path, folder, tokenizer, dtype, limit=None):
    model = load(folder, dtype)
    entries = list(prompt_entries(tokenizer))
    for entry in entries[:limit]:
        entry["greedy_ids"], entry["margins"], entry["stopped_by"] = greedy(model, entry["prompt_ids"], tokenizer.eos_token_id)
        entry["text"] = tokenizer.decode(entry["greedy_ids"])
    write_lines(path, entries[:limit])


@torch.no_grad()
def write_logits(path, folder, tokenizer):
    model = load(folder, torch.float32)
    tensors = {}
    for index, text in enumerate(LOGIT_TEXTS):
        ids = tokenizer(text).input_ids
        tensors[f"ids.{index}"] = torch.tensor(ids, dtype=torch.int64)
        tensors[f"logits.{index}"] = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].contiguous()
        print(f"logits.{index}: {len(ids)} ids")
    save_file(tensors, str(path))


def chat_entries(tokenizer):
    for messages in CHATS:
        for add_generation_prompt in (True, False):
            text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=add_generation_prompt)
            yield {"messages": messages, "add_generation_prompt": add_generation_prompt, "text": text,
                   "ids": tokenizer(text, add_special_tokens=False).input_ids}


def encode_entries(tokenizer):
    for text in ENCODE_TEXTS:
        plain = tokenizer(text, add_special_tokens=False).input_ids
        yield {"text": text, "ids": plain, "ids_with_special": tokenizer(text).input_ids, "decoded": tokenizer.decode(plain),
               "decoded_skip_special": tokenizer.decode(plain, skip_special_tokens=True)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("demo", type=Path)
    parser.add_argument("draft", type=Path)
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.output.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(arguments.demo)
    write_lines(arguments.output / "encode.jsonl", encode_entries(tokenizer))
    write_lines(arguments.output / "chat.jsonl", chat_entries(tokenizer))
    write_logits(arguments.output / "logits.safetensors", arguments.demo, tokenizer)
    write_greedy(arguments.output / "greedy.jsonl", arguments.demo, tokenizer, torch.float32)
    write_greedy(arguments.output / "bf16_greedy.jsonl", arguments.demo, tokenizer, torch.bfloat16)
    write_greedy(arguments.output / "draft_greedy.jsonl", arguments.draft, tokenizer, torch.float32, limit=8)


if __name__ == "__main__":
    main()
