// Bodies of /v1/responses as requests, or as faults that name a field.
#include "lib/server/responses/response_request.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "lib/chat/chat_message.h"

using namespace nvllm;
using namespace nvllm::server;
using Json = nlohmann::ordered_json;

namespace {

Result<ResponseRequest> read(const std::string& body, const Json& earlier = nullptr) {
    return read_response_request(Json::parse(body), earlier, {}, {});
}

Conversation conversation_of(const Result<ResponseRequest>& request) {
    REQUIRE(request);
    return *std::get<ChatPrompt>(request->generation.inputs[0].prompt);
}

std::string field_of(const Result<ResponseRequest>& request) {
    if (request) return "";
    CHECK(request.fault().kind == ErrorKind::bad_data);
    return request.fault().field;
}

}  // namespace

TEST_CASE("responses: a text, instructions and what came before") {
    const Json earlier =
        Json::parse(R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])");
    const auto request =
        read(R"({"input":"c","instructions":"Be short.","previous_response_id":"resp_1",
                 "max_output_tokens":9,"metadata":{"k":"v"},"store":false,"user":"me"})",
             earlier);
    const Conversation chat = conversation_of(request);
    REQUIRE(chat.messages.size() == 4);
    CHECK(chat.messages[0].role == "system");
    CHECK(chat.messages[0].text() == "Be short.");
    CHECK(chat.messages[3].text() == "c");
    CHECK(request->generation.inputs[0].sampling.max_tokens == 9);
    CHECK(request->generation.ignored == std::vector<std::string>{"user"});
    CHECK(request->settings.previous_id == "resp_1");
    CHECK(!request->settings.is_stored);
    CHECK(request->settings.metadata == R"({"k":"v"})");
    CHECK(request->settings.max_output_tokens == 9);
    // The next one brings its own instructions.
    CHECK(Json::parse(request->settings.messages).size() == 3);
}

TEST_CASE("responses: items of one answer become one message") {
    const Conversation chat = conversation_of(read(R"({"input":[
        {"role":"developer","content":"d"},
        {"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]},
        {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]},
        {"type":"message","role":"assistant","content":[{"type":"output_text","text":"So","annotations":[]}]},
        {"type":"function_call","call_id":"c1","name":"f","arguments":"{\"x\":1}"},
        {"type":"function_call","call_id":"c2","name":"g","arguments":"{}"},
        {"type":"function_call_output","call_id":"c1","output":"one"},
        {"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"two"}]},
        {"type":"function_call","call_id":"c3","name":"f","arguments":"{}"}]})"));
    REQUIRE(chat.messages.size() == 6);
    const ChatMessage& answer = chat.messages[2];
    CHECK(answer.role == "assistant");
    CHECK(answer.text() == "So");
    CHECK(answer.reasoning_content == "Hm.");
    REQUIRE(answer.tool_calls.size() == 2);
    CHECK(answer.tool_calls[0].arguments == Json{{"x", 1}});
    CHECK(chat.messages[3].tool_call_id == "c1");
    CHECK(chat.messages[4].text() == "two");
    CHECK(chat.messages[5].tool_calls.size() == 1);
}

TEST_CASE("responses: tools, effort and formats in the words of a chat") {
    const auto request = read(R"({"input":"a","tools":[{"type":"function","name":"f",
        "parameters":{"type":"object"},"strict":true}],"tool_choice":{"type":"function","name":"f"},
        "parallel_tool_calls":false,"reasoning":{"effort":"low","summary":"auto"},
        "text":{"format":{"type":"text"}}})");
    const Conversation chat = conversation_of(request);
    CHECK(request->generation.tool_request.use == ToolUse::required);
    CHECK(request->generation.tool_request.is_strict);
    CHECK(!request->settings.parallel_tool_calls);
    CHECK(chat.variables["reasoning_effort"] == "low");
    CHECK(chat.variables["tools"][0]["function"]["name"] == "f");
    CHECK(request->generation.ignored == std::vector<std::string>{"reasoning.summary"});
}

TEST_CASE("responses: what is taken and changes nothing is named") {
    const auto request = read(R"({"input":"a","truncation":"auto"})");
    REQUIRE(request);
    CHECK(request->generation.ignored == std::vector<std::string>{"truncation"});
    CHECK(read(R"({"input":"a","truncation":"disabled"})")->generation.ignored.empty());
}

TEST_CASE("responses: what is wrong is named") {
    CHECK(field_of(read("{}")) == "input");
    CHECK(field_of(read(R"({"input":[]})")) == "input");
    CHECK(field_of(read(R"({"input":[{"type":"web_search_call"}]})")) == "input[0].type");
    CHECK(field_of(read(R"({"input":[{"role":"user","content":[{"type":"input_image"}]}]})")) ==
          "input[0].content[0].type");
    CHECK(field_of(read(R"({"input":[{"type":"function_call","call_id":"a","name":"f"}]})")) ==
          "input[0].arguments");
    CHECK(field_of(read(R"({"input":"a","tools":[{"type":"web_search"}]})")) == "tools[0].type");
    CHECK(field_of(read(R"({"input":"a","background":true})")) == "background");
    CHECK(field_of(read(R"({"input":"a","truncation":"all"})")) == "truncation");
    CHECK(field_of(read(R"({"input":"a","store":1})")) == "store");
    CHECK(field_of(read(R"({"input":"a","max_output_tokens":"x"})")) == "max_output_tokens");
    CHECK(field_of(read(R"({"input":"a","conversation":"c"})")) == "conversation");
    CHECK(field_of(read(R"({"input":"a","text":{"format":{"type":"x"}}})")) == "text.format.type");
}
