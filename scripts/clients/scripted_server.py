"""nvllm-serve with a model that says what a script wrote (tests/end_to_end/scripted_model.py), for packages of others.

From here on this process reaches this machine only: what a package sends elsewhere fails, so that no answer comes from
another server.
"""

import json
import os
import pathlib
import sys
import tempfile
import unittest

import pydantic

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "end_to_end"))

from programs import SOURCE, wait_until  # noqa: E402, F401
from scripted_model import write_scripted_model  # noqa: E402
from serve_testing import Server  # noqa: E402

KEY = "secret"
EMBEDDER = SOURCE / "tests" / "fixtures" / "embeddings" / "bert"
RERANKER = SOURCE / "tests" / "fixtures" / "rerankers" / "bert"
HERE = (None, "127.0.0.1", "::1", "localhost")


def stay_here(event, arguments):
    """A hook for audit events."""
    address = arguments[1] if event == "socket.connect" else arguments if event == "socket.getaddrinfo" else None
    if isinstance(address, tuple) and address[0] not in HERE:
        raise ConnectionRefusedError(f"a client reaches out: {address[0]}")


sys.addaudithook(stay_here)
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else litellm asks for its list of prices when it is imported


# What the tools of the scripts say of a city, and the type of an answer that has it.
DEGREES = {"Paris": "21", "Oslo": "4"}


class Weather(pydantic.BaseModel):
    """The weather of a city."""

    city: str
    degrees: int


PARIS = Weather(city="Paris", degrees=21)


def call(name, **arguments):
    """A call of a function as the model writes it."""
    return f'<tool_call>\n{json.dumps({"name": name, "arguments": arguments})}\n</tool_call>'


class ScriptedCase(unittest.TestCase):
    """One server for the tests of a class. A request's first word, a number, chooses the scenario: what the model says,
    an answer a turn, each with a thought that the template opened."""

    scenarios = ()
    arguments = ()

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        model = write_scripted_model(pathlib.Path(folder.name) / "m", cls.scenarios, "tools <tool_call> </think>", thinks=True)
        cls.server = Server("--api-key", KEY, *cls.arguments, model=f"m={model}", key=KEY)
        cls.addClassCleanup(cls.server.stop)
        cls.address = f"http://127.0.0.1:{cls.server.port}"
        cls.base_url = f"{cls.address}/v1"
