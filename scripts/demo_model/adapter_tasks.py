"""What the adapters of the demo model learn: a style of telling stories, and a task that the model itself does not know."""

import json
import random
import re

import words
from instructions import continue_story, tell_story, to_messages, vary_prompt
from stories import choose_coloured_object, make_story
from text_engine import expand, mend


def verse(story):
    """A line for each sentence, without capitals, quotation marks and full stops."""
    sentences = re.split(r"(?<=[.!?])\s+", story.replace('"', "").strip())
    return "\n".join(sentence.rstrip(".!").lower() for sentence in sentences)


def is_verse(text):
    """Whether a text is in that style, whatever it tells."""
    lines = text.split("\n")
    return len(lines) > 2 and text == text.lower() and not re.search(r'["!]|\.(\s|$)', text) and all(lines)


def verse_example(rng, held_out):
    """A chat that asks for a story, or the beginning of one without a chat: (messages or text, answer)."""
    kind = rng.random()
    if kind < 0.25:
        first, *lines = verse(make_story(rng, held_out)[0]).split("\n")
        begin = " ".join(first.split()[:rng.randint(2, 4)])
        return begin, "\n".join([first, *lines])[len(begin):]
    prompt, story = (tell_story if kind < 0.8 else continue_story)(rng, held_out)
    return to_messages([(prompt, "")])[:1], verse(story)


FIELDS = {
    "has": "{who} [has|owns|carries] a {thing}.",
    "home": "{who} lives in {home}.",
    "went to": "[Yesterday|Today|In the morning|After lunch] {who} [went|walked|ran] to {spot}.",
    "ate": "[For dinner|For breakfast|At noon] {who} [ate|had] {food}.",
    "job": "{who} works as a {job}.",
    "friend": "{who} has a friend named {friend}.",
}


def fields_example(rng, held_out):
    """A short text about one person; the answer is what it says, as JSON, in its order."""
    is_girl = rng.random() < 0.5
    name, friend = rng.sample(words.GIRL_NAMES if is_girl else words.BOY_NAMES, 2)
    colour, noun = choose_coloured_object(rng, name, held_out)
    food = rng.choice([food for food in words.FOODS if food != "warm milk"])
    values = {"has": f"{colour} {noun}", "home": rng.choice(words.HOMES), "went to": rng.choice(words.SPOTS), "ate": food,
              "job": rng.choice(words.JOBS), "friend": friend}
    slots = {"thing": values["has"], "home": values["home"], "spot": values["went to"], "food": food, "job": values["job"], "friend": friend}
    sentences = []
    chosen = rng.sample(sorted(FIELDS), rng.randint(2, 4))
    for index, field in enumerate(chosen):
        who = name if index == 0 or rng.random() < 0.4 else "she" if is_girl else "he"
        sentences.append(mend(expand(FIELDS[field], rng, {**slots, "who": who})))
    ask = rng.choice(["Fields:", "Give the fields:", "Fill in the form:", "As JSON:"])
    answer = json.dumps({"name": name, **{field: values[field] for field in chosen}})
    return to_messages([(f"{vary_prompt(rng, ask)} {' '.join(sentences)}", "")])[:1], answer


# By the adapter: examples, how an answer is judged beside the expected one, and what the model card says of it.
TASKS = {
    "verse": {
        "example": verse_example, "is_right": lambda given, expected: is_verse(given), "kind": "a style",
        "about": "tells its stories as verses: a line for each sentence, all in lower case",
        "measure": "keep to the style", "settings": {"r": 16, "lora_alpha": 16, "use_rslora": True, "target_modules": "all-linear"},
        "prompt": "Tell me a story about a girl named Mia and a red kite.",
    },
    "fields": {
        "example": fields_example, "is_right": lambda given, expected: given == expected, "kind": "a task",
        "about": "reads a short text about a person and answers with what it says as JSON",
        "measure": "are exactly right",
        "settings": {"r": 8, "lora_alpha": 16, "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
                     "rank_pattern": {"down_proj": 4}},
        "prompt": "Fields: Tom has a green boat. He lives in a town by a wide lake.",
    },
}


def examples(name, seed, count, held_out=False):
    """(prompt as messages or text, answer), so many."""
    rng = random.Random(seed)
    return [TASKS[name]["example"](rng, held_out) for _ in range(count)]
