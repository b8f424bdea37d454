"""Prints the text that nvllm-quantize calibrates with when it is given none: stories and chats as JSON lines.

    python3 scripts/demo_model/calibration.py > lib/quantize/calibration_text.jsonl
"""

import argparse
import json
import random

from instructions import make_chat
from stories import make_story

SEED = 20_260_101
# As in training (dataset.py).
CHAT_SHARE = 0.72


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=110_000, help="how much text, at least")
    wanted = parser.parse_args().bytes
    rng, printed = random.Random(SEED), 0
    while printed < wanted:
        chats = rng.random() < CHAT_SHARE
        line = json.dumps({"messages": make_chat(rng)} if chats else {"text": make_story(rng)[0]}, ensure_ascii=False)
        print(line)
        printed += len(line.encode()) + 1


if __name__ == "__main__":
    main()
