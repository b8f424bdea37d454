// Bodies of /v1/messages as requests, or as faults that name a field.
#include "lib/server/anthropic/message_request.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "lib/chat/chat_message.h"

using namespace nvllm;
using namespace nvllm::server;
using namespace nvllm::server::anthropic;
using Json = nlohmann::ordered_json;

namespace {

Result<GenerationRequest> read(const std::string& fields) {
    return read_message_request(Json::parse("{\"max_tokens\":5" + fields + "}"), {}, {});
}

Result<GenerationRequest> read_with(const std::string& fields) {
    return read(R"(,"messages":[{"role":"user","content":"Hi"}])" + fields);
}

Conversation conversation_of(const Result<GenerationRequest>& request) {
    REQUIRE(request);
    return *std::get<ChatPrompt>(request->inputs[0].prompt);
}

std::string field_of(const Result<GenerationRequest>& request) {
    if (request) return "";
    CHECK(request.fault().kind == ErrorKind::bad_data);
    return request.fault().field;
}

}  // namespace

TEST_CASE("messages: a conversation with tools") {
    const Conversation chat = conversation_of(read(R"(,
        "system": [{"type": "text", "text": "Be short.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
          {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
          {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "x"}, {"type": "text", "text": "So"},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}},
            {"type": "tool_use", "id": "c2", "name": "g", "input": {}}]},
          {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
            {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "two"}]},
            {"type": "text", "text": "Go on"}]}])"));
    REQUIRE(chat.messages.size() == 6);
    CHECK(chat.messages[0].role == "system");
    CHECK(chat.messages[0].text() == "Be short.");
    CHECK(chat.messages[1].text() == "a\nb");
    CHECK(chat.messages[2].text() == "So");
    CHECK(chat.messages[2].reasoning_content == "Hm.");
    REQUIRE(chat.messages[2].tool_calls.size() == 2);
    CHECK(chat.messages[2].tool_calls[0].id == "c1");
    CHECK(chat.messages[2].tool_calls[0].arguments == Json{{"x", 1}});
    CHECK(chat.messages[3].role == "tool");
    CHECK(chat.messages[3].tool_call_id == "c1");
    CHECK(chat.messages[4].text() == "two");
    CHECK(chat.messages[5].text() == "Go on");
}

TEST_CASE("messages: fields in the words of a chat") {
    const auto good = read_with(
        R"(,"stop_sequences":["x"],"temperature":0.5,"top_k":3,"stream":true,"system":"s",
        "metadata":{"user_id":"me"},"thinking":{"type":"enabled","budget_tokens":2000},
        "tools":[{"name":"f","description":"d","input_schema":{"type":"object"}}],
        "tool_choice":{"type":"any","disable_parallel_tool_use":true})");
    const Conversation chat = conversation_of(good);
    const SamplingParams& sampling = good->inputs[0].sampling;
    CHECK(sampling.stop == std::vector<std::string>{"x"});
    CHECK(sampling.temperature == 0.5f);
    CHECK(sampling.top_k == 3);
    CHECK(sampling.max_tokens == 5);
    CHECK(good->stream);
    CHECK(good->tool_request.use == ToolUse::required);
    CHECK(!good->tool_request.several_calls);
    CHECK(good->ignored == std::vector<std::string>{"metadata", "thinking.budget_tokens"});
    CHECK(chat.variables["enable_thinking"] == true);
    CHECK(chat.variables["tools"][0]["function"]["parameters"] == Json{{"type", "object"}});
    CHECK(read_with(R"(,"tools":[{"name":"f"}],"tool_choice":{"type":"tool","name":"f"})")
              ->tool_request.use == ToolUse::required);
    CHECK(conversation_of(read_with(R"(,"thinking":{"type":"disabled"})"))
              .variables["enable_thinking"] == false);
}

TEST_CASE("messages: the answer goes on from a last message of the assistant") {
    const Conversation chat = conversation_of(read(
        R"(,"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"So"}])"));
    CHECK(chat.variables["continue_final_message"] == true);
    CHECK(chat.variables["add_generation_prompt"] == false);
}

TEST_CASE("messages: what is wrong is named") {
    CHECK(field_of(read_message_request(
              Json::parse(R"({"messages":[{"role":"user","content":"Hi"}]})"), {}, {})) ==
          "max_tokens");
    CHECK(field_of(read("")) == "messages");
    CHECK(field_of(read(R"(,"messages":[{"role":"tool","content":"x"}])")) == "messages[0].role");
    CHECK(field_of(read(R"(,"messages":[{"role":"user"}])")) == "messages[0].content");
    const auto block = [](const std::string& text, const char* role = "user") {
        return read(std::string(R"(,"messages":[{"role":")") + role + R"(","content":[)" + text +
                    "]}]");
    };
    CHECK(field_of(block(R"({"type":"image","source":{}})")) == "messages[0].content[0].type");
    CHECK(block(R"({"type":"image"})").fault().code == "unsupported_parameter");
    CHECK(field_of(block(R"({"type":"text"})")) == "messages[0].content[0].text");
    CHECK(field_of(block("5")) == "messages[0].content[0].type");
    CHECK(field_of(block(R"({"type":"tool_result"})")) == "messages[0].content[0].tool_use_id");
    CHECK(field_of(block(R"({"type":"tool_use","id":"a","name":"f"})")) ==
          "messages[0].content[0].type");
    CHECK(field_of(block(R"({"type":"tool_use","id":"a"})", "assistant")) ==
          "messages[0].content[0].name");
    CHECK(field_of(block(R"({"type":"tool_use","id":"a","name":"f","input":"x"})", "assistant")) ==
          "messages[0].content[0].input");
    CHECK(field_of(read_with(R"(,"system":5)")) == "system");
    CHECK(field_of(read_with(R"(,"tools":[{"type":"bash_20250124","name":"bash"}])")) ==
          "tools[0].type");
    CHECK(field_of(read_with(R"(,"tools":[{}])")) == "tools[0].name");
    CHECK(field_of(read_with(R"(,"tool_choice":"auto")")) == "tool_choice");
    CHECK(field_of(read_with(R"(,"thinking":{"type":"some"})")) == "thinking.type");
    CHECK(field_of(read_with(R"(,"stop_sequences":5)")) == "stop_sequences");
    CHECK(field_of(read_with(R"(,"mcp_servers":[{"name":"x"}])")) == "mcp_servers");
}

TEST_CASE("messages: what the answer is held to, under both names") {
    const std::string format = R"({"type":"json_schema","schema":{"type":"object"}})";
    for (const std::string& fields :
         {",\"output_config\":{\"format\":" + format + "}", ",\"output_format\":" + format}) {
        const auto request = read_with(fields);
        REQUIRE(request);
        CHECK(request->inputs[0].grammar.has_value());
        CHECK(request->ignored.empty());
    }
    CHECK(!read_with(R"(,"output_format":null)")->inputs[0].grammar);
    CHECK(field_of(read_with(",\"output_config\":{\"format\":" + format +
                             "},\"output_format\":" + format)) == "output_format");
    CHECK(field_of(read_with(R"(,"output_format":{"type":"json_object"})")) == "output_format");
}
