"""`instructor`: typed answers by each mode, partly there, one after the other, and asked again where they do not fit.

Run by hand with a Python that has the package; see README.md beside this file.
"""

import asyncio
import json
import unittest
from collections.abc import Iterable

import anthropic
import instructor
import openai
import pydantic

from scripted_server import KEY, PARIS, ScriptedCase, Weather, call


class Mild(Weather):
    @pydantic.field_validator("degrees")
    @classmethod
    def is_mild(cls, degrees):
        if degrees > 40:
            raise ValueError("this is too hot")
        return degrees


PARIS, OSLO = Weather(city="Paris", degrees=21), Weather(city="Oslo", degrees=4)
HOT = {"city": "Paris", "degrees": 99}
MODES = instructor.Mode


class InstructorCase(ScriptedCase):
    scenarios = [
        ["So.</think>" + PARIS.model_dump_json()],
        ["So.</think>" + call("Weather", **PARIS.model_dump())],
        ["So.</think>" + call("IterableWeather", tasks=[PARIS.model_dump(), OSLO.model_dump()])],
        ["So.</think>" + json.dumps({"tasks": [PARIS.model_dump(), OSLO.model_dump()]})],
        ["So.</think>```json\n" + PARIS.model_dump_json() + "\n```"],
        ["So.</think>" + call("Mild", **HOT), "Oh.</think>" + call("Mild", **PARIS.model_dump())],
        ["So.</think>" + json.dumps(HOT), "Oh.</think>" + PARIS.model_dump_json()],
        ["So.</think>" + call("Weather", **PARIS.model_dump()) + "\n" + call("Weather", **OSLO.model_dump())],
        ["So.</think>" + call("PartialWeather", **PARIS.model_dump())],
    ]

    def client(self, mode):
        return instructor.from_openai(openai.OpenAI(base_url=self.base_url, api_key=KEY, max_retries=0), mode=mode)

    def ask(self, mode, scenario, model=Weather, **more):
        messages = [{"role": "user", "content": f"{scenario} What is the weather?"}]
        return self.client(mode).create(model="m", response_model=model, messages=messages, max_retries=2, **more)

    def parts(self, mode, scenario, **more):
        """What is known of an object while it comes."""
        messages = [{"role": "user", "content": f"{scenario} Weather?"}]
        return list(self.client(mode).create_partial(model="m", response_model=Weather, messages=messages, **more))

    def assert_same(self, found, *wanted):
        """Objects are of classes that the package derives from those of this file."""
        found = [found] if isinstance(found, pydantic.BaseModel) else list(found)
        self.assertEqual([one.model_dump() for one in found], [one.model_dump() for one in wanted])


class Chats(InstructorCase):
    def test_an_object(self):
        for mode, scenario in ((MODES.TOOLS, 1), (MODES.JSON, 0), (MODES.JSON_SCHEMA, 0), (MODES.MD_JSON, 4)):
            self.assert_same(self.ask(mode, scenario), PARIS)

    def test_with_the_completion(self):
        messages = [{"role": "user", "content": "1 Weather?"}]
        weather, completion = self.client(MODES.TOOLS).create_with_completion(model="m", response_model=Weather, messages=messages)
        self.assert_same(weather, PARIS)
        self.assertGreater(completion.usage.completion_tokens, 10)

    def test_parts(self):
        for mode, scenario in ((MODES.TOOLS, 8), (MODES.JSON, 0), (MODES.JSON_SCHEMA, 0), (MODES.MD_JSON, 4)):
            self.assert_same(self.parts(mode, scenario)[-1], PARIS)

    def test_several(self):
        for mode, scenario in ((MODES.TOOLS, 2), (MODES.JSON, 3), (MODES.JSON_SCHEMA, 3)):
            messages = [{"role": "user", "content": f"{scenario} Weather?"}]
            found = self.client(mode).create_iterable(model="m", response_model=Weather, messages=messages)
            self.assert_same(found, PARIS, OSLO)

    def test_asked_again(self):
        for mode, scenario in ((MODES.TOOLS, 5), (MODES.JSON, 6), (MODES.JSON_SCHEMA, 6), (MODES.MD_JSON, 6)):
            self.assertEqual(self.ask(mode, scenario, Mild).degrees, 21)

    def test_parallel_calls(self):
        found = self.ask(MODES.PARALLEL_TOOLS, 7, Iterable[Weather])
        self.assert_same(found, PARIS, OSLO)

    def test_async(self):
        client = instructor.from_openai(openai.AsyncOpenAI(base_url=self.base_url, api_key=KEY, max_retries=0))
        messages = [{"role": "user", "content": "1 Weather?"}]
        self.assert_same(asyncio.run(client.create(model="m", response_model=Weather, messages=messages)), PARIS)


class Responses(InstructorCase):
    def test_an_object(self):
        self.assert_same(self.ask(MODES.RESPONSES_TOOLS, 1), PARIS)

    def test_parts(self):
        self.assert_same(self.parts(MODES.RESPONSES_TOOLS, 8)[-1], PARIS)


class Messages(InstructorCase):
    def client(self, mode):
        return instructor.from_anthropic(anthropic.Anthropic(base_url=self.address, api_key=KEY, max_retries=0), mode=mode)

    def test_an_object(self):
        self.assert_same(self.ask(MODES.ANTHROPIC_TOOLS, 1, max_tokens=200), PARIS)
        self.assert_same(self.ask(MODES.ANTHROPIC_JSON, 0, max_tokens=200), PARIS)

    def test_asked_again(self):
        self.assertEqual(self.ask(MODES.ANTHROPIC_TOOLS, 5, Mild, max_tokens=200).degrees, 21)

    def test_parts(self):
        self.assert_same(self.parts(MODES.ANTHROPIC_TOOLS, 8, max_tokens=200)[-1], PARIS)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
