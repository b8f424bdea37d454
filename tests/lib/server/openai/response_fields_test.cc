// One list of fields gives the JSON and its schema: every type of field, and every answer.
#include "lib/server/openai/response_fields.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "lib/server/openai/response_schemas.h"
#include "lib/server/openai/status_response.h"

using namespace nvllm::server;
using Json = nlohmann::ordered_json;

namespace {

struct Inner {
    static constexpr const char* kName = "Inner";
    int32_t id = -5;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
    }
};

struct Everything {
    Constant<"thing"> object;
    std::string text = "a\"b";
    size_t count = 3;
    uint8_t byte = 255;
    bool flag = true;
    double number = 0.5;
    Logprob logprob{-1e9f};
    std::optional<std::string> nothing;
    std::optional<int64_t> something = 4;
    Maybe<std::string> left_out;
    Maybe<std::string> there = "x";
    Maybe<std::optional<int64_t>> there_and_null = std::optional<int64_t>();
    std::variant<int32_t, std::string> either = "y";
    std::vector<Inner> list = {{1}, {2}};
    Keyed<int64_t> map = {{"k\n", 1}, {"l", 2}};
    Written<Inner> written{R"({"id":7})"};
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("object", object);
        visit("text", text);
        visit("count", count);
        visit("byte", byte);
        visit("flag", flag);
        visit("number", number);
        visit("logprob", logprob);
        visit("nothing", nothing);
        visit("something", something);
        visit("left_out", left_out);
        visit("there", there);
        visit("there_and_null", there_and_null);
        visit("either", either);
        visit("list", list);
        visit("map", map);
        visit("written", written);
    }
};

struct Nothing {
    template <typename Visit>
    void fields(Visit&) const {}
};

// As much of JSON Schema as answers use. What is wrong, or nothing.
std::string complaint(const Json& value, const Json& schema, const Json& named);

bool is_of_type(const Json& value, const std::string& type) {
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    if (type == "integer") return value.is_number_integer();
    return type == "null" ? value.is_null() : value.is_number();
}

std::string complaint_of_object(const Json& value, const Json& schema, const Json& named) {
    for (const Json& name : schema.value("required", Json::array())) {
        if (!value.contains(name.get<std::string>())) return "no " + name.get<std::string>();
    }
    for (const auto& [name, part] : value.items()) {
        const Json properties = schema.value("properties", Json::object());
        const bool is_described = properties.contains(name);
        if (!is_described && !schema.contains("additionalProperties")) return name + " unknown";
        const Json& own = is_described ? properties[name] : schema["additionalProperties"];
        if (const std::string wrong = complaint(part, own, named); !wrong.empty()) {
            return name + ": " + wrong;
        }
    }
    return "";
}

std::string complaint(const Json& value, const Json& schema, const Json& named) {
    if (schema.contains("$ref")) {
        const std::string path = schema["$ref"];
        return complaint(value, named[path.substr(path.rfind('/') + 1)], named);
    }
    if (schema.contains("enum")) {
        const Json& allowed = schema["enum"];
        const bool is_one = std::find(allowed.begin(), allowed.end(), value) != allowed.end();
        return is_one ? "" : "none of the values";
    }
    if (schema.contains("anyOf")) {
        for (const Json& one : schema["anyOf"]) {
            if (complaint(value, one, named).empty()) return "";
        }
        return "none of the alternatives";
    }
    if (!is_of_type(value, schema["type"])) return "no " + schema["type"].get<std::string>();
    if (schema.contains("minimum") && value < schema["minimum"]) return "too small";
    if (schema.contains("maximum") && value > schema["maximum"]) return "too large";
    if (value.is_array()) {
        for (const Json& part : value) {
            if (const auto wrong = complaint(part, schema["items"], named); !wrong.empty()) {
                return wrong;
            }
        }
    }
    return value.is_object() ? complaint_of_object(value, schema, named) : "";
}

}  // namespace

TEST_CASE("answer fields: every type is written as it is, and described as what it can be") {
    const std::string text = json_of(Everything{});
    CHECK(text ==
          R"({"object":"thing","text":"a\"b","count":3,"byte":255,"flag":true,"number":0.5,)"
          R"("logprob":-9999,"nothing":null,"something":4,"there":"x","there_and_null":null,)"
          R"("either":"y","list":[{"id":1},{"id":2}],"map":{"k\n":1,"l":2},"written":{"id":7}})");
    const Json schema = object_schema<Everything>();
    const Json& properties = schema["properties"];
    CHECK(properties.size() == 16);
    CHECK(schema["required"].size() == 13);
    CHECK(properties["object"]["enum"] == Json{"thing"});
    CHECK(properties["count"]["minimum"] == 0);
    CHECK(properties["byte"]["maximum"] == 255);
    CHECK(properties["list"]["items"]["$ref"] == "#/components/schemas/Inner");
    CHECK(properties["written"]["$ref"] == "#/components/schemas/Inner");
    CHECK(properties["either"]["anyOf"].size() == 2);
    const Json named = {{"Inner", object_schema<Inner>()}};
    const Json value = Json::parse(text);
    CHECK(complaint(value, schema, named) == "");
    // The check sees what is wrong.
    for (const auto& [name, wrong] :
         {std::pair("text", Json(5)), std::pair("count", Json(-1)), std::pair("object", Json("x")),
          std::pair("either", Json(true)), std::pair("list", Json::parse(R"([{"id":"1"}])")),
          std::pair("map", Json::parse(R"({"k":-1})")), std::pair("no_such", Json(1))}) {
        CAPTURE(name);
        Json changed = value;
        changed[name] = wrong;
        CHECK(complaint(changed, schema, named) != "");
    }
    CHECK(json_of(Nothing{}) == "{}");
}

TEST_CASE("answer fields: answers are as the document says, full or empty") {
    const Json named = response_schemas();
    const auto check = [&](const auto& answer) {
        using Response = std::decay_t<decltype(answer)>;
        CAPTURE(Response::kName);
        CHECK(complaint(Json::parse(json_of(answer)), named[Response::kName], named) == "");
    };
    responses::ChatCompletion chat;
    check(chat);
    auto& choice = chat.beginning.choices.emplace_back();
    choice.logprobs.emplace().json = R"({"content":[],"refusal":null})";
    choice.finish_reason = "stop";
    chat.prompt_logprobs.emplace().json =
        R"([null,{"5":{"logprob":-1,"rank":1,"decoded_token":"a"}}])";
    for (const responses::StopReason& reason :
         {responses::StopReason(), responses::StopReason(7), responses::StopReason("END")}) {
        choice.stop_reason = reason;
        check(chat);
    }
    responses::CompletionChunk chunk;
    chunk.usage.emplace();
    chunk.prompt_progress.emplace();
    chunk.beginning.choices.emplace_back().token_ids = std::vector<int32_t>{1, 2};
    check(chunk);
    responses::Status status;
    check(status);
    status.engine.kv_cache.emplace();
    status.engine.worker.emplace();
    status.queue.emplace_back().state = "waiting";
    status.models.emplace_back();
    status.limits = {{"max-body", "16 MiB"}, {"timeout", std::nullopt}};
    check(status);
    check(responses::Embeddings{});
    check(responses::ModelList{});
    check(responses::Error{});
}
