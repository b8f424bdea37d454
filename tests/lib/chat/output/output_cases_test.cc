// Texts of every format, whole and cut everywhere: our own table, and the shared one.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "lib/base/utf8.h"
#include "lib/chat/output/output_parser.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Json> lines_of(const std::filesystem::path& path) {
    std::ifstream file(path);
    REQUIRE(file.good());
    std::vector<Json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
    return lines;
}

Json json_file(const std::filesystem::path& path) {
    std::ifstream file(path);
    REQUIRE(file.good());
    return Json::parse(file);
}

struct Case {
    std::string name;
    std::string text;
    OutputFormat format;
    OutputContext context;
    std::vector<Json> expected;
    bool broken = false;
};

Case read_case(const Json& row, const Json& tools) {
    Case result;
    result.text = row.at("text").get<std::string>();
    result.format.tools = row.value("format", "");
    result.context.prompt_end = row.value("prompt_end", "");
    result.context.tools = *read_offered_tools(tools);
    result.broken = row.value("broken", false);
    return result;
}

OutputDelta merged(const Case& test, const std::vector<std::string_view>& pieces) {
    auto parser = make_output_parser(test.format, test.context);
    REQUIRE(parser.ok());
    OutputDelta all;
    for (const std::string_view piece : pieces) {
        OutputDelta delta = parser->push(piece);
        REQUIRE(utf8::is_valid(delta.content));
        REQUIRE(utf8::is_valid(delta.reasoning));
        all.merge(std::move(delta));
    }
    all.merge(parser->finish());
    return all;
}

std::vector<std::string_view> bytes_of(std::string_view text) {
    std::vector<std::string_view> pieces;
    for (size_t i = 0; i < text.size(); ++i) pieces.push_back(text.substr(i, 1));
    return pieces;
}

std::vector<std::string_view> random_pieces(std::string_view text, std::mt19937& random) {
    std::vector<std::string_view> pieces;
    for (size_t at = 0; at < text.size();) {
        pieces.push_back(text.substr(at, 1 + random() % 9));
        at += pieces.back().size();
    }
    return pieces;
}

bool same(const OutputDelta& a, const OutputDelta& b) {
    if (a.content != b.content || a.reasoning != b.reasoning) return false;
    if (a.tool_calls.size() != b.tool_calls.size()) return false;
    for (size_t i = 0; i < a.tool_calls.size(); ++i) {
        const ToolCallDelta& x = a.tool_calls[i];
        const ToolCallDelta& y = b.tool_calls[i];
        if (x.name != y.name || x.arguments != y.arguments || x.id != y.id || x.index != y.index)
            return false;
    }
    return true;
}

std::string trimmed_text(const Json& text) {
    const std::string value = text.is_null() ? "" : text.get<std::string>();
    const size_t begin = value.find_first_not_of(" \n\t\r");
    return begin == std::string::npos
               ? ""
               : value.substr(begin, value.find_last_not_of(" \n\t\r") + 1 - begin);
}

// As the shared table's README compares: white space at both ends and the order of keys are free.
bool is_expected(const Json& expected, const OutputDelta& output, bool exact) {
    const auto equal = [exact](const Json& wanted, const std::string& got) {
        if (exact) return (wanted.is_null() ? "" : wanted.get<std::string>()) == got;
        return trimmed_text(wanted) == trimmed_text(got);
    };
    if (!expected.value("content_free", false) && !equal(expected.at("content"), output.content))
        return false;
    if (expected.contains("reasoning") && !equal(expected.at("reasoning"), output.reasoning))
        return false;
    const Json& calls = expected.at("tool_calls");
    if (calls.size() != output.tool_calls.size()) return false;
    for (size_t i = 0; i < calls.size(); ++i) {
        const auto value = nlohmann::json::parse(output.tool_calls[i].arguments);
        if (calls[i].at("name") != output.tool_calls[i].name) return false;
        if (nlohmann::json(calls[i].at("value")) != value) return false;
    }
    return true;
}

std::string told(const OutputDelta& output) {
    Json calls = Json::array();
    for (const auto& call : output.tool_calls) calls.push_back({call.name, call.arguments});
    return Json{{"reasoning", output.reasoning}, {"content", output.content}, {"calls", calls}}
        .dump();
}

// The case with its calls held, as a grammar does where they turn out whole.
Case with_held_calls(const Case& test) {
    auto parser = make_output_parser(test.format, test.context);
    REQUIRE(parser.ok());
    parser->push(test.text);
    parser->finish();
    Case held = test;
    held.context.held.positions = parser->call_positions();
    return held;
}

void check_held(const Case& test, OutputDelta whole, std::mt19937& random) {
    const Case held = with_held_calls(test);
    // A call that was begun has no place for an id that follows its name.
    OutputDelta read = merged(held, {held.text});
    for (OutputDelta* output : {&read, &whole})
        for (ToolCallDelta& call : output->tool_calls) call.id.clear();
    INFO(test.name, ": held ", told(read));
    CHECK(same(whole, read));
    const OutputDelta first = merged(held, {held.text});
    CHECK(same(first, merged(held, bytes_of(held.text))));
    for (int i = 0; i < 4; ++i) CHECK(same(first, merged(held, random_pieces(held.text, random))));
    // What was given of a call that is cut does not depend on the pieces either.
    for (size_t cut = 0; cut < held.text.size(); cut += 3) {
        Case shorter = held;
        shorter.text.resize(cut);
        shorter.text.resize(cut - utf8::incomplete_suffix(shorter.text));
        const OutputDelta rest = merged(shorter, {shorter.text});
        INFO("cut after ", shorter.text, ": ", told(rest));
        CHECK(same(rest, merged(shorter, bytes_of(shorter.text))));
    }
}

void check_cuts(const Case& test, const OutputDelta& whole, std::mt19937& random) {
    check_held(test, whole, random);
    INFO(test.name, ": whole ", told(whole));
    CHECK(same(whole, merged(test, bytes_of(test.text))));
    for (int i = 0; i < 4; ++i) CHECK(same(whole, merged(test, random_pieces(test.text, random))));
    for (size_t cut = 0; cut <= test.text.size(); cut += 7) {
        const std::string_view text = test.text;
        CHECK(same(whole, merged(test, {text.substr(0, cut), text.substr(cut)})));
    }
}

TEST_CASE("every text of the table is split as expected, whole and cut everywhere") {
    const auto folder = test::source_path("tests/fixtures/output");
    const Json tools = json_file(folder / "tools.json");
    std::mt19937 random(7);
    std::map<std::string, int> num_cases;
    for (const Json& row : lines_of(folder / "cases.jsonl")) {
        Case test = read_case(row, tools);
        test.name = test.format.tools + ": " + row.at("what").get<std::string>();
        test.format.reasoning = row.value("reasoning_format", "");
        const OutputDelta whole = merged(test, {test.text});
        INFO(test.name, ": ", told(whole));
        CHECK(is_expected(row.at("expected"), whole, false));
        check_cuts(test, whole, random);
        ++num_cases[test.format.tools];
        ++num_cases["reasoning " + test.format.reasoning];
    }
    for (const auto& row : tool_format_rows()) {
        if (row.alias_of.empty()) CHECK_MESSAGE(num_cases[std::string(row.name)] > 2, row.name);
    }
}

TEST_CASE("every text of the shared tables is split as expected, whole and cut everywhere") {
    const auto folder = test::shared_data("tools");
    if (folder.empty()) return;
    const Json tools = json_file(folder / "tools.json");
    std::mt19937 random(11);
    int num_cases = 0;
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
        if (file.path().extension() != ".jsonl") continue;
        for (const Json& row : lines_of(file.path())) {
            Json offered = Json::array();
            for (const Json& name : row.value("tools", Json::array()))
                offered.push_back(tools.at(name.get<std::string>()));
            Case test = read_case(row, offered);
            test.name = row.at("id").get<std::string>();
            test.format.reasoning = row.value("reasoning", "");
            const OutputDelta whole = merged(test, {test.text});
            INFO(test.name, ": ", told(whole));
            bool found = !row.contains("expected");
            for (const Json& expected : row.value("expected", Json::array()))
                found = found || is_expected(expected, whole, false);
            CHECK(found);
            check_cuts(test, whole, random);
            ++num_cases;
        }
    }
    CHECK(num_cases > 400);
}

TEST_CASE("arguments that are JSON are given byte for byte") {
    Case test;
    test.format.tools = "hermes";
    test.text =
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\" :1.10,\n\"b\": \"\\u00e9\", \"c\":[ "
        "]}}</tool_call>";
    const OutputDelta output = merged(test, {test.text});
    REQUIRE(output.tool_calls.size() == 1);
    CHECK(output.tool_calls[0].arguments == "{\"a\" :1.10,\n\"b\": \"\\u00e9\", \"c\":[ ]}");
}

TEST_CASE("content is given as it comes, and held back only where a marker may begin") {
    auto parser = make_output_parser({"hermes", ""}, {});
    REQUIRE(parser.ok());
    CHECK(parser->push("One").content == "One");
    CHECK(parser->push(" <").content == "");
    CHECK(parser->push("tool").content == "");
    CHECK(parser->push("s>").content == " <tools>");
    CHECK(parser->push("\xF0\x9F").content == "");
    CHECK(parser->push("\x98\x80").content == "\xF0\x9F\x98\x80");
    CHECK(parser->finish().empty());
}

TEST_CASE("the parser says whether it is in the reasoning") {
    auto parser = make_output_parser({"", "qwen3"}, {{}, "<think>\n"});
    REQUIRE(parser.ok());
    CHECK(parser->in_reasoning());
    CHECK(parser->push("Hm.").reasoning == "Hm.");
    CHECK(parser->push("</think>Yes.").content == "Yes.");
    CHECK_FALSE(parser->in_reasoning());
}

TEST_CASE("an unknown format is a fault that names those there are") {
    const auto tools = make_output_parser({"qwen9", ""}, {});
    REQUIRE_FALSE(tools.ok());
    CHECK(tools.fault().message.find("'qwen9'") != std::string::npos);
    CHECK(tools.fault().message.find("kimi_k2") != std::string::npos);
    CHECK_FALSE(make_output_parser({"", "deepseek"}, {}).ok());
}

TEST_CASE("tools are read in every form that requests have") {
    const auto read = [](const char* text) { return read_offered_tools(Json::parse(text)); };
    const auto tools = read(
        R"(["a", {"type": "function", "function": {"name": "b", "parameters": {"type": "object"}}},
            {"name": "c", "input_schema": {}}, {"type": "function", "name": "d"}])");
    REQUIRE(tools.ok());
    CHECK(tools->size() == 4);
    CHECK((*tools)[1].parameters == R"({"type":"object"})");
    CHECK((*tools)[2].parameters == "{}");
    CHECK(read(R"([{"function": {}}])").fault().field == "tools[0].function.name");
    CHECK(read(R"(["a", {"name": "b", "parameters": 3}])").fault().field == "tools[1].parameters");
    CHECK_FALSE(read("{}").ok());
}

// Broken calls nested in each other, so that each attempt to read one runs to the end.
TEST_CASE("a hostile text takes time in proportion to its length") {
    for (const char* part :
         {"<tool_call>{\"name\": \"", "<tool_call>\n<function=a>\n<parameter=b>\n", "[a(b='",
          "{\"name\": ", "[TOOL_CALLS]a[ARGS]{\"", "functools["}) {
        std::string text;
        while (text.size() < 40'000) text += part;
        for (const char* format :
             {"hermes", "qwen3_coder", "pythonic", "json", "mistral", "llama3_json"}) {
            Case test;
            test.format.tools = format;
            test.text = text;
            const OutputDelta output = merged(test, {text});
            CHECK(output.content.size() + output.tool_calls.size() > 0);
        }
    }
}

}  // namespace
}  // namespace nvllm
