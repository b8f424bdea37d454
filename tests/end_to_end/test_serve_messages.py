"""/v1/messages, the Anthropic API, by a model that says what is written here (scripted_model.py)."""

import json
import pathlib
import tempfile
import unittest

from scripted_model import write_scripted_model
from serve_testing import Server

TOOL = {"name": "get_weather", "description": "The weather of a city.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
LONG_CITY = "Llanfair, where the river bends twice before it reaches the old bridge, the mill and the sea"
SCENARIOS = [["Easy.</think>Hello there."], ["I should look.</think>One moment." + CALL, "Fine.</think>It is 21 degrees."],
             ["</think>One. Two. Three."], ["</think>" + CALL.replace("Paris", LONG_CITY)]]


def named_events(body):
    """(name, data) of each event; they agree on the type."""
    events = []
    for event in body.decode().split("\n\n")[:-1]:
        name, data = event.split("\n")
        data = json.loads(data.removeprefix("data: "))
        assert name == f"event: {data['type']}", event
        events.append(data)
    return events


def joined(events):
    """The blocks of a stream, and how it ended."""
    blocks, stop = [], None
    for event in events:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append(dict(event["content_block"]))
        if event["type"] == "content_block_delta":
            delta, block = event["delta"], blocks[event["index"]]
            for key, target in (("text", "text"), ("thinking", "thinking"), ("signature", "signature"),
                                ("partial_json", "json")):
                if key in delta:
                    block[target] = block.get(target, "") + delta[key]
        if event["type"] == "message_delta":
            stop = event["delta"]
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block.pop("json"))
    return blocks, stop


class MessagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        model = write_scripted_model(pathlib.Path(folder.name) / "m", SCENARIOS, "tools <tool_call> </think>", thinks=True)
        cls.server = Server("--api-key", "secret", model=f"m={model}", key="secret")
        cls.addClassCleanup(cls.server.stop)

    def send(self, scenario, path="/v1/messages", headers=None, **fields):
        body = {"model": "m", "max_tokens": 200, "messages": [{"role": "user", "content": f"{scenario} Hello"}], **fields}
        return self.server.post(path, body, headers=headers)

    def message(self, scenario, **fields):
        """A whole message; a stream gives the same."""
        whole = self.server.must(self.send(scenario, **fields))
        events = named_events(self.send(scenario, stream=True, **fields).body)
        self.assertEqual((events[0]["type"], events[1]["type"], events[-1]["type"]), ("message_start", "ping", "message_stop"))
        blocks, stop = joined(events)
        for block in (*blocks, *whole["content"]):
            block.pop("id", None)
        self.assertEqual(blocks, whole["content"])
        self.assertEqual(stop, {"stop_reason": whole["stop_reason"], "stop_sequence": whole["stop_sequence"]})
        return whole

    def test_a_message(self):
        answer = self.send(0)
        message = self.server.must(answer)
        self.assertEqual(answer.headers["request-id"], answer.headers["x-request-id"])
        self.assertTrue(message["id"].startswith("msg_"))
        self.assertEqual([block["type"] for block in message["content"]], ["thinking", "text"])
        message = self.message(0)
        self.assertEqual((message["content"][0]["thinking"], message["content"][1]["text"]), ("Easy.", "Hello there."))
        self.assertEqual((message["stop_reason"], message["role"], message["type"]), ("end_turn", "assistant", "message"))
        usage = message["usage"]
        self.assertEqual(usage["input_tokens"] + usage["cache_read_input_tokens"], 4)
        self.assertEqual(usage["output_tokens"], len("Easy.</think>Hello there.") + 1)

    def test_a_tool_and_its_result(self):
        message = self.server.must(self.send(1, tools=[TOOL]))
        call = message["content"][2]
        self.assertEqual((message["stop_reason"], call["type"], call["name"]), ("tool_use", "tool_use", "get_weather"))
        self.assertEqual(call["input"], {"city": "Paris"})
        self.message(1, tools=[TOOL])
        history = [{"role": "user", "content": "1 Hello"}, {"role": "assistant", "content": message["content"]},
                   {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": "21"}]}]
        last = self.message(1, tools=[TOOL], messages=history)
        self.assertEqual(last["content"][-1], {"type": "text", "text": "It is 21 degrees."})

    def test_an_input_that_a_grammar_holds_comes_in_pieces(self):
        fields = {"tools": [TOOL], "tool_choice": {"type": "any"}}
        answer = self.send(3, **fields)
        if answer.status == 503 and "NVLLM_GRAMMAR=OFF" in answer.text:
            self.skipTest("no grammar engine is built in")
        self.assertEqual(self.message(3, **fields)["stop_reason"], "tool_use")
        events = named_events(self.send(3, stream=True, **fields).body)
        types = [event["type"] for event in events]
        start = types.index("content_block_start")
        self.assertEqual((events[start]["content_block"]["type"], events[start]["content_block"]["input"]), ("tool_use", {}))
        pieces = [event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta"]
        self.assertGreater(len(pieces), 1)
        self.assertEqual("".join(pieces), '{"city": "%s"}' % LONG_CITY)
        self.assertEqual(types[start + 1:], ["content_block_delta"] * len(pieces) +
                         ["content_block_stop", "message_delta", "message_stop"])
        whole = self.server.must(self.send(3, max_tokens=80, **fields))
        events = named_events(self.send(3, max_tokens=80, stream=True, **fields).body)
        cut = "".join(event["delta"]["partial_json"] for event in events if event["type"] == "content_block_delta")
        self.assertTrue(cut.startswith('{"city": "Llan') and LONG_CITY not in cut, cut)
        self.assertEqual((whole["stop_reason"], whole["content"][0]["input"]), ("max_tokens", {"INVALID_JSON": cut}))

    def test_how_it_ends(self):
        stopped = self.message(2, stop_sequences=["Three", "Two"])
        self.assertEqual((stopped["stop_reason"], stopped["stop_sequence"]), ("stop_sequence", "Two"))
        self.assertEqual(stopped["content"], [{"type": "text", "text": "One. "}])
        self.assertEqual(self.message(2, max_tokens=12)["stop_reason"], "max_tokens")

    def test_thinking(self):
        self.assertEqual(self.message(0, thinking={"type": "disabled"})["content"],
                         [{"type": "text", "text": "Easy.</think>Hello there."}])
        answer = self.send(0, thinking={"type": "enabled", "budget_tokens": 2048})
        self.assertEqual(self.server.must(answer)["content"][0]["type"], "thinking")
        self.assertEqual(answer.headers["x-nvllm-ignored"], "thinking.budget_tokens")

    def test_counting_tokens(self):
        for scenario, count in ((0, 4), (1, 3 * 256 + 4)):
            answer = self.server.post("/v1/messages/count_tokens",
                                      {"model": "m", "messages": [{"role": "user", "content": str(scenario)}], "tools": [TOOL]})
            self.assertEqual(self.server.must(answer), {"input_tokens": count})

    def test_keys(self):
        for headers in ({"x-api-key": "secret"}, {"Authorization": "Bearer secret"}):
            headers = {"Authorization": None, **headers}
            self.assertEqual(self.send(0, headers=headers).status, 200, headers)
        for headers in ({"Authorization": None}, {"Authorization": None, "x-api-key": "other"}):
            answer = self.send(0, headers=headers)
            self.assertEqual((answer.status, answer.json()["type"], answer.error["type"]), (401, "error", "authentication_error"))

    def test_errors_have_the_form_of_the_api(self):
        for fields, says in (({"max_tokens": None}, "max_tokens"), ({"messages": []}, "messages"),
                             ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "image"),
                             ({"temperature": 9}, "temperature"), ({"tools": [{"type": "computer_20250124", "name": "c"}]}, "computer")):
            answer = self.send(0, **fields)
            self.assertEqual((answer.status, answer.json()["type"], answer.error["type"]), (400, "error", "invalid_request_error"))
            self.assertIn(says, answer.error["message"])
            self.assertEqual(answer.json()["request_id"], answer.headers["request-id"])
        answer = self.send(0, model="other")
        self.assertEqual((answer.status, answer.error["type"]), (404, "not_found_error"))
        self.assertEqual(self.server.get("/v1/messages").json()["type"], "error")
        answer = self.server.post("/v1/messages", "{", headers={"Content-Type": "application/json"})
        self.assertEqual((answer.status, answer.json()["type"]), (400, "error"))

    def test_over_a_websocket(self):
        with self.server.websocket("/v1/messages") as socket:
            socket.send(json.dumps({"max_tokens": 99, "messages": [{"role": "user", "content": "0"}], "stream": True}))
            types = []
            while not types or types[-1] != "message_stop":
                types.append(json.loads(socket.receive())["type"])
            self.assertEqual(types[0], "message_start")


if __name__ == "__main__":
    unittest.main()
