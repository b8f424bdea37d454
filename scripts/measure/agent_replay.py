#!/usr/bin/env python3
"""How much of an agent's growing prompts a model finds in the cache, beside its twin with full attention in every layer.

Conversations of many turns run side by side over HTTP: the user's task, then in turns the model's answer and the result of a tool, each
prompt being all that was said before. Answers are those that the model gives. Prints a JSON object: of each model the tokens of all
prompts but the first of a conversation, those found in the cache, and those whose keys and values were found but no state; and the
ratio of the two models' shares. Exits with 1 where that is below --least.

Usage: agent_replay.py --bin DIR [--turns 30] [--agents 4] [--shape tiny-qwen3.5] [--least 0.95] [-- flags of nvllm-serve]
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
WORDS = ("file", "line", "error", "read", "write", "test", "value", "the", "of", "in", "list", "name", "path", "returns", "open", "big",
         "little", "dog", "house", "went", "found")


class Server:
    def __init__(self, programs, model, flags):
        self.process = subprocess.Popen([programs / "nvllm-serve", "-m", model, "--port", "0", *flags], stderr=subprocess.PIPE, text=True)
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            if "http://" in line:
                self.url = "http://" + line.split("http://")[1].split()[0].rstrip(".,")
                return self.wait()
        raise SystemExit("the server did not start:\n" + "".join(self.log))

    def wait(self):
        while self.process.poll() is None:
            try:
                urllib.request.urlopen(self.url + "/health", timeout=60).close()
                return
            except urllib.error.HTTPError:  # it loads
                time.sleep(0.1)
        raise SystemExit("the server ended:\n" + "".join(self.log) + self.process.stderr.read())

    def chat(self, messages, tokens):
        body = {"messages": messages, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def stop(self):
        self.process.terminate()
        self.process.communicate()


def some_words(generator, count):
    return " ".join(generator.choice(WORDS) for _ in range(count))


def converse(server, agent, turns):
    """Tokens of later prompts, and of those found in the cache."""
    generator = random.Random(agent)
    messages = [{"role": "system", "content": "You may call tools. " + some_words(random.Random(0), 150)},
                {"role": "user", "content": some_words(generator, generator.randint(30, 120))}]
    asked = found = without_state = 0
    for turn in range(turns):
        answer = server.chat(messages, generator.randint(20, 80))
        usage = answer["usage"]
        details = usage["prompt_tokens_details"]
        if turn > 0:
            asked += usage["prompt_tokens"]
            found += details["cached_tokens"]
            without_state += details.get("tokens_without_state", 0)
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
        messages.append({"role": "user", "content": "Result: " + some_words(generator, generator.randint(10, 150))})
    return asked, found, without_state


def replay(programs, model, options):
    server = Server(programs, model, options.flags)
    try:
        with concurrent.futures.ThreadPoolExecutor(options.agents) as agents:
            parts = list(agents.map(lambda agent: converse(server, agent + 1, options.turns), range(options.agents)))
    finally:
        server.stop()
    asked, found, without_state = (sum(part[index] for part in parts) for index in range(3))
    return {"prompt_tokens": asked, "cached_tokens": found, "tokens_without_state": without_state, "share": found / asked}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True, help="folder of the programs")
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--agents", type=int, default=4)
    parser.add_argument("--shape", default="tiny-qwen3.5", help="of make_checkpoint.py, with a twin")
    parser.add_argument("--least", type=float, default=0.95)
    parser.add_argument("flags", nargs="*", help="of nvllm-serve, behind --")
    options = parser.parse_args()
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in (("hybrid", options.shape), ("twin", options.shape + "-full")):
            model = pathlib.Path(folder) / name
            subprocess.run([sys.executable, HERE / "make_checkpoint.py", model, shape], check=True)
            result[name] = replay(options.bin, model, options)
    result["ratio"] = result["hybrid"]["share"] / result["twin"]["share"]
    print(json.dumps(result, indent=2))
    return 0 if result["ratio"] >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
