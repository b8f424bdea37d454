// Bodies of completions and chats as typed calls, or as faults that name a field.
#include "lib/server/openai/generation_request.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/chat/chat_message.h"

using namespace nvllm;
using namespace nvllm::server;
using Json = nlohmann::ordered_json;

namespace {

Result<GenerationRequest> completion(const std::string& body, const RequestLimits& limits = {}) {
    return read_completion_request(Json::parse(body), {}, limits);
}

Result<GenerationRequest> chat(const std::string& fields, const RequestLimits& limits = {}) {
    return read_chat_request(
        Json::parse(R"({"messages":[{"role":"user","content":"Hi"}])" + fields + "}"), {}, limits);
}

template <typename Call>
std::string field_of(const Result<Call>& call) {
    if (call) return "";
    CHECK(call.fault().kind == ErrorKind::bad_data);
    CHECK(!call.fault().message.empty());
    return call.fault().field;
}

Conversation conversation_of(const Result<GenerationRequest>& call) {
    return *std::get<ChatPrompt>(call->inputs[0].prompt);
}

using Ids = std::vector<int32_t>;

}  // namespace

TEST_CASE("completion calls: prompts in all their forms") {
    auto call = completion(R"({"prompt":"a"})");
    REQUIRE(call);
    CHECK(std::get<std::string>(call->inputs[0].prompt) == "a");
    CHECK(call->prompt_texts == std::vector<std::string>{"a"});
    call = completion(R"({"prompt":[1,2]})");
    REQUIRE(call);
    CHECK(std::get<Ids>(call->inputs[0].prompt) == Ids{1, 2});
    CHECK(call->prompt_texts == std::vector<std::string>{""});
    call = completion(R"({"prompt":["a","b"],"n":2,"best_of":3})");
    REQUIRE(call);
    CHECK(call->inputs.size() == 2);
    CHECK(std::get<std::string>(call->inputs[1].prompt) == "b");
    CHECK(call->num_choices() == 4);
    CHECK(call->num_sequences() == 6);
    call = completion(R"({"prompt":[[1],[2,3]]})");
    REQUIRE(call);
    CHECK(std::get<Ids>(call->inputs[1].prompt) == Ids{2, 3});
    for (const char* wrong :
         {"{}", R"({"prompt":null})", R"({"prompt":[]})", R"({"prompt":5})", R"({"prompt":{}})",
          R"({"prompt":["a",1]})", R"({"prompt":[1,"a"]})", R"({"prompt":[[1],"a"]})",
          R"({"prompt":[["a"]]})", R"({"prompt":[null]})", R"({"prompt":[1.5]})",
          R"({"prompt":[18446744073709551616]})"}) {
        CAPTURE(wrong);
        CHECK(field_of(completion(wrong)) == "prompt");
    }
    CHECK(field_of(completion(R"({"prompt":["a","b","c"]})", {.max_prompts = 2})) == "prompt");
}

TEST_CASE("completion calls: echo and logprobs") {
    auto call = completion(R"({"prompt":"a","logprobs":3})");
    CHECK(call->inputs[0].sampling.logprobs == 3);
    CHECK(!call->inputs[0].sampling.prompt_logprobs);
    call = completion(R"({"prompt":"a","logprobs":3,"echo":true})");
    CHECK(call->inputs[0].sampling.prompt_logprobs == 3);
    CHECK(!call->prompt_logprobs);
    call = completion(R"({"prompt":"a","echo":true})");
    CHECK(!call->inputs[0].sampling.prompt_logprobs);
    call = completion(R"({"prompt":"a","prompt_logprobs":1,"logprobs":2,"echo":true})");
    CHECK(call->prompt_logprobs);
    CHECK(call->inputs[0].sampling.prompt_logprobs == 1);
    for (const char* wrong : {"21", "-1", "true", "\"1\"", "1.5"}) {
        CHECK(field_of(completion(R"({"prompt":"a","logprobs":)" + std::string(wrong) + "}")) ==
              "logprobs");
    }
}

TEST_CASE("calls: as many logprobs as the server gives, or all") {
    const RequestLimits few{.max_logprobs = 3}, all{.max_logprobs = -1};
    for (const char* field : {"logprobs", "prompt_logprobs"}) {
        const auto with = [&](int count, const RequestLimits& limits) {
            return completion(fmt::format(R"({{"prompt":"a","{}":{}}})", field, count), limits);
        };
        CHECK(with(3, few));
        CHECK(field_of(with(4, few)) == field);
        CHECK(field_of(with(-1, few)) == field);
        CHECK(with(5000, all));
        CHECK(field_of(with(-2, all)) == field);
    }
    CHECK(chat(R"(,"logprobs":true,"top_logprobs":-1)", all)->inputs[0].sampling.logprobs ==
          INT32_MAX);
    CHECK(chat(R"(,"prompt_logprobs":-1)", all)->inputs[0].sampling.prompt_logprobs == INT32_MAX);
    CHECK(field_of(chat(R"(,"logprobs":true,"top_logprobs":4)", few)) == "top_logprobs");
}

TEST_CASE("completion calls: no tokens are wanted where the prompt comes back") {
    auto call = completion(R"({"prompt":"a","max_tokens":0,"echo":true})");
    REQUIRE(call);
    CHECK(call->is_prompt_only);
    CHECK(call->inputs[0].sampling.max_tokens == 1);
    call = completion(R"({"prompt":"a","max_tokens":5,"echo":true})");
    CHECK(!call->is_prompt_only);
    // Refused later, with the other ranges.
    CHECK(completion(R"({"prompt":"a","max_tokens":0})")->inputs[0].sampling.max_tokens == 0);
}

TEST_CASE("calls: how long an answer gets where nothing is said of it") {
    const auto most = [](const Result<GenerationRequest>& call) {
        return call->inputs[0].sampling.max_tokens;
    };
    CHECK(most(completion(R"({"prompt":"a"})")) == 16);
    CHECK(most(completion(R"({"prompt":"a","max_tokens":null})")) == 16);
    CHECK(most(completion(R"({"prompt":"a","max_completion_tokens":40})")) == 40);
    CHECK(most(completion(R"({"prompt":"a","min_tokens":20})")) == 20);
    CHECK(!most(chat("")));
    SamplingParams defaults;
    defaults.max_tokens = 100;  // of generation_config.json
    CHECK(most(read_completion_request(Json::parse(R"({"prompt":"a"})"), defaults, {})) == 100);
    CHECK(most(read_completion_request(Json::parse(R"({"prompt":"a","max_tokens":5})"), defaults,
                                       {})) == 5);
}

TEST_CASE("calls: only the end of a prompt") {
    CHECK(chat(R"(,"truncate_prompt_tokens":7)")->inputs[0].truncate_prompt_tokens == 7);
    CHECK(completion(R"({"prompt":"a","truncate_prompt_tokens":-1})")
              ->inputs[0]
              .truncate_prompt_tokens == -1);
    CHECK(!chat("")->inputs[0].truncate_prompt_tokens);
    for (const char* wrong : {"-2", "1.5", "\"1\"", "2147483648"}) {
        CHECK(field_of(chat(R"(,"truncate_prompt_tokens":)" + std::string(wrong))) ==
              "truncate_prompt_tokens");
    }
}

TEST_CASE("calls: a prompt of a wrong form is told which forms there are") {
    for (const char* wrong : {"[[[1]]]", "[[\"a\"]]", "[[1,\"a\"]]", "[[{}]]"}) {
        CAPTURE(wrong);
        const auto call = completion(R"({"prompt":)" + std::string(wrong) + "}");
        REQUIRE(!call);
        CHECK(call.fault().message ==
              "'prompt' must be a text, a list of token ids, or a list of either");
    }
}

TEST_CASE("calls: streaming and what belongs to it") {
    auto call = chat(
        R"(,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true,"include_obfuscation":false})");
    REQUIRE(call);
    CHECK((call->stream && call->include_usage && call->continuous_usage_stats));
    CHECK(!call->return_progress);
    CHECK(field_of(chat(R"(,"stream_options":{"include_usage":true})")) == "stream_options");
    CHECK(field_of(chat(R"(,"stream":true,"stream_options":[])")) == "stream_options");
    CHECK(field_of(chat(R"(,"stream":true,"stream_options":{"include_usage":1})")) ==
          "stream_options.include_usage");
    CHECK(field_of(chat(R"(,"stream":"yes")")) == "stream");
    CHECK(chat(R"(,"stream":null,"stream_options":null)"));
}

TEST_CASE("chat calls: logprobs are asked for by two fields") {
    CHECK(!chat("")->inputs[0].sampling.logprobs);
    CHECK(chat(R"(,"logprobs":true)")->inputs[0].sampling.logprobs == 0);
    CHECK(chat(R"(,"logprobs":true,"top_logprobs":5)")->inputs[0].sampling.logprobs == 5);
    CHECK(!chat(R"(,"logprobs":false)")->inputs[0].sampling.logprobs);
    CHECK(field_of(chat(R"(,"top_logprobs":5)")) == "top_logprobs");
    CHECK(field_of(chat(R"(,"logprobs":true,"top_logprobs":21)")) == "top_logprobs");
    CHECK(field_of(chat(R"(,"logprobs":5)")) == "logprobs");
}

TEST_CASE("chat calls: messages are checked") {
    CHECK(field_of(read_chat_request(Json::parse("{}"), {}, {})) == "messages");
    CHECK(field_of(read_chat_request(Json::parse(R"({"messages":[{}]})"), {}, {})) ==
          "messages[0].role");
    CHECK(chat("")->is_chat);
    CHECK(chat(R"(,"prompt":null)"));
    CHECK(!chat(R"(,"prompt":"a")"));
}

TEST_CASE("calls: what does nothing is named, what is unknown too, unless that is refused") {
    const auto call = chat(R"(,"user":"me","metadata":{},"no_such":1,"store":null)");
    REQUIRE(call);
    std::vector<std::string> names = call->ignored;
    std::ranges::sort(names);
    CHECK(names == std::vector<std::string>{"metadata", "no_such", "user"});
    const RequestLimits strict{.is_strict = true};
    CHECK(chat(R"(,"user":"me")", strict));
    const auto refused = chat(R"(,"temprature":1)", strict);
    CHECK(field_of(refused) == "temprature");
    CHECK(refused.fault().message.find("temperature") != std::string::npos);
}

TEST_CASE("calls: what is not built is refused, unless it says nothing") {
    for (const char* field : {"functions", "function_call", "guided_whitespace_pattern", "suffix",
                              "lora", "prompt_embeds"}) {
        CAPTURE(field);
        const auto with = [&](const char* value) {
            return chat(",\"" + std::string(field) + "\":" + value);
        };
        const auto refused = with("[1]");
        CHECK(field_of(refused) == field);
        CHECK(refused.fault().code == "unsupported_parameter");
        // And says why.
        CHECK(refused.fault().message.starts_with(fmt::format("'{}' is not supported: ", field)));
        for (const char* nothing : {"null", "\"\"", "[]", "{}", "false"}) CHECK(with(nothing));
    }
    CHECK(chat(R"(,"modalities":["text"])"));
    CHECK(field_of(chat(R"(,"modalities":["audio"])")) == "modalities");
}

TEST_CASE("calls: formats and tools") {
    CHECK(chat(R"(,"response_format":{"type":"text"})"));
    const auto held = chat(R"(,"response_format":{"type":"json_object"})");
    CHECK(held->inputs[0].grammar->kind == GrammarKind::json_object);
    CHECK(chat(R"(,"response_format":{"type":"sound"})").fault().code == "");
    CHECK(field_of(chat(R"(,"response_format":"text")")) == "response_format");
    CHECK(chat(R"(,"tools":[])"));
    CHECK(field_of(chat(R"(,"tools":"x")")) == "tools");
    CHECK(field_of(chat(R"(,"tools":[{},{},{}],"tool_choice":"none")", {.max_tools = 2})) ==
          "tools");
    CHECK(field_of(completion(R"({"prompt":"a","tools":[{}]})")) == "tools");
    CHECK(chat(R"(,"tool_choice":"auto")"));
    CHECK(field_of(chat(R"(,"tool_choice":"required")")) == "tool_choice");
}

TEST_CASE("chat calls: the template's variables, a field's own value above the others") {
    const auto call = chat(R"(,"reasoning_effort":"low","documents":[1],
        "tools":[{"type":"function","function":{"name":"f","n":1}}],"tool_choice":"none","chat_template_kwargs":{"enable_thinking":false,"documents":[2]})");
    REQUIRE(call);
    CHECK(call->ignored.empty());
    const Json variables = conversation_of(call).variables;
    CHECK(variables["reasoning_effort"] == "low");
    CHECK(variables["documents"] == Json::parse("[1]"));
    CHECK(variables["tools"] ==
          Json::parse(R"([{"type":"function","function":{"name":"f","n":1}}])"));
    CHECK(variables["enable_thinking"] == false);
    CHECK(field_of(chat(R"(,"reasoning_effort":5)")) == "reasoning_effort");
    CHECK(field_of(chat(R"(,"add_generation_prompt":"no")")) == "add_generation_prompt");
    for (const char* name : {"messages", "chat_template"}) {
        CHECK(field_of(chat(R"(,"chat_template_kwargs":{")" + std::string(name) + R"(":"x"})")) ==
              "chat_template_kwargs");
    }
}

TEST_CASE("chat calls: a template of the request only where the server trusts them") {
    const auto refused = chat(R"(,"chat_template":"x")");
    CHECK(field_of(refused) == "chat_template");
    CHECK(refused.fault().code == "unsupported_parameter");
    CHECK(refused.fault().message.find("--trust-request-chat-template") != std::string::npos);
    CHECK(!conversation_of(chat(R"(,"chat_template":"")")).chat_template);
    const RequestLimits trusting{.takes_chat_templates = true};
    CHECK(conversation_of(chat(R"(,"chat_template":"x")", trusting)).chat_template == "x");
    CHECK(field_of(chat(R"(,"chat_template":5)", trusting)) == "chat_template");
    CHECK(field_of(read_chat_prompt(Json::parse(R"({"messages":[{"role":"user","content":"a"}],
        "chat_template":"x"})"),
                                    {})) == "chat_template");
}

TEST_CASE("calls: the model's own settings hold where the client says nothing") {
    SamplingParams defaults;
    defaults.temperature = 0.7f;
    defaults.top_p = 0.95f;
    const Json body = Json::parse(R"({"prompt":"a","temperature":0.2,"top_p":null})");
    const auto call = read_completion_request(body, defaults, {});
    CHECK(call->inputs[0].sampling.temperature == 0.2f);
    CHECK(call->inputs[0].sampling.top_p == 0.95f);
}
