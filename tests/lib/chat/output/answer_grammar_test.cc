// Grammars of whole answers: where the thought stands before what is held to.
#include "lib/chat/output/answer_grammar.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

const GrammarSpec kSchema{GrammarKind::json_schema, R"({"type":"integer"})"};
const Json kSchemaFormat = {{"type", "json_schema"}, {"json_schema", {{"type", "integer"}}}};

Json format_of(const AnswerGrammarRequest& request, std::string_view prompt_end) {
    const auto spec = answer_grammar(request, prompt_end);
    REQUIRE(spec);
    CHECK(spec->kind == GrammarKind::structural_tag);
    return Json::parse(spec->text)["format"];
}

ToolGrammarRequest calls(ToolChoice choice) {
    return {.tool_format = "hermes", .tools = {{"f", ""}}, .choice = choice};
}

}  // namespace

TEST_CASE("answer grammars: the prompt's end says whether there is a thought") {
    const AnswerGrammarRequest request{.reasoning_format = "qwen3", .content = kSchema};
    const Json open = format_of(request, "<|im_start|>assistant\n<think>\n");
    REQUIRE(open["type"] == "sequence");
    CHECK(open["elements"][0] == Json::parse(R"({"type":"tag","begin":"",
        "content":{"type":"any_text"},"end":"</think>"})"));
    CHECK(open["elements"].back() == kSchemaFormat);
    CHECK(open["elements"].size() == 3);
    const Json unknown = format_of(request, "<|im_start|>assistant\n");
    CHECK(unknown["elements"][0]["type"] == "optional");
    CHECK(unknown["elements"][0]["content"]["elements"][0]["value"] == "<think>");
    CHECK(unknown["elements"].size() == 2);
    CHECK(format_of(request, "<think>\n\n</think>\n\n") == kSchemaFormat);
}

TEST_CASE("answer grammars: tags that are special tokens are written as tokens") {
    const AnswerGrammarRequest request{.reasoning_format = "mistral",
                                       .content = kSchema,
                                       .special_tokens = {"[THINK]", "[/THINK]"}};
    const Json parts = format_of(request, "[/INST][THINK]")["elements"];
    CHECK(parts[0] == Json{{"type", "any_tokens"}, {"exclude_tokens", {"[/THINK]"}}});
    CHECK(parts[1] == Json{{"type", "token"}, {"token", "[/THINK]"}});
}

TEST_CASE("answer grammars: harmony's answer stands in the last channel") {
    const AnswerGrammarRequest request{
        .reasoning_format = "openai_gptoss",
        .content = kSchema,
        .special_tokens = {"<|channel|>", "<|message|>", "<|end|>", "<|start|>"}};
    const Json parts = format_of(request, "<|start|>assistant")["elements"];
    CHECK(parts[0]["type"] == "optional");
    CHECK(parts[1] == Json{{"type", "token"}, {"token", "<|channel|>"}});
    CHECK(parts[2]["value"] == "final");
    CHECK(parts.back() == kSchemaFormat);
}

TEST_CASE("answer grammars: every kind of content") {
    const auto written = [](GrammarKind kind, const char* text) {
        return format_of({.content = GrammarSpec{kind, text}}, "");
    };
    CHECK(written(GrammarKind::json_object, "")["json_schema"] == Json{{"type", "object"}});
    CHECK(written(GrammarKind::regex, "a+") == Json{{"type", "regex"}, {"pattern", "a+"}});
    CHECK(written(GrammarKind::grammar, "root ::= \"a\"")["grammar"] == "root ::= \"a\"");
    const Json choice = written(GrammarKind::choice, R"(["a","b"])");
    CHECK(choice["type"] == "or");
    CHECK(choice["elements"][1] == Json{{"type", "const_string"}, {"value", "b"}});
    CHECK(written(GrammarKind::structural_tag,
                  R"({"type":"structural_tag","format":{"type":"any_text"}})") ==
          Json{{"type", "any_text"}});
    // What cannot be put behind a thought stays as it is.
    const GrammarSpec old{GrammarKind::structural_tag,
                          R"({"type":"structural_tag","triggers":[]})"};
    CHECK(answer_grammar({.reasoning_format = "qwen3", .content = old}, "<think>") == old);
}

TEST_CASE("answer grammars: calls, and calls or content") {
    const Json required = format_of({.calls = calls(ToolChoice::required)}, "");
    CHECK(required["elements"][0]["elements"][0]["value"] ==
          "<tool_call>\n{\"name\": \"f\", \"arguments\": ");
    CHECK(format_of({.calls = calls(ToolChoice::automatic)}, "")["type"] == "dispatch");
    const Json either = format_of({.calls = calls(ToolChoice::automatic), .content = kSchema}, "");
    CHECK(either["type"] == "or");
    CHECK(either["elements"][0] == kSchemaFormat);
    CHECK(either["elements"][1] == required);
    CHECK(!answer_grammar({.reasoning_format = "qwen3"}, "<think>"));
}

TEST_CASE("answer grammars: which calls are held from their beginning on") {
    const auto held = [](ToolChoice choice, std::optional<GrammarSpec> content,
                         const char* format = "hermes") {
        ToolGrammarRequest request = calls(choice);
        request.tool_format = format;
        return held_calls(AnswerGrammarRequest{.calls = request, .content = std::move(content)});
    };
    CHECK(held_calls(AnswerGrammarRequest{.content = kSchema}).begin.empty());
    const HeldCalls automatic = held(ToolChoice::automatic, {});
    CHECK(automatic.begin == "<tool_call>");
    CHECK_FALSE(automatic.only_at_start);
    CHECK(held(ToolChoice::required, {}).only_at_start);
    // Beside content that may have a marker in it, a call must begin the answer.
    const HeldCalls beside = held(ToolChoice::automatic, kSchema);
    CHECK(beside.begin == "<tool_call>");
    CHECK(beside.only_at_start);
    CHECK(held(ToolChoice::automatic, kSchema, "llama3_json").begin.empty());
    CHECK(held(ToolChoice::automatic, GrammarSpec{GrammarKind::regex, "a+"}).begin.empty());
    const HeldCalls message = held(ToolChoice::required, kSchema, "openai");
    CHECK(message.begin == "<|channel|>commentary to=functions.");
    CHECK(message.after_name == " <|constrain|>json<|message|>");
}

}  // namespace nvllm
