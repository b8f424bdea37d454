// Structural tags: what a grammar lets a model write is what the format's parser reads.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "lib/chat/output/output_parser.h"
#include "lib/chat/output/tool_grammar.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

const char* const kSchema =
    R"({"type": "object", "properties": {"plant": {"type": "string"}, "litres": {"type": "number"}},
        "required": ["plant", "litres"]})";
const std::vector<OfferedTool> kTools = {{"water_plant", kSchema}, {"open.gate", ""}};

// Arguments of kSchema as xgrammar's styles write them.
std::string arguments_in(const std::string& style) {
    if (style == "qwen_xml")
        return "<parameter=plant>fern</parameter><parameter=litres>0.5</parameter>";
    if (style == "minimax_xml")
        return "<parameter name=\"plant\">fern</parameter><parameter "
               "name=\"litres\">0.5</parameter>";
    if (style == "glm_xml")
        return "<arg_key>plant</arg_key><arg_value>fern</arg_value><arg_key>litres</arg_key>"
               "<arg_value>0.5</arg_value>";
    if (style == "deepseek_xml")
        return "<｜DSML｜parameter name=\"plant\" string=\"true\">fern</｜DSML｜parameter>"
               "<｜DSML｜parameter name=\"litres\" string=\"false\">0.5</｜DSML｜parameter>";
    REQUIRE(style == "json");
    return R"({"plant": "fern", "litres": 0.5})";
}

// A text that the format allows: the first alternative, each repetition once.
std::string spelled(const Json& format) {
    const std::string type = format.at("type");
    if (type == "const_string") return format.at("value");
    if (type == "token") return format.at("token");
    if (type == "json_schema") return arguments_in(format.value("style", "json"));
    if (type == "regex") return "7";
    if (type == "or") return spelled(format.at("elements").at(0));
    if (type == "star") return spelled(format.at("content"));
    if (type == "optional") return "";
    if (type == "dispatch" || type == "token_dispatch") {
        const Json& rule = format.at("rules").at(0);
        return "Well. " + rule.at(0).get<std::string>() + spelled(rule.at(1));
    }
    REQUIRE(type == "sequence");
    std::string text;
    for (const Json& element : format.at("elements")) text += spelled(element);
    return text;
}

OutputDelta parsed(const std::string& format, const std::string& text) {
    auto parser = make_output_parser({format, ""}, {kTools, "<|start|>assistant"});
    REQUIRE(parser.ok());
    OutputDelta all = parser->push(text);
    all.merge(parser->finish());
    return all;
}

void check_calls(const ToolGrammarRequest& request, const std::string& tag) {
    const Json json = Json::parse(tag);
    REQUIRE(json.at("type") == "structural_tag");
    const std::string text = spelled(json.at("format"));
    const OutputDelta output = parsed(request.tool_format, text);
    INFO(request.tool_format, ": ", tag, "\n", text);
    const bool several =
        request.several_calls && text.find("water_plant") != text.rfind("water_plant");
    REQUIRE(output.tool_calls.size() == (several ? 2 : 1));
    for (const ToolCallDelta& call : output.tool_calls) {
        CHECK(call.name == "water_plant");
        CHECK(Json::parse(call.arguments) == Json{{"plant", "fern"}, {"litres", 0.5}});
    }
    const bool automatic = request.choice == ToolChoice::automatic;
    CHECK(output.content.find('{') == std::string::npos);
    CHECK((automatic ? output.content.starts_with("Well.") : output.content.empty()));
}

TEST_CASE("what the grammar of a format allows is read by its parser as calls") {
    int num_forms = 0;
    for (const OutputFormatRow& row : tool_format_rows()) {
        ToolGrammarRequest request;
        request.tool_format = row.name;
        request.tools = kTools;
        for (const bool tokens : {false, true}) {
            if (tokens) request.special_tokens = kept_special_tokens({std::string(row.name), ""});
            for (const ToolChoice choice : {ToolChoice::automatic, ToolChoice::required}) {
                for (const bool several : {false, true}) {
                    request.choice = choice;
                    request.several_calls = several;
                    const auto tag = tool_structural_tag(request);
                    if (!tag) continue;
                    check_calls(request, *tag);
                    ++num_forms;
                }
            }
        }
    }
    CHECK(num_forms > 150);
}

TEST_CASE("special tokens are named as tokens, and begin a call as such") {
    ToolGrammarRequest request{"kimi_k2",
                               {{"f", ""}},
                               ToolChoice::automatic,
                               true,
                               {"<|tool_calls_section_begin|>", "<|tool_call_begin|>"}};
    const Json format = Json::parse(*tool_structural_tag(request)).at("format");
    CHECK(format.at("type") == "token_dispatch");
    CHECK(format.at("rules").at(0).at(0) == "<|tool_calls_section_begin|>");
    const Json& first_call = format.at("rules").at(0).at(1).at("elements").at(0);
    CHECK(first_call.at("elements").at(0) ==
          Json{{"type", "token"}, {"token", "<|tool_call_begin|>"}});
    request.special_tokens = {};
    CHECK(Json::parse(*tool_structural_tag(request)).at("format").at("type") == "dispatch");
}

TEST_CASE("there is no structural tag without tools and for calls in Python") {
    CHECK_FALSE(tool_structural_tag({"hermes"}));
    CHECK_FALSE(tool_structural_tag({"pythonic", kTools}));
    CHECK_FALSE(tool_structural_tag({"", kTools}));
}

TEST_CASE("Mistral's named form is taken where the vocabulary has its token") {
    ToolGrammarRequest request{"mistral", kTools, ToolChoice::required};
    CHECK(spelled(Json::parse(*tool_structural_tag(request)).at("format")).find("[{") !=
          std::string::npos);
    request.special_tokens = {"[TOOL_CALLS]", "[ARGS]"};
    CHECK(spelled(Json::parse(*tool_structural_tag(request)).at("format"))
              .starts_with("[TOOL_CALLS]water_plant[ARGS]{"));
}

}  // namespace
}  // namespace nvllm
