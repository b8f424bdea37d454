// The table of parameters against the parsers: each of its rows is read as it says, and nothing is
// read that has no row.
#include "lib/server/openai/parameters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "lib/chat/chat_message.h"
#include "lib/engine/options/request_json.h"
#include "lib/server/openai/embedding_request.h"
#include "lib/server/openai/score_request.h"

using namespace nvllm;
using namespace nvllm::server;
using Json = nlohmann::ordered_json;

namespace {

constexpr int32_t kVocabSize = 2048;
constexpr RequestLimits kStrict = {.is_strict = true};

constexpr CallKind kKinds[] = {CallKind::completion, CallKind::chat,   CallKind::embedding,
                               CallKind::score,      CallKind::rerank, CallKind::classify};
// Absent, they are missed.
const std::set<std::string> kPrompts = {"prompt", "messages", "input",    "text_1",
                                        "text_2", "query",    "documents"};

Json properties_of(CallKind kind) { return request_schema(kind, {})["properties"]; }

// A body in which `name` may have any value that is allowed for it.
Json body_for(CallKind kind, const std::string& name) {
    Json body = Json::object();
    if (kind == CallKind::completion) body["prompt"] = "a";
    if (kind == CallKind::embedding || kind == CallKind::classify) body["input"] = "a";
    if (kind == CallKind::rerank) body = {{"query", "a"}, {"documents", {"a"}}};
    if (kind == CallKind::score) {
        if (name != "queries" && name != "data_1") body["text_1"] = "a";
        if (name != "documents" && name != "data_2") body["text_2"] = "a";
    }
    if (kind == CallKind::chat)
        body["messages"] = Json::parse(R"([{"role":"user","content":"a"}])");
    if (name == "top_logprobs") body["logprobs"] = true;
    if (name == "stream_options") body["stream"] = true;
    if (name == "max_tokens" && kind == CallKind::completion) body["echo"] = true;
    return body;
}

struct Reading {
    std::optional<Fault> fault;
    std::vector<std::string> ignored;
    RequestInput input;
};

template <typename Request>
Reading reading_of(const Result<Request>& request) {
    if (!request) return {request.fault(), {}, {}};
    if constexpr (requires { request->texts; }) return {std::nullopt, request->texts.ignored, {}};
    if constexpr (requires { request->ignored; }) return {std::nullopt, request->ignored, {}};
}

Reading read(CallKind kind, const Json& body) {
    if (kind == CallKind::score) return reading_of(read_score_request(body, kStrict));
    if (kind == CallKind::rerank) return reading_of(read_rerank_request(body, kStrict));
    if (kind == CallKind::classify) return reading_of(read_classify_request(body, kStrict));
    if (kind == CallKind::embedding) {
        auto request = read_embedding_request(body, {}, kStrict);
        if (!request) return {request.fault(), {}, {}};
        return {std::nullopt, request->ignored, request->inputs[0]};
    }
    auto call = kind == CallKind::chat ? read_chat_request(body, {}, kStrict)
                                       : read_completion_request(body, {}, kStrict);
    if (!call) return {call.fault(), {}, {}};
    RequestInput input = call->inputs[0];
    return {input.sampling.check(kVocabSize), call->ignored, input};
}

Reading read_with(CallKind kind, const std::string& name, const Json& value) {
    Json body = body_for(kind, name);
    body[name] = value;
    return read(kind, body);
}

// The schema without "or null".
Json plain(const Json& schema) {
    if (schema.contains("anyOf") && schema["anyOf"].size() == 2 &&
        schema["anyOf"][1] == Json::parse(R"({"type":"null"})")) {
        return schema["anyOf"][0];
    }
    return schema;
}

Json good_value(const std::string& name, const Json& schema) {
    if (name == "messages") return body_for(CallKind::chat, name)["messages"];
    if (name == "prompt" || name == "input" || name == "stop") return "a";
    if (name == "forced_eos_token_id") return 3;
    if (name == "exponential_decay_length_penalty") return Json::parse("[3, 1.5]");
    if (name == "tool_choice") return "none";
    if (name == "response_format") return Json::parse(R"({"type":"text"})");
    if (name == "structured_outputs") return Json::parse(R"({"regex":"a"})");
    if (name == "guided_choice") return Json::parse(R"(["a"])");
    if (schema.contains("enum")) return schema["enum"][0];
    if (schema.contains("minimum")) return schema["minimum"];
    if (schema.contains("maximum")) return schema["maximum"];
    const std::string type = schema.value("type", "");
    if (type == "boolean") return true;
    if (type == "array") return schema.contains("minItems") ? Json{"a"} : Json::array();
    if (type == "object") return Json::object();
    return "a";
}

// Of a type that the schema does not have.
Json wrong_value(const Json& schema) {
    for (const Json& part : schema.value("anyOf", Json::array())) {
        if (part.value("type", "") == "integer") return "x";
    }
    const std::string type = schema.value("type", "");
    return type == "integer" || type == "number" || type == "array" || type == "object" ? Json("x")
                                                                                        : Json(5);
}

// Given to the template.
const std::set<std::string> kOfTemplates = {"documents", "add_generation_prompt",
                                            "continue_final_message", "reasoning_effort",
                                            "enable_thinking"};

void check_full(CallKind kind, const std::string& name, const Json& schema) {
    const Json value = good_value(name, schema);
    CAPTURE(value.dump());
    const Reading good = read_with(kind, name, value);
    if (good.fault) CAPTURE(good.fault->message);
    CHECK(!good.fault);
    CHECK(good.ignored.empty());
    if (kind == CallKind::chat && kOfTemplates.contains(name)) {
        CHECK(std::get<ChatPrompt>(good.input.prompt)->variables.contains(name));
    }
    const bool is_found_before = name == "model" && kind == CallKind::embedding;
    if (name == "documents" || is_found_before) return;
    CHECK(read_with(kind, name, wrong_value(schema)).fault);
}

Json after(const Json& end, int step) {
    if (end.is_number_float()) return end.get<double>() + 0.01 * step;
    const auto value = end.get<int64_t>();
    if (value == INT64_MAX) return static_cast<uint64_t>(INT64_MAX) + 1;
    if (value == INT64_MIN) return -9.3e18;
    return value + step;
}

}  // namespace

TEST_CASE("parameters: every field that requests are read by has a row") {
    for (const std::string_view name : request_fields()) {
        CAPTURE(name);
        CHECK((parameter_use(name, CallKind::completion) || parameter_use(name, CallKind::chat)));
    }
    CHECK(!parameter_use("no_such", CallKind::chat));
    CHECK(!parameter_use("echo", CallKind::chat));
}

TEST_CASE("parameters: every row is read as it says") {
    for (const CallKind kind : kKinds) {
        const Json properties = properties_of(kind);
        for (const auto& [name, described] : properties.items()) {
            CAPTURE(name);
            CAPTURE(static_cast<int>(kind));
            CHECK(!described["description"].get<std::string>().empty());
            const Json schema = plain(described);
            const bool is_missed =
                kPrompts.contains(name) || name == "queries" || name.starts_with("data_");
            CHECK(!(!is_missed && read_with(kind, name, nullptr).fault));
            if (described["x-nvllm-use"] == "full") {
                check_full(kind, name, schema);
            } else if (described["x-nvllm-use"] == "no effect") {
                CHECK(read_with(kind, name, "x").ignored == std::vector<std::string>{name});
            } else {
                const Reading refused = read_with(kind, name, Json::array({1}));
                REQUIRE(refused.fault);
                CHECK(refused.fault->code == "unsupported_parameter");
                CHECK(refused.fault->field == name);
                CHECK(!read_with(kind, name, Json::array()).fault);
            }
        }
    }
}

TEST_CASE("parameters: ranges are those that are kept") {
    int num_ends = 0;
    for (const CallKind kind : kKinds) {
        const Json properties = properties_of(kind);
        for (const auto& [name, described] : properties.items()) {
            const Json schema = plain(described);
            CAPTURE(name);
            for (const auto& [end, step, belongs] :
                 {std::tuple("minimum", -1, true), std::tuple("maximum", 1, true),
                  std::tuple("exclusiveMinimum", -1, false)}) {
                if (!schema.contains(end)) continue;
                CAPTURE(end);
                ++num_ends;
                CHECK(!read_with(kind, name, schema[end]).fault == belongs);
                // Vectors have fewer numbers, which their model knows.
                CHECK(read_with(kind, name, after(schema[end], step)).fault);
            }
        }
    }
    CHECK(num_ends > 60);
}

TEST_CASE("parameters: defaults are those of the library") {
    for (const CallKind kind : {CallKind::completion, CallKind::chat}) {
        const Reading silent = read(kind, body_for(kind, ""));
        const Json properties = properties_of(kind);
        for (const auto& [name, described] : properties.items()) {
            if (!described.contains("default")) continue;
            CAPTURE(name);
            const Reading said = read_with(kind, name, described["default"]);
            REQUIRE(!said.fault);
            const auto stats = [](const SamplingParams& params) {
                return std::tuple(params.n, params.temperature, params.top_k, params.top_p,
                                  params.min_p, params.typical_p, params.top_n_sigma,
                                  params.repetition_penalty, params.presence_penalty,
                                  params.frequency_penalty, params.min_tokens, params.ignore_eos,
                                  params.use_beam_search, params.length_penalty,
                                  params.early_stopping, params.skip_special_tokens,
                                  params.include_stop_in_output);
            };
            CHECK(stats(said.input.sampling) == stats(silent.input.sampling));
            CHECK(said.input.priority == silent.input.priority);
        }
    }
}

TEST_CASE("parameters: what is unknown is named, or refused with the nearest name") {
    Json body = Json::parse(R"({"tokens":[1],"user":"me","token":[1]})");
    CHECK(take_idle_fields(body, CallKind::detokenize, true).fault().message ==
          "unknown field 'user'");
    Json other = Json::parse(R"({"tokens":[1],"token":[1]})");
    CHECK(take_idle_fields(other, CallKind::detokenize, true).fault().message ==
          "unknown field 'token'; did you mean 'tokens'?");
    CHECK(*take_idle_fields(body, CallKind::detokenize, false) ==
          std::vector<std::string>{"user", "token"});
    CHECK(body == Json::parse(R"({"tokens":[1]})"));
}
