"""Expands templates with nested choices and named slots, and reserves some combinations for held-out text."""

import re
import zlib

INNERMOST_CHOICE = re.compile(r"\[([^\[\]]*)\]")
PRONOUNS = {
    "he": {"he": "he", "him": "him", "his": "his", "himself": "himself"},
    "she": {"he": "she", "him": "her", "his": "her", "himself": "herself"},
}


def expand(template, rng, slots):
    """Choose among `[a|b|c]` from the inside out, then fill `{slot}` names and mend articles and capitals."""
    while True:
        template, replaced = INNERMOST_CHOICE.subn(lambda match: rng.choice(match.group(1).split("|")), template, count=1)
        if not replaced:
            break
    text = template.format_map(slots)
    return mend(text)


def mend(text):
    """Correct `a`/`an`, doubled spaces and the capital letter that starts a sentence."""
    text = re.sub(r" +", " ", text).strip()
    text = re.sub(r"\b([Aa]) (?=[aeiou]|honest)", r"\1n ", text)
    text = re.sub(r'(^"?|[.!?] "?|\."\s)([a-z])', lambda match: match.group(1) + match.group(2).upper(), text)
    return text


def pronoun_slots(prefix, pronoun):
    """Slots such as `he`, `His` for one character; a prefix tells characters apart (`friend_he`)."""
    slots = {}
    for role, word in PRONOUNS[pronoun].items():
        slots[prefix + role] = word
        slots[prefix + role.capitalize()] = word.capitalize()
    return slots


def is_reserved(first, second):
    """True for the combinations (about one in eight) that only held-out text may use."""
    return zlib.crc32(f"{first}/{second}".encode()) % 8 == 0
