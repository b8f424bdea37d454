"""/v1/responses by a model that says what is written here (scripted_model.py): items, events, what is kept for whom."""

import pathlib
import tempfile
import unittest

from scripted_model import write_scripted_model
from serve_testing import Server
from test_serve_messages import CALL, LONG_CITY, SCENARIOS, named_events

TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


def without_ids(response):
    """What two responses to the same request have in common."""
    for item in response["output"]:
        for key in ("id", "call_id"):
            item.pop(key, None)
    for key in ("id", "created_at", "usage"):
        response.pop(key)
    return response


class ResponsesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        path = pathlib.Path(folder.name)
        scenarios = [*SCENARIOS, ["So.</think>" + CALL.replace("get_weather", "get_time")]]
        cls.model = write_scripted_model(path / "m", scenarios, "tools <tool_call> </think>", thinks=True)
        keys = path / "keys"
        keys.write_text("one:first\ntwo:second\n")
        cls.server = Server("--api-key-file", keys, "--max-stored-responses", "20", model=f"m={cls.model}", key="first")
        cls.addClassCleanup(cls.server.stop)

    def send(self, input="0 Hello", **fields):
        return self.server.post("/v1/responses", {"model": "m", "input": input, **fields})

    def response(self, input="0 Hello", **fields):
        return self.server.must(self.send(input, **fields))

    def test_a_text(self):
        response = self.response(instructions="Be short.", metadata={"k": "v"}, max_output_tokens=99)
        self.assertTrue(response["id"].startswith("resp_"))
        self.assertEqual((response["object"], response["status"], response["error"]), ("response", "completed", None))
        thought, message = response["output"]
        self.assertEqual((thought["type"], thought["content"][0]["text"]), ("reasoning", "Easy."))
        self.assertEqual(message["content"][0]["text"], "Hello there.")
        self.assertEqual((response["instructions"], response["metadata"], response["max_output_tokens"]),
                         ("Be short.", {"k": "v"}, 99))
        self.assertEqual(response["usage"]["output_tokens_details"]["reasoning_tokens"], len("Easy.</think>"))

    def test_calls_go_on_by_items_or_by_the_last_response(self):
        first = self.response("1 Hello", tools=[TOOL])
        call = first["output"][-1]
        self.assertEqual((call["type"], call["name"], call["arguments"]), ("function_call", "get_weather", '{"city": "Paris"}'))
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "21"}
        by_items = self.response([{"role": "user", "content": "1 Hello"}, *first["output"], result], tools=[TOOL])
        by_last = self.response([result], previous_response_id=first["id"], tools=[TOOL])
        for response in (by_items, by_last):
            self.assertEqual(response["output"][-1]["content"][0]["text"], "It is 21 degrees.")
        self.assertEqual(by_last["previous_response_id"], first["id"])

    def test_items_are_named_in_place_of_sending_them(self):
        """As the AI SDK does with what the server keeps."""
        first = self.response("1 Hello", tools=[TOOL])
        references = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
        question = {"role": "user", "content": "1 Hello"}
        result = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "21"}
        items = self.response([question, *first["output"], result], tools=[TOOL])
        named = self.response([question, *references, result], tools=[TOOL])
        self.assertEqual(named["output"][-1]["content"][0]["text"], "It is 21 degrees.")
        self.assertEqual(named["usage"]["input_tokens"], items["usage"]["input_tokens"])
        for headers, reference in ((None, "rs_0"), ({"Authorization": "Bearer second"}, references[0]["id"])):
            answer = self.server.post("/v1/responses", {"model": "m", "input": [question, {"type": "item_reference", "id": reference}]},
                                      headers=headers)
            self.assertEqual((answer.status, answer.error["code"], answer.error["param"]), (400, "item_not_found", "input[1].id"))

    def test_some_tools_are_allowed(self):
        """The model wants to know the time; where it may not, it cannot even begin to ask."""
        time = {**TOOL, "name": "get_time"}
        for mode in ("auto", "required"):
            def output(name, mode=mode):
                choice = {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": name}]}
                return self.response("3 Hello", tools=[TOOL, time], tool_choice=choice, max_output_tokens=120)["output"][-1]

            self.assertEqual((output("get_time")["type"], output("get_time")["name"]), ("function_call", "get_time"))
            other = str(output("get_weather"))
            self.assertNotIn("get_time", other)
            self.assertIn("get_weather", other)

    def test_truncation_changes_nothing(self):
        answer = self.send(truncation="auto")
        self.assertEqual((self.server.must(answer)["truncation"], answer.headers["x-nvllm-ignored"]), ("disabled", "truncation"))

    def test_counting(self):
        def count(input="0 Hello", **fields):
            answer = self.server.post("/v1/responses/input_tokens", {"model": "m", "input": input, **fields})
            self.assertEqual(self.server.must(answer)["object"], "response.input_tokens")
            return answer.json()["input_tokens"]

        self.assertEqual(count(), self.response()["usage"]["input_tokens"])
        first = self.response("1 Hello", tools=[TOOL])
        result = {"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "21"}
        fields = {"input": [result], "previous_response_id": first["id"], "instructions": "Be short.", "tools": [TOOL]}
        self.assertGreater(count(**fields), first["usage"]["input_tokens"])
        self.assertEqual(count(**fields), self.response(**fields)["usage"]["input_tokens"])
        for body, status, field in (({"model": "m"}, 400, "input"), ({"model": "x", "input": "a"}, 404, "model"), ([], 400, None)):
            refused = self.server.post("/v1/responses/input_tokens", body)
            self.assertEqual((refused.status, refused.error["param"]), (status, field), refused.text)
        self.assertEqual(self.server.get("/v1/responses/input_tokens").status, 404)

    def test_events(self):
        events = named_events(self.send("1 Hello", stream=True, tools=[TOOL]).body)
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        types = [event["type"] for event in events]
        self.assertEqual(types[:4], ["response.created", "response.in_progress", "response.output_item.added",
                                     "response.content_part.added"])
        self.assertEqual(types[-3:], ["response.function_call_arguments.done", "response.output_item.done", "response.completed"])
        text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
        self.assertEqual(text, "One moment.")
        last = events[-1]["response"]
        self.assertEqual([event["item"] for event in events if event["type"] == "response.output_item.done"], last["output"])
        kept = self.server.must(self.server.get(f"/v1/responses/{last['id']}"))
        self.assertEqual(kept, last)
        self.assertEqual(without_ids(self.response("1 Hello", tools=[TOOL])), without_ids(last))

    def test_arguments_that_a_grammar_holds_come_in_pieces(self):
        fields = {"tools": [TOOL], "tool_choice": "required"}
        answer = self.send("3 Hello", **fields)
        if answer.status == 503 and "NVLLM_GRAMMAR=OFF" in answer.text:
            self.skipTest("no grammar engine is built in")
        whole = self.server.must(answer)
        arguments = '{"city": "%s"}' % LONG_CITY
        self.assertEqual(whole["output"][-1]["arguments"], arguments)
        for length in (200, 80):
            events = named_events(self.send("3 Hello", stream=True, max_output_tokens=length, **fields).body)
            pieces = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
            self.assertGreater(len(pieces), 1)
            given = "".join(pieces)
            calls = [event for event in events if event.get("item", {}).get("type") == "function_call"]
            self.assertEqual([event["type"] for event in calls], ["response.output_item.added", "response.output_item.done"])
            self.assertEqual([event["item"]["arguments"] for event in calls], ["", given])
            (done,) = [event for event in events if event["type"] == "response.function_call_arguments.done"]
            self.assertEqual(done["arguments"], given)
            if length == 200:
                self.assertEqual(given, arguments)
                self.assertEqual(without_ids(events[-1]["response"])["output"], without_ids(whole)["output"])
                continue
            self.assertTrue(arguments.startswith(given) and given != arguments, given)
            self.assertEqual((events[-1]["type"], calls[-1]["item"]["status"]), ("response.incomplete", "incomplete"))
            cut = self.response("3 Hello", max_output_tokens=length, **fields)
            self.assertEqual((cut["output"][-1]["arguments"], cut["output"][-1]["status"]), (given, "incomplete"))

    def test_one_that_is_cut_off(self):
        response = self.response("2 Hello", max_output_tokens=12)
        self.assertEqual((response["status"], response["incomplete_details"]), ("incomplete", {"reason": "max_output_tokens"}))
        events = named_events(self.send("2 Hello", max_output_tokens=12, stream=True).body)
        self.assertEqual(events[-1]["type"], "response.incomplete")

    def test_what_is_kept_belongs_to_its_key(self):
        response = self.response()
        path = f"/v1/responses/{response['id']}"
        other = {"Authorization": "Bearer second"}
        self.assertEqual(self.server.must(self.server.get(path)), response)
        self.assertEqual(self.server.get(path, headers=other).status, 404)
        refused = self.server.post("/v1/responses", {"input": "a", "previous_response_id": response["id"]}, headers=other)
        self.assertEqual((refused.status, refused.error["code"]), (400, "response_not_found"))
        self.assertEqual(self.server.request("DELETE", path, headers=other).status, 404)
        self.assertEqual(self.server.must(self.server.request("DELETE", path)),
                         {"id": response["id"], "object": "response", "deleted": True})
        self.assertEqual(self.server.get(path).status, 404)

    def test_what_is_not_to_be_kept_or_is_too_much_is_not(self):
        response = self.response(store=False)
        self.assertFalse(response["store"])
        self.assertEqual(self.server.get(f"/v1/responses/{response['id']}").status, 404)
        ids = [self.response()["id"] for _ in range(21)]
        self.assertEqual(self.server.get(f"/v1/responses/{ids[0]}").status, 404)
        self.assertEqual(self.server.get(f"/v1/responses/{ids[1]}").status, 200)

    def test_without_a_store(self):
        with Server("--max-stored-responses", "0", model=f"m={self.model}") as server:
            answer = server.post("/v1/responses", {"input": "0", "store": True})
            self.assertFalse(server.must(answer)["store"])
            self.assertEqual(answer.headers["x-nvllm-ignored"], "store")
            refused = server.post("/v1/responses", {"input": "0", "previous_response_id": "resp_1"})
            self.assertEqual((refused.status, refused.error["param"]), (400, "previous_response_id"))

    def test_errors_name_the_field(self):
        for fields, field in (({"input": []}, "input"), ({"input": [{"type": "computer_call"}]}, "input[0].type"),
                              ({"tools": [{"type": "web_search"}]}, "tools[0].type"), ({"background": True}, "background"),
                              ({"temperature": 9}, "temperature"), ({"max_output_tokens": 0}, "max_output_tokens")):
            answer = self.send(**fields)
            self.assertEqual((answer.status, answer.error["param"]), (400, field), answer.text)
        self.assertEqual(self.response("0 Hello", tools=[TOOL], tool_choice="none")["status"], "completed")


if __name__ == "__main__":
    unittest.main()
