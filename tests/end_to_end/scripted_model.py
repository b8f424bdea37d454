"""A tiny checkpoint that says what a test wrote: which token comes next depends on the position alone.

Its embeddings of positions name the next token, so that sampling has nothing to choose. The chat template counts: the
prompt ends at a position that belongs to a scenario and a turn, and what is written there is the answer. The first word of
a conversation's first message of the user is the number of the scenario; every earlier message of the assistant is a turn.
"""

import json
import pathlib
import struct

WIDTH = 320  # of the model and its vocabulary: a token each
REGION = 256  # positions of a turn
TURNS = 3
HEAD = 4  # tokens of a prompt that belong to its turn's region
END, BEGIN = "<|im_end|>", "<|im_start|>"

TEMPLATE = """\
{#- MARKS -#}
{%- set seen = namespace(first='', turns=0) -%}
{%- for message in messages -%}
{%- if message.role == 'user' and seen.first == '' -%}{%- set seen.first = message.content -%}{%- endif -%}
{%- if message.role == 'assistant' -%}{%- set seen.turns = seen.turns + 1 -%}{%- endif -%}
{%- endfor -%}
{%- set place = (seen.first.split(' ')[0] | int(0)) * TURNS + seen.turns -%}
{%- for position in range(place * REGION + 1) -%}.{%- endfor -%}
<|im_start|>SUFFIX"""

# The last two tokens of a prompt.
THOUGHT = """\
{%- if not (enable_thinking is defined and not enable_thinking) -%}
{{- '<think>\\n' -}}
{%- else -%}
..
{%- endif -%}
"""


def byte_letters():
    """How byte-level vocabularies write each byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    for byte in range(256):
        letters.setdefault(byte, chr(256 + sum(other not in plain for other in range(byte))))
    return letters


def tokens_of(text, special):
    """The ids of a text: special tokens, else bytes."""
    ids = []
    while text:
        found = next((index for index, token in enumerate(special) if text.startswith(token)), None)
        if found is not None:
            ids.append(256 + found)
            text = text[len(special[found]):]
        else:
            ids.extend(text[0].encode())
            text = text[1:]
    return ids


def half(value):
    """A number as bfloat16."""
    return struct.pack("<f", value)[2:]


def tensor(rows, columns, entries):
    """A matrix of bfloat16 with these entries, (row, column, value), and zeros."""
    data = bytearray(2 * rows * columns)
    for row, column, value in entries:
        at = 2 * (row * columns + column)
        data[at:at + 2] = half(value)
    return [rows, columns], bytes(data)


def vector(values):
    return [len(values)], b"".join(half(value) for value in values)


def weights(next_tokens):
    """next_tokens: what follows each position."""
    inner = 64
    zeros = lambda count: vector([0.0] * count)  # noqa: E731
    block = "transformer.h.0."
    return {
        "transformer.wte.weight": tensor(WIDTH, WIDTH, [(i, i, 1.0) for i in range(WIDTH)]),
        "transformer.wpe.weight": tensor(len(next_tokens), WIDTH,
                                         [(i, token, 8.0) for i, token in enumerate(next_tokens)]),
        block + "attn.c_attn.weight": tensor(WIDTH, 3 * WIDTH, []), block + "attn.c_attn.bias": zeros(3 * WIDTH),
        block + "attn.c_proj.weight": tensor(WIDTH, WIDTH, []), block + "attn.c_proj.bias": zeros(WIDTH),
        block + "mlp.c_fc.weight": tensor(WIDTH, inner, []), block + "mlp.c_fc.bias": zeros(inner),
        block + "mlp.c_proj.weight": tensor(inner, WIDTH, []), block + "mlp.c_proj.bias": zeros(WIDTH),
        block + "ln_1.weight": zeros(WIDTH), block + "ln_1.bias": zeros(WIDTH),
        block + "ln_2.weight": zeros(WIDTH), block + "ln_2.bias": zeros(WIDTH),
        "transformer.ln_f.weight": vector([4.0] * WIDTH), "transformer.ln_f.bias": zeros(WIDTH),
    }


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, (shape, data) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, data in tensors.values():
            file.write(data)


def write_tokenizer(folder, special, template):
    letters = byte_letters()
    vocabulary = {letters[byte]: byte for byte in range(256)}
    added = [{"id": 256 + index, "content": token, "special": True, "single_word": False, "lstrip": False,
              "rstrip": False, "normalized": False} for index, token in enumerate(special)]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary,
                  "merges": []}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "chat_template": template}))


def write_scripted_model(folder, scenarios, marks, special=(), thinks=False):
    """scenarios: a list of answers each, one a turn. marks: what of a format the template shows. special: further special
    tokens. thinks: the template opens the thought, unless enable_thinking is false."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    special = [END, BEGIN, *(["<think>"] if thinks else []), *special]  # the opened thought is two tokens
    positions = len(scenarios) * TURNS * REGION + REGION
    next_tokens = [256] * positions
    for number, turns in enumerate(scenarios):
        for turn, text in enumerate(turns):
            first = (number * TURNS + turn) * REGION + HEAD - 1
            ids = tokens_of(text, special)
            if len(ids) > REGION - HEAD - 2:
                raise ValueError(f"scenario {number}, turn {turn}: {len(ids)} tokens are too many")
            next_tokens[first:first + len(ids)] = ids
    template = (TEMPLATE.replace("MARKS", marks).replace("TURNS", str(TURNS)).replace("REGION", str(REGION))
                .replace("SUFFIX", THOUGHT if thinks else ".."))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "activation_function": "gelu_new", "n_embd": WIDTH,
        "n_head": 5, "n_inner": 64, "n_layer": 1, "n_positions": positions, "vocab_size": WIDTH, "eos_token_id": 256,
        "bos_token_id": 256, "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True, "dtype": "bfloat16"}))
    write_safetensors(folder / "model.safetensors", weights(next_tokens))
    write_tokenizer(folder, special, template)
    return folder
