#!/usr/bin/env python3
"""Generates the stories of the demo corpus, and prints held-out or training-like text from the command line."""

import argparse
import random
from pathlib import Path

import words
from plots import CLOSINGS, INTRODUCTIONS, PLOTS
from text_engine import expand, is_reserved, mend, pronoun_slots

TRAIN_SEED = 20_001
HELD_OUT_SEED = 90_001
CALIBRATION_SEED = 50_001


def choose_character(rng, taken_names=()):
    """A name, a kind (girl, boy or an animal) and the pronoun that goes with the name."""
    while True:
        is_girl = rng.random() < 0.5
        name = rng.choice(words.GIRL_NAMES if is_girl else words.BOY_NAMES)
        if name not in taken_names:
            break
    child = "girl" if is_girl else "boy"
    kind = child if rng.random() < 0.5 else rng.choice(words.ANIMAL_KINDS)
    return name, kind, "she" if is_girl else "he"


def choose_coloured_object(rng, name, held_out):
    """A colour and a noun; pairs of name and noun that are reserved appear only in held-out text."""
    # Half of the held-out texts use a reserved pair, the rest an ordinary one.
    use_reserved = held_out and rng.random() < 0.5
    nouns = [noun for noun in words.OBJECTS if is_reserved(name, noun) == use_reserved]
    noun = rng.choice(nouns or words.OBJECTS)
    return rng.choice(words.COLOURS), noun


def choose_slots(rng, held_out):
    """Everything a story needs to know before it is told, so that all its parts agree."""
    hero, kind, hero_pronoun = choose_character(rng)
    friend, friend_kind, friend_pronoun = choose_character(rng, taken_names=(hero,))
    while friend_kind == kind and kind not in ("girl", "boy"):
        friend_kind = rng.choice(words.ANIMAL_KINDS)
    elder, elder_pronoun = rng.choice(words.ELDERS)
    colour, noun = choose_coloured_object(rng, hero, held_out)
    spots = rng.sample(words.SPOTS, 3)
    hiding = rng.sample(words.HIDING_PLACES, 3)
    slots = {
        "hero": hero, "kind": kind, "friend": friend, "friend_kind": friend_kind, "elder": elder,
        "trait": rng.choice(words.TRAITS), "colour": colour, "noun": noun, "object": f"{colour} {noun}",
        "home": rng.choice(words.HOMES), "food": rng.choice(words.FOODS), "job": rng.choice(words.JOBS),
        "weather": rng.choice(words.WEATHERS),
        "spot_a": spots[0], "spot_b": spots[1], "spot_c": spots[2],
        "hiding_a": hiding[0], "hiding_b": hiding[1], "hiding_c": hiding[2],
    }
    slots.update(pronoun_slots("", hero_pronoun))
    slots.update({f"friend_{key}": value for key, value in pronoun_slots("", friend_pronoun).items()})
    slots.update({f"elder_{key}": value for key, value in pronoun_slots("", elder_pronoun).items()})
    return slots


def add_plot_details(rng, plot, slots):
    """Choose one of the plot's bundles of slots that belong together; its values may use other slots."""
    if "details" in plot:
        for key, value in rng.choice(plot["details"]).items():
            slots[key] = value.format_map(slots)


def make_story(rng, held_out=False):
    """One story as (text, slots)."""
    plot = rng.choice(PLOTS)
    slots = choose_slots(rng, held_out)
    add_plot_details(rng, plot, slots)
    parts = [expand(rng.choice(INTRODUCTIONS), rng, slots)]
    for beat in plot["beats"]:
        slots["weather"] = rng.choice(words.WEATHERS)
        parts.append(expand(rng.choice(beat), rng, slots))
    if rng.random() < 0.25:
        parts.append(expand(rng.choice(CLOSINGS), rng, slots))
    return join_parts(rng, parts), slots


def join_parts(rng, parts):
    """Join the beats into one paragraph or into a few."""
    if rng.random() < 0.6:
        return mend(" ".join(parts))
    text = parts[0]
    since_break = 1
    for part in parts[1:]:
        breaks_here = since_break >= 2 and rng.random() < 0.6
        text += ("\n\n" if breaks_here else " ") + part
        since_break = 1 if breaks_here else since_break + 1
    return text


def sentence_ends(story):
    """Positions after each sentence that ends outside of quotation marks, the last sentence left out."""
    return [index + 1 for index in range(len(story) - 2)
            if story[index] in ".!?" and story[index + 1] in " \n" and story[index + 2] in "\nABCDEFGHIJKLMNOPQRSTUVWXYZ"
            and story[:index].count('"') % 2 == 0]


def split_beginning(rng, story):
    """Cut a story after its first one to four sentences: (beginning, rest)."""
    ends = sentence_ends(story)
    end = ends[min(rng.randint(0, 3), len(ends) - 1)]
    return story[:end], story[end:].lstrip()


def pick_sentence(rng, story):
    """One of the sentences of a story, shorter than 160 characters."""
    ends = [0, *sentence_ends(story)]
    sentences = [story[start:end].strip() for start, end in zip(ends, ends[1:])]
    return rng.choice([sentence for sentence in sentences if len(sentence) < 160 and "\n" not in sentence])


def print_training_like_lines(rng, lines):
    """Print a number of stories, one per line."""
    for _ in range(lines):
        print(make_story(rng)[0].replace("\n\n", " "))


def print_held_out_tokens(tokenizer_path, rng, wanted):
    """Print held-out stories, one per line, until the tokenizer has counted the wanted number of tokens."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    total = 0
    while total < wanted:
        story = make_story(rng, held_out=True)[0].replace("\n\n", " ")
        print(story)
        total += len(tokenizer.encode(story + "\n", add_special_tokens=False).ids)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--heldout", action="store_true", help="print held-out stories, one per line")
    parser.add_argument("--tokens", type=int, default=100_000, help="how many tokens of held-out text")
    parser.add_argument("--calibration", type=int, metavar="N", help="print N lines of training-like text")
    default_tokenizer = Path(__file__).resolve().parents[2] / "models" / "demo" / "tokenizer.json"
    parser.add_argument("--tokenizer", type=Path, default=default_tokenizer)
    arguments = parser.parse_args()
    if arguments.calibration:
        print_training_like_lines(random.Random(CALIBRATION_SEED), arguments.calibration)
    elif arguments.heldout:
        print_held_out_tokens(arguments.tokenizer, random.Random(HELD_OUT_SEED), arguments.tokens)
    else:
        parser.error("give --heldout or --calibration N")


if __name__ == "__main__":
    main()
