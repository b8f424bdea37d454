// Messages as templates take them, and places of what is wrong with them.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "lib/server/generation_call.h"

using namespace nvllm;
using namespace nvllm::server;
using Json = nlohmann::ordered_json;

namespace {

Json read(const std::string& messages, const CallLimits& limits = {}) {
    auto checked = read_messages(Json::parse(messages), limits);
    REQUIRE(checked);
    return *checked;
}

// "place: message" of the fault.
std::string fault(const std::string& messages, const CallLimits& limits = {}) {
    const auto checked = read_messages(Json::parse(messages), limits);
    if (checked) return "";
    CHECK(checked.fault().kind == ErrorKind::bad_data);
    CHECK(checked.fault().message.starts_with(checked.fault().field));
    return checked.fault().field;
}

}  // namespace

TEST_CASE("messages: texts stay as they are, with whatever stands beside them") {
    const Json messages =
        read(R"([{"role":"system","content":""},{"role":"user","content":"Hi","name":"x"}])");
    CHECK(messages[0] == Json{{"role", "system"}, {"content", ""}});
    CHECK(messages[1]["name"] == "x");
}

TEST_CASE("messages: parts become one text, a line each") {
    const Json messages = read(
        R"([{"role":"user","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]},
            {"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},{"role":"user","content":[]}])");
    CHECK(messages[0]["content"] == "one\ntwo");
    CHECK(messages[1]["content"] == "no");
    CHECK(messages[2]["content"] == "");
}

TEST_CASE("messages: a developer is a system where the template knows none") {
    const std::string text = R"([{"role":"developer","content":"Be brief."}])";
    CHECK(read(text)[0]["role"] == "system");
    CHECK(read(text, {.knows_developer_role = true})[0]["role"] == "developer");
}

TEST_CASE("messages: an assistant that calls tools needs no text") {
    const std::string call =
        R"({"id":"1","type":"function","function":{"name":"f","arguments":"{}"}})";
    const Json messages = read(R"([{"role":"assistant","content":null,"tool_calls":[)" + call +
                               R"(]},{"role":"assistant","tool_calls":[)" + call +
                               R"(]},{"role":"tool","tool_call_id":"1","content":"5"}])");
    CHECK(messages[0]["content"].is_null());
    CHECK(messages[1]["content"].is_null());
    CHECK(messages[2]["content"] == "5");
}

TEST_CASE("messages: what is wrong is named by its place") {
    CHECK(fault("5") == "messages");
    CHECK(fault("[]") == "messages");
    CHECK(fault("{}") == "messages");
    CHECK(fault("[5]") == "messages[0]");
    CHECK(fault("[{}]") == "messages[0].role");
    CHECK(fault(R"([{"role":"robot","content":""}])") == "messages[0].role");
    CHECK(fault(R"([{"role":"user","content":""},{"role":"user"}])") == "messages[1].content");
    CHECK(fault(R"([{"role":"user","content":null}])") == "messages[0].content");
    CHECK(fault(R"([{"role":"user","content":5}])") == "messages[0].content");
    CHECK(fault(R"([{"role":"user","content":["x"]}])") == "messages[0].content[0]");
    CHECK(fault(R"([{"role":"user","content":[{"type":"image_url","image_url":{}}]}])") ==
          "messages[0].content[0].type");
    CHECK(fault(R"([{"role":"user","content":[{"type":"text","text":null}]}])") ==
          "messages[0].content[0].text");
    CHECK(fault(R"([{"role":"tool","content":"5"}])") == "messages[0].tool_call_id");
    CHECK(fault(R"([{"role":"assistant","content":"","tool_calls":[{"function":{}}]}])") ==
          "messages[0].tool_calls[0]");
    CHECK(fault(R"([{"role":"assistant","content":null,"tool_calls":[]}])") ==
          "messages[0].content");
}

TEST_CASE("messages: no more than the limit") {
    const std::string one = R"({"role":"user","content":""})";
    CHECK(read("[" + one + "," + one + "]", {.max_messages = 2}).size() == 2);
    CHECK(fault("[" + one + "," + one + "," + one + "]", {.max_messages = 2}) == "messages");
}
