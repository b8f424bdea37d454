"""Turns generated stories and chats into packed sequences of token ids."""

import random

import numpy

from instructions import make_chat, make_turns, to_messages, KINDS
from stories import make_story

CHAT_SHARE = 0.72
LONG_CHAT_TURNS = (4, 14)
DOCUMENTS_PER_BATCH = 1000


def render_document(tokenizer, rng, held_out=False, long_chats=False):
    """One document as text, special tokens included: a plain story or a chat in the chat template."""
    if rng.random() >= CHAT_SHARE:
        return f"{tokenizer.bos_token}{make_story(rng, held_out)[0]}{tokenizer.eos_token}"
    messages = make_long_chat(rng, held_out) if long_chats and rng.random() < 0.4 else make_chat(rng, held_out)
    return tokenizer.apply_chat_template(messages, tokenize=False)


def make_long_chat(rng, held_out):
    """A chat of many tasks; it fills long sequences with text that belongs together."""
    kinds, weights = list(KINDS), [weight for weight, _ in KINDS.values()]
    turns = []
    for kind in rng.choices(kinds, weights, k=rng.randint(*LONG_CHAT_TURNS)):
        turns += make_turns(rng, kind, held_out)
    return to_messages(turns)


def packed_tokens(tokenizer, seed, wanted, held_out=False, long_chats=False):
    """At least `wanted` token ids of whole documents, one after the other."""
    rng = random.Random(seed)
    pieces, total = [], 0
    while total < wanted:
        documents = [render_document(tokenizer, rng, held_out, long_chats) for _ in range(DOCUMENTS_PER_BATCH)]
        for ids in tokenizer(documents, add_special_tokens=False).input_ids:
            pieces.append(numpy.array(ids, dtype=numpy.uint16))
            total += len(ids)
    return numpy.concatenate(pieces)


def as_sequences(tokens, length):
    """Cut a row of tokens into sequences of one length; the remainder is dropped."""
    count = len(tokens) // length
    return tokens[:count * length].reshape(count, length).astype(numpy.int64)
