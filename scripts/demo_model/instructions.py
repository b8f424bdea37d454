"""Generates small chats with right answers: stories, repeating, counting, and questions about a given text."""

import string

import words
from stories import choose_coloured_object, make_story, pick_sentence, split_beginning
from text_engine import expand, mend

SYSTEM_MESSAGES = ["You are a helpful assistant.", "You are the nanovllm demo model.", "Be kind and brief.",
                   "You are a friendly story teller.", "Answer the user.", "You are a small language model."]

IDENTITY = "I am the nanovllm demo model, a very small language model. I can tell stories, repeat words, count, and answer questions about a short text."
ABILITIES = "I can tell a short story, continue a story, repeat words, count, and answer questions about a short text."
UNKNOWN = "I am a very small model, and I do not know that. Ask me for a story, or give me a short text with a question."

SMALL_TALK = [
    (["Who are you?", "What are you?", "What is your name?", "Tell me about yourself.", "Please introduce yourself.",
      "Are you a person?", "Are you a robot?", "Which model are you?"], IDENTITY),
    (["What can you do?", "How can you help me?", "What do you know?", "Help", "Can you help me?"], ABILITIES),
    (["Hello", "Hi", "Hello!", "Hi there!", "Good morning", "Hey", "Good evening!", "Hello, how are you?", "How are you?"],
     "Hello! I am glad that you are here. Would you like a story?"),
    (["Thank you", "Thanks", "Thank you!", "Thanks a lot", "That was nice", "Great, thank you."], "You are welcome!"),
    (["Goodbye", "Bye", "Good night", "See you"], "Goodbye! Come back soon."),
    (["What is the capital of France?", "Who wrote the first book?", "What is the weather today?", "How old is the sun?",
      "What time is it?", "Write a program.", "Translate this to German.", "Who is the king?", "What is love?",
      "How do planes fly?", "What is the meaning of life?", "Who won the game?", "Solve this equation.",
      "What is 12 times 12?", "Why is the sky blue?", "How far is the moon?", "What is a computer?"], UNKNOWN),
]


def vary_prompt(rng, prompt):
    """Now and then write a prompt the way people type: without the capital letter or the last full stop."""
    if rng.random() < 0.15:
        prompt = prompt[0].lower() + prompt[1:]
    if rng.random() < 0.15 and prompt.endswith("."):
        prompt = prompt[:-1]
    return prompt


def small_talk(rng, held_out):
    questions, answer = rng.choice(SMALL_TALK)
    return vary_prompt(rng, rng.choice(questions)), answer


def tell_story(rng, held_out):
    """Ask for a story about a character; the things that the prompt names do appear in the story."""
    story, slots = make_story(rng, held_out)
    hero = f"a {slots['kind']} named {slots['hero']}"
    ask = rng.choice(["Tell me a story", "Write a short story", "Tell a story", "Please tell me a story", "Write a story",
                      "Can you tell me a story", "I would like a story", "Tell me a short story"])
    subjects = [f"{ask}.", f"{ask} about {hero}.", f"{ask} about {slots['hero']}.", f"{ask} about {hero}.",
                f"{ask} about a {slots['trait']} {slots['kind']} named {slots['hero']}.",
                f"{ask} about a {slots['kind']}."]
    if slots["friend"] in story:
        subjects.append(f"{ask} about {slots['hero']} and {slots['friend']}.")
    if slots["object"] in story:
        subjects += [f"{ask} about {hero} and a {slots['object']}.", f"{ask} about {slots['hero']} and a {slots['noun']}.",
                     f"{ask} about a {slots['object']}.", f"{ask} about {hero} who has a {slots['object']}."]
    prompt = mend(rng.choice(subjects))
    if prompt.startswith("Can"):
        prompt = prompt[:-1] + "?"
    return vary_prompt(rng, prompt), story


def continue_story(rng, held_out):
    beginning, rest = split_beginning(rng, make_story(rng, held_out)[0])
    ask = rng.choice(["Continue this story:", "Continue the story:", "Please continue this story:", "Go on with this story:",
                      "Finish this story:", "This is the beginning of a story. Continue it:", "What happens next?"])
    return ask + rng.choice([" ", "\n", "\n\n"]) + beginning, rest


def made_up_word(rng):
    """A word that is in no list, so that copying has to be learned letter by letter."""
    syllables = rng.randint(1, 3)
    return "".join(rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou") + rng.choice(["", "", *"lmnrst"])
                   for _ in range(syllables))


def text_to_repeat(rng, held_out):
    """Something to copy: words, names, numbers, letters, made-up words or a sentence from a story."""
    kind = rng.choice(["words", "words", "list", "sentence", "sentence", "names", "numbers", "letters", "made_up", "coloured"])
    amount = rng.randint(2, 8)
    if kind == "sentence":
        return pick_sentence(rng, make_story(rng, held_out)[0])
    if kind == "words":
        return " ".join(rng.choice(words.COMMON_WORDS) for _ in range(amount))
    if kind == "list":
        return ", ".join(rng.choice(words.COMMON_WORDS) for _ in range(amount))
    if kind == "names":
        return ", ".join(rng.choice(words.GIRL_NAMES + words.BOY_NAMES) for _ in range(amount))
    if kind == "numbers":
        return rng.choice([" ", ", "]).join(str(rng.randint(0, 99)) for _ in range(amount))
    if kind == "letters":
        return " ".join(rng.choice(string.ascii_uppercase) for _ in range(amount))
    if kind == "coloured":
        return ", ".join(f"{rng.choice(words.COLOURS)} {rng.choice(words.OBJECTS)}" for _ in range(max(2, amount // 2)))
    return " ".join(made_up_word(rng) for _ in range(rng.randint(1, 5)))


def repeat(rng, held_out):
    text = text_to_repeat(rng, held_out)
    ask = rng.choice(["Repeat:", "Repeat this:", "Say this:", "Copy this text:", "Please repeat:", "Repeat exactly:",
                      "Repeat these words:", "Say exactly:", "Repeat after me:", "Repeat this sentence:", "Write this again:"])
    return vary_prompt(rng, ask) + rng.choice([" ", "\n"]) + text, text


def count(rng, held_out):
    """Count up or down, in digits up to 30 or in words up to 12."""
    form = rng.choice(["to", "to", "to", "range", "range", "down", "words"])
    if form == "to":
        last = rng.randint(2, 30)
        return vary_prompt(rng, rng.choice([f"Count to {last}.", f"Count from 1 to {last}.", f"Please count to {last}.",
                                            f"Can you count to {last}?"])), digits(range(1, last + 1))
    if form == "range":
        first = rng.randint(2, 20)
        last = first + rng.randint(2, 10)
        return vary_prompt(rng, f"Count from {first} to {last}."), digits(range(first, last + 1))
    if form == "down":
        first = rng.randint(3, 20)
        return vary_prompt(rng, rng.choice([f"Count down from {first}.", f"Count from {first} down to 1.",
                                            f"Count backwards from {first}."])), digits(range(first, 0, -1))
    last = rng.randint(2, 12)
    ask = rng.choice([f"Count to {words.NUMBER_WORDS[last]}.", f"Count to {words.NUMBER_WORDS[last]} in words."])
    return vary_prompt(rng, ask), ", ".join(words.NUMBER_WORDS[1:last + 1])


def digits(numbers):
    return ", ".join(str(number) for number in numbers)


def plural(thing):
    return words.COUNTED_PLURALS.get(thing, thing + "es" if thing.endswith(("x", "sh")) else thing + "s")


def how_many(rng, held_out):
    """How often does a thing occur in a list? The answer goes through the list and numbers the hits."""
    thing, *others = rng.sample(words.COUNTED_THINGS, rng.randint(2, 4))
    hits = rng.randint(1, 5)
    items = [thing] * hits + [rng.choice(others) for _ in range(rng.randint(1, 5))]
    rng.shuffle(items)
    listed = ", ".join(items)
    ask = rng.choice([f"How many {plural(thing)} are in this list? {listed}", f"Here is a list: {listed}. How many {plural(thing)} are there?",
                      f"List: {listed}\nHow many {plural(thing)} are in the list?", f"Count the {plural(thing)}: {listed}"])
    steps, found = [], 0
    for item in items:
        found += item == thing
        steps.append(f"{item} ({found})" if item == thing else item)
    total = f"There is 1 {thing}." if hits == 1 else f"There are {hits} {plural(thing)}."
    return ask, ", ".join(steps) + ". " + total


def pick_new(rng, options, taken):
    """Choose something that the text has not used yet, so that every question has one answer."""
    choice = rng.choice([option for option in options if option not in taken])
    taken.add(choice)
    return choice


def facts_about(rng, name, other, taken, held_out):
    """Facts as (sentence with {who}, (question, answer)); {who} becomes the name or the pronoun."""
    colour, noun = choose_coloured_object(rng, name, held_out)
    while noun in taken:
        colour, noun = choose_coloured_object(rng, name, held_out)
    taken.add(noun)
    home, spot, food, kind, job, hiding = (pick_new(rng, options, taken) for options in (
        words.HOMES, words.SPOTS, words.FOODS, words.ANIMAL_KINDS, words.JOBS, words.HIDING_PLACES))
    colour_word = rng.choice(["colour", "color"])
    return [
        ("{who} [has|owns|carries] a " + f"{colour} {noun}.", rng.choice([
            (f"What does {name} have?", f"{name} has a {colour} {noun}."),
            (f"What {colour_word} is the {noun}?", f"The {noun} is {colour}."),
            (f"What {colour_word} is {name}'s {noun}?", f"The {noun} is {colour}."),
            (f"Who has the {noun}?", f"{name} has the {noun}."),
            (f"Who has a {colour} {noun}?", f"{name} has the {noun}.")])),
        ("{who} lives in " + f"{home}.", rng.choice([
            (f"Where does {name} live?", f"{name} lives in {home}."),
            (f"Who lives in {home}?", f"{name} lives in {home}.")])),
        ("[Yesterday|Today|In the morning|After lunch] {who} [went|walked|ran] to " + f"{spot}.", rng.choice([
            (f"Where did {name} go?", f"{name} went to {spot}."),
            (f"Who went to {spot}?", f"{name} went to {spot}.")])),
        ("[For dinner|For breakfast|At noon] {who} [ate|had] " + f"{food}.", rng.choice([
            (f"What did {name} eat?", f"{name} ate {food}."),
            (f"Who ate {food}?", f"{name} ate {food}.")])) if food != "warm milk" else
        ("{who} drank warm milk.", (f"Who drank warm milk?", f"{name} drank warm milk.")),
        ("{who} is a " + f"{kind}.", rng.choice([
            (f"What is {name}?", f"{name} is a {kind}."), (f"Who is a {kind}?", f"{name} is a {kind}.")])),
        ("{who} works as a " + f"{job}.", rng.choice([
            (f"What is the job of {name}?", f"{name} is a {job}."), (f"Who is a {job}?", f"{name} is a {job}.")])),
        ("{who} put a " + f"{noun} {hiding}.", rng.choice([
            (f"Where is the {noun}?", f"The {noun} is {hiding}."),
            (f"Where did {name} put the {noun}?", f"The {noun} is {hiding}."),
            (f"What did {name} put {hiding}?", f"{name} put a {noun} {hiding}.")])),
        ("{who} has a friend named " + f"{other}.", (f"Who is the friend of {name}?", f"The friend of {name} is {other}.")),
    ]


def text_with_facts(rng, held_out):
    """A short text about one or two people and the question-answer pairs that it settles."""
    people = [(name, "she") for name in rng.sample(words.GIRL_NAMES, 2)] + [(name, "he") for name in rng.sample(words.BOY_NAMES, 2)]
    rng.shuffle(people)
    sentences, pairs, taken = [], [], set()
    for name, pronoun in people[:rng.randint(1, 2)]:
        facts = facts_about(rng, name, people[2][0], taken, held_out)
        for position, (sentence, pair) in enumerate(rng.sample(facts, rng.randint(1, 3))):
            who = name if position == 0 or rng.random() < 0.4 else pronoun
            sentences.append(mend(expand(sentence, rng, {"who": who})))
            pairs.append((mend(pair[0]), mend(pair[1])))
    return " ".join(sentences), pairs


def answer(rng, held_out):
    """One or two questions about a text; returned as a list of turns."""
    text, pairs = text_with_facts(rng, held_out)
    rng.shuffle(pairs)
    question, reply = pairs[0]
    prompt = rng.choice([f"{text} {question}", f"{text}\n{question}", f"{text}\n\n{question}", f"Read this text: {text}\n{question}",
                         f"Text: {text}\nQuestion: {question}", f"Answer the question. {text} {question}"])
    turns = [(prompt, reply)]
    if len(pairs) > 1 and rng.random() < 0.3:
        turns.append(pairs[1])
    return turns


# How often each kind is drawn, and its generator.
KINDS = {
    "story": (0.09, tell_story), "continue": (0.07, continue_story), "repeat": (0.27, repeat), "count": (0.11, count),
    "how_many": (0.14, how_many), "answer": (0.27, answer), "small_talk": (0.05, small_talk),
}


def make_turns(rng, kind, held_out=False):
    """The (user, assistant) turns of one task of the given kind."""
    made = KINDS[kind][1](rng, held_out)
    return made if isinstance(made, list) else [made]


def to_messages(turns, system=None):
    messages = [{"role": "system", "content": system}] if system else []
    for user, assistant in turns:
        messages += [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]
    return messages


def make_chat(rng, held_out=False, with_stories=True):
    """One chat of one to three tasks, with a system message in a quarter of the cases."""
    kinds = [kind for kind in KINDS if with_stories or kind not in ("story", "continue")]
    weights = [KINDS[kind][0] for kind in kinds]
    turns = []
    for kind in rng.choices(kinds, weights, k=rng.choice([1, 1, 1, 2, 2, 3])):
        turns += make_turns(rng, kind, held_out)
    return to_messages(turns, rng.choice(SYSTEM_MESSAGES) if rng.random() < 0.25 else None)
