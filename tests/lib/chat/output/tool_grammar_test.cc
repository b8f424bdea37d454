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

const std::string kPlant = "fern, \"Höhe\" <b>2 m</b>\nor moss";

// Arguments of kSchema as xgrammar's styles write them.
std::string arguments_in(const std::string& style) {
    if (style == "qwen_xml")
        return "<parameter=plant>" + kPlant + "</parameter><parameter=litres>0.5</parameter>";
    if (style == "minimax_xml")
        return "<parameter name=\"plant\">" + kPlant +
               "</parameter><parameter name=\"litres\">0.5</parameter>";
    if (style == "glm_xml")
        return "<arg_key>plant</arg_key><arg_value>" + kPlant +
               "</arg_value><arg_key>litres</arg_key><arg_value>0.5</arg_value>";
    if (style == "deepseek_xml")
        return "<｜DSML｜parameter name=\"plant\" string=\"true\">" + kPlant +
               "</｜DSML｜parameter><｜DSML｜parameter name=\"litres\" string=\"false\">0.5"
               "</｜DSML｜parameter>";
    REQUIRE(style == "json");
    return "{\"plant\": " + Json(kPlant).dump() + ", \"litres\": 0.5}";
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

OutputParser parser_of(const std::string& format, HeldCalls held = {}) {
    auto parser = make_output_parser({format, ""}, {kTools, "<|start|>assistant", std::move(held)});
    REQUIRE(parser.ok());
    return std::move(*parser);
}

OutputDelta parsed(const std::string& format, const std::string& text) {
    OutputParser parser = parser_of(format);
    OutputDelta all = parser.push(text);
    all.merge(parser.finish());
    return all;
}

struct Pieces {
    OutputDelta merged;
    std::vector<size_t> num_of_call;  // pieces with arguments
    bool begins_alone = true;         // each call with its name alone
    bool is_cut = false;
};

// One byte at a time.
Pieces in_pieces(const std::string& format, const HeldCalls& held, std::string_view text) {
    OutputParser parser = parser_of(format, held);
    Pieces pieces;
    const auto add = [&](OutputDelta delta) {
        for (const ToolCallDelta& call : delta.tool_calls) {
            if (!call.name.empty()) pieces.begins_alone &= call.arguments.empty();
            pieces.num_of_call.resize(std::max(pieces.num_of_call.size(), call.index + 1));
            pieces.num_of_call[call.index] += !call.arguments.empty();
        }
        pieces.merged.merge(std::move(delta));
    };
    for (const char& byte : text) add(parser.push({&byte, 1}));
    add(parser.finish());
    pieces.is_cut = parser.in_call();
    return pieces;
}

// What a grammar holds is given in many pieces, which are what the whole is; where it is cut, what
// was given is how that begins.
void check_held(const ToolGrammarRequest& request, const std::string& text,
                const OutputDelta& whole) {
    const HeldCalls held = held_calls(request);
    const Pieces pieces = in_pieces(request.tool_format, held, text);
    CHECK(pieces.merged.content == whole.content);
    REQUIRE(pieces.merged.tool_calls.size() == whole.tool_calls.size());
    for (size_t i = 0; i < whole.tool_calls.size(); ++i) {
        CHECK(pieces.merged.tool_calls[i].arguments == whole.tool_calls[i].arguments);
        CHECK(pieces.num_of_call[i] > 20);
    }
    CHECK(pieces.begins_alone);
    CHECK_FALSE(pieces.is_cut);
    size_t num_cut = 0;
    for (size_t cut = 0; cut < text.size(); ++cut) {
        if ((text[cut] & 0xC0) == 0x80) continue;  // within a character
        const Pieces part = in_pieces(request.tool_format, held, text.substr(0, cut));
        INFO("cut: ", text.substr(0, cut));
        REQUIRE(part.merged.tool_calls.size() <= whole.tool_calls.size());
        for (size_t i = 0; i < part.merged.tool_calls.size(); ++i) {
            CHECK(part.merged.tool_calls[i].name == whole.tool_calls[i].name);
            CHECK(whole.tool_calls[i].arguments.starts_with(part.merged.tool_calls[i].arguments));
        }
        if (part.is_cut) CHECK(part.merged.content == whole.content);
        num_cut += part.is_cut;
    }
    CHECK(num_cut > 20);
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
        CHECK(Json::parse(call.arguments) == Json{{"plant", kPlant}, {"litres", 0.5}});
    }
    const bool automatic = request.choice == ToolChoice::automatic;
    CHECK(output.content.find('{') == std::string::npos);
    check_held(request, text, output);
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

TEST_CASE("calls that no grammar holds are given whole") {
    const std::string call = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}</tool_call>";
    const auto num_pieces = [&](const HeldCalls& held, const std::string& text) {
        const Pieces pieces = in_pieces("hermes", held, text);
        REQUIRE(pieces.merged.tool_calls.size() == 1);
        CHECK(pieces.merged.tool_calls[0].arguments == "{\"a\": 1}");
        return pieces.num_of_call[0];
    };
    ToolGrammarRequest request{"hermes", {{"f", ""}}};
    CHECK(num_pieces({}, call) == 1);
    CHECK(num_pieces(held_calls(request), call) == 8);
    CHECK(num_pieces(held_calls(request), "Well. " + call) == 8);
    request.choice = ToolChoice::required;
    CHECK(num_pieces(held_calls(request), " \n" + call) == 8);
    CHECK(num_pieces(held_calls(request), "Well. " + call) == 1);
    // Arguments may be something else than an object.
    for (const char* schema : {R"({"anyOf": [{"type": "object"}, {"type": "null"}]})",
                               R"({"type": "array"})", R"({"type": ["object", "null"]})"}) {
        request.tools[0].parameters = schema;
        CHECK(num_pieces(held_calls(request), call) == 1);
    }
    CHECK(held_calls(ToolGrammarRequest{"pythonic", {{"f", ""}}}).begin.empty());
    request.tools[0].parameters = R"({"properties": {"a": {}}})";
    CHECK(num_pieces(held_calls(request), call) == 8);
    const Json tag = Json::parse(*tool_structural_tag(request));
    CHECK(tag.dump().find(R"({"properties":{"a":{}},"type":"object"})") != std::string::npos);
}

TEST_CASE("a held call that breaks all the same is text, besides what was given of it") {
    const std::string text = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": !}} and so on";
    const HeldCalls held = held_calls(ToolGrammarRequest{"hermes", {{"f", ""}}});
    const Pieces pieces = in_pieces("hermes", held, text);
    REQUIRE(pieces.merged.tool_calls.size() == 1);
    CHECK(pieces.merged.tool_calls[0].arguments == "{\"a\": ");
    CHECK(pieces.merged.content == text);
    CHECK(pieces.is_cut);
}

TEST_CASE("calls that end a thought are not held: the grammar waits for the thought's tag") {
    const std::string section =
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
        "{\"a\": ";
    const HeldCalls held = held_calls(ToolGrammarRequest{"kimi_k2", {{"f", ""}}});
    const auto read = [&](const std::string& text) {
        auto parser = make_output_parser({"kimi_k2", "kimi_k2"}, {{}, "<think>", held});
        REQUIRE(parser.ok());
        OutputDelta all = parser->push(text);
        all.merge(parser->finish());
        return all;
    };
    CHECK(read("Hm.</think>" + section).tool_calls.size() == 1);
    const OutputDelta unheld = read("Hm." + section);
    CHECK(unheld.tool_calls.empty());
    CHECK(unheld.content == section);
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
