"""The document at /openapi.json: valid as OpenAPI 3.1, and its schemas say of requests and answers what the server does.

Requests are those of the shared conformance cases and the ends of every parameter's range (test_serve_parameters.py): what the
server answers must fit the schema, and so must the answer; what it refuses with 400 must not fit, but for what a schema
cannot say. Run by hand with a Python that has openapi-spec-validator and jsonschema; see README.md beside this file.
"""

import json
import pathlib
import sys

import jsonschema
import openapi_spec_validator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "end_to_end"))

from serve_testing import Server  # noqa: E402
from test_serve_conformance import ANY_TOKEN, KEY, MODEL, Conformance, filled, read_cases  # noqa: E402
from test_serve_parameters import CHAT, COMPLETIONS, MESSAGES, Parameters  # noqa: E402

# Refused for what a model's vocabulary and context are.
OF_A_MODEL = {"prompt_id_out_of_vocabulary", "prompt_too_long", "chat_too_long_stream", "embedding_too_long"}
# Of the model that test_serve_parameters.py asks.
VOCABULARY = 2048


class Document:
    def __init__(self, server):
        self.json = server.get("/openapi.json").json()
        self.components = {"components": self.json["components"]}

    def validator(self, schema):
        return jsonschema.Draft202012Validator({**self.components, **schema})

    def operation(self, path, method="post"):
        path = "/v1/models/{name}" if path.startswith("/v1/models/") else path
        return self.json["paths"].get(path, {}).get(method)

    def request_fits(self, path, body):
        content = self.operation(path)["requestBody"]["content"]["application/json"]
        return self.validator(content["schema"]).is_valid(body)

    def check_answer(self, path, method, answer):
        """Raises jsonschema.ValidationError for an answer that is not as described; how many values were looked at."""
        responses = self.operation(path, method)["responses"]
        status = str(answer.status)
        described = responses.get(status) or responses[f"{status[0]}XX"]
        kind = answer.headers["Content-Type"].split(";")[0]
        schema = described["content"][kind]["schema"]
        values = [answer.json()] if kind == "application/json" else [answer.text]
        if kind == "text/event-stream":
            values = [event if event == "[DONE]" else json.loads(event) for event in answer.events()]
        for value in values:
            self.validator(schema).validate(value)
        return len(values)


def is_beyond_schemas(fields):
    """Whether a schema cannot tell that a value is refused: where it depends on the model, on bytes, or on another value."""
    def numbers(value):
        if isinstance(value, dict):
            return [number for key, part in value.items() for number in ([int(key)] if key.isdigit() else []) + numbers(part)]
        if isinstance(value, list):
            return [number for part in value for number in numbers(part)]
        return [value] if isinstance(value, int) else []

    name, value = next(reversed(fields.items()))
    is_of_ids = name in ("stop_token_ids", "allowed_token_ids", "logit_bias", "prompt")
    has_no_such_token = is_of_ids and any(number >= VOCABULARY for number in numbers(value))
    has_too_many_ids = name == "allowed_token_ids" and len(value) > VOCABULARY
    stops = [value] if isinstance(value, str) else value
    is_long_in_bytes = name == "stop" and all(isinstance(stop, str) for stop in stops) and (
        max(len(stop.encode()) for stop in stops) > 4096 or sum(len(stop.encode()) for stop in stops) > 16384)
    is_long_in_tokens = name == "bad_words" and isinstance(value, list) and any(isinstance(word, str) and len(word) > 256 for word in value)
    is_compared = name == "min_tokens" and isinstance(value, int) and value > fields["max_tokens"]
    return is_compared or has_no_such_token or has_too_many_ids or is_long_in_bytes or is_long_in_tokens


def check_parameters(document):
    num_good = num_refused = num_beyond = 0
    for path, fields, name, is_good, _ in Parameters().parameter_cases():
        base = {"prompt": "a"} if path == COMPLETIONS else {"messages": MESSAGES}
        body = {**base, "max_tokens": 1, **fields}
        fits = document.request_fits(path, body)
        if is_good and not fits:
            raise SystemExit(f"the schema of {path} refuses what the server takes: {json.dumps(body)[:200]}")
        if not is_good and fits:
            if not is_beyond_schemas(fields):
                raise SystemExit(f"the schema of {path} takes what the server refuses: {json.dumps(body)[:200]}")
            num_beyond += 1
        num_good += is_good
        num_refused += not is_good
    print(f"parameters: {num_good} good values fit, {num_refused - num_beyond} of {num_refused} wrong ones do not; "
          f"{num_beyond} are beyond schemas")


def check_cases(document, server):
    first = server.complete(max_tokens=1, return_token_ids=True)["choices"][0]["token_ids"][0]
    values = {"$MODEL": str(MODEL), "$KEY": KEY, "$KEY_WITHOUT_LAST_CHARACTER": KEY[:-1], "$FIRST_GREEDY_TOKEN": first,
              "$LONGER_THAN_CONTEXT": "Once upon a time " * 512, "$ANY_TOKEN": ANY_TOKEN}
    counts = {"bodies that were answered": 0, "bodies that were refused": 0, "of these only by the model": 0, "answers": 0}
    for case in read_cases():
        case = filled(case, values)
        method, path, body = case["method"].lower(), case["path"].split("?")[0], case.get("body")
        if document.operation(path, method) is None or "raw_body" in case or case.get("headers"):
            continue
        answer = server.request(case["method"], case["path"], body)
        counts["answers"] += document.check_answer(path, method, answer)
        if body is None:
            continue
        fits = document.request_fits(path, body)
        if answer.status == 200:
            counts["bodies that were answered"] += 1
            if not fits:
                raise SystemExit(f"{case['id']}: the schema refuses what the server answers")
        elif answer.status == 400:
            counts["bodies that were refused"] += 1
            counts["of these only by the model"] += fits
            if fits and case["id"] not in OF_A_MODEL:
                raise SystemExit(f"{case['id']}: the schema takes what the server refuses: {answer.error['message']}")
    print("conformance: " + ", ".join(f"{count} {name}" for name, count in counts.items()))


def check_other_answers(document, server):
    for path in ("/", "/live", "/ready", "/health", "/version", "/openapi.json", "/metrics", "/nvllm/status", "/v1/models",
                 "/tokenizer_info", f"/v1/models/{server.get('/v1/models').json()['data'][0]['id']}"):
        if path.startswith("/v1/models/"):
            path = "/v1/models/" + path.removeprefix("/v1/models/").replace("/", "%2F")
        document.check_answer(path, "get", server.get(path))
    for kind, more in ((COMPLETIONS, {"prompt": "Once", "logprobs": 2, "echo": True}), (CHAT, {"messages": MESSAGES, "logprobs": True, "top_logprobs": 2})):
        body = {**more, "max_tokens": 4, "return_token_ids": True, "prompt_logprobs": 1, "stream_options": {"include_usage": True}}
        answer = server.post(kind, {**body, "stream": True, "return_progress": True})
        print(f"{kind}: {document.check_answer(kind, 'post', answer)} events as described")


def main():
    template = Conformance.arguments
    with Server(*template, model=MODEL) as server:
        document = Document(server)
        openapi_spec_validator.validate(document.json)
        schemas, paths = document.json["components"]["schemas"], document.json["paths"]
        for schema in schemas.values():
            jsonschema.Draft202012Validator.check_schema(schema)
        print(f"valid OpenAPI {document.json['openapi']}: {len(paths)} paths, {len(schemas)} schemas, "
              f"{len(document.json['x-nvllm-limits'])} limits, {len(json.dumps(document.json))} bytes")
        check_cases(document, server)
        check_other_answers(document, server)
        check_parameters(document)
        server.check()


if __name__ == "__main__":
    main()
