"""Turns generated stories and chats into packed sequences of token ids."""

import random

import numpy

from instructions import make_chat, make_turns, to_messages, KINDS
from stories import make_story

CHAT_SHARE = 0.72
# Of the documents in the practice phase, this share are chats with short exact answers only.
PRACTICE_SHARE = 0.85
LONG_CHAT_TURNS = (4, 14)
DOCUMENTS_PER_PIECE = 250


def render_document(tokenizer, rng, held_out=False, long_chats=False, practice=False):
    """One document as text, special tokens included: a plain story or a chat in the chat template."""
    if practice and rng.random() < PRACTICE_SHARE:
        return tokenizer.apply_chat_template(make_chat(rng, held_out, with_stories=False), tokenize=False)
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


def token_pieces(tokenizer, seed, **choices):
    """Token ids of document after document, without end, in arrays of many documents each."""
    rng = random.Random(seed)
    while True:
        documents = [render_document(tokenizer, rng, **choices) for _ in range(DOCUMENTS_PER_PIECE)]
        ids = tokenizer(documents, add_special_tokens=False).input_ids
        yield numpy.array([token for document in ids for token in document], dtype=numpy.int64)


def packed_sequences(tokenizer, seed, count, length, **choices):
    """The first `count` sequences of the given length in the endless row of documents, one by one."""
    rest, given = numpy.zeros(0, dtype=numpy.int64), 0
    for piece in token_pieces(tokenizer, seed, **choices):
        rest = numpy.concatenate([rest, piece])
        while len(rest) >= length:
            if given == count:
                return
            yield rest[:length]
            rest, given = rest[length:], given + 1
