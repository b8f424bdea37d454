// Grammars that nobody means well with end within their limits, with a fault or without one.
#include <chrono>
#include <iostream>

#include "tests/lib/grammar/grammar_fixture.h"
#include "tests/sanitized.h"

namespace nvllm {
namespace {

using namespace test;

struct Hostile {
    const char* name;
    GrammarKind kind;
    std::string text;
};

std::string repeated(const std::string& text, int times) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
}

// `piece` with "#" as the number, joined.
std::string numbered(const std::string& piece, int count, const std::string& between) {
    std::string all;
    for (int i = 0; i < count; ++i) {
        if (i > 0) all += between;
        for (const char c : piece) all += c == '#' ? std::to_string(i) : std::string(1, c);
    }
    return all;
}

std::string doubling_references(int levels) {
    std::string definitions;
    for (int i = 0; i < levels; ++i) {
        const std::string next = "{\"$ref\":\"#/$defs/d" + std::to_string(i + 1) + "\"}";
        definitions += "\"d" + std::to_string(i) +
                       "\":{\"type\":\"object\",\"properties\":{\"a\":" + next + ",\"b\":" + next +
                       "},\"required\":[\"a\",\"b\"]},";
    }
    return "{\"$ref\":\"#/$defs/d0\",\"$defs\":{" + definitions + "\"d" + std::to_string(levels) +
           "\":{\"type\":\"null\"}}}";
}

std::vector<Hostile> hostile_grammars() {
    const auto schema = GrammarKind::json_schema;
    const auto regex = GrammarKind::regex;
    const auto grammar = GrammarKind::grammar;
    const std::string choice_of_three =
        R"({"anyOf":[{"minLength":#},{"maxLength":9#},{"pattern":"#"}]})";
    return {
        {"many items", schema, R"({"type":"array","maxItems":1000000000})"},
        {"many items at least", schema, R"({"type":"array","minItems":1000000})"},
        {"items of items", schema,
         R"({"items":{"items":{"items":{"minItems":99999},"minItems":99999},"minItems":99999}})"},
        {"a long text", schema, R"({"type":"string","minLength":100000,"maxLength":1000000000})"},
        {"counts in counts", schema,
         R"({"type":"string","pattern":"^((a{1,999}){1,999}){1,999}$"})"},
        {"counts of choices", regex, "((a|b|ab|ba){1,500}){1,500}"},
        {"maybe and again", regex, repeated("(a?)", 500) + repeated("a", 500)},
        {"anything often", regex, repeated(".*", 200) + "x"},
        {"a long pattern", regex, repeated("a", 1000000)},
        {"open groups", regex, repeated("(", 100000)},
        {"groups in groups", regex, repeated("(", 5000) + "a" + repeated(")", 5000)},
        {"a large enum", schema, "{\"enum\":[" + numbered("\"value #\"", 50000, ",") + "]}"},
        {"a large choice", GrammarKind::choice, "[" + numbered("\"value #\"", 50000, ",") + "]"},
        {"products", schema,
         "{\"type\":\"string\",\"allOf\":[" + numbered(choice_of_three, 20, ",") + "]}"},
        {"itself", schema, R"({"$ref":"#"})"},
        {"all of itself", schema, R"({"allOf":[{"$ref":"#"}]})"},
        {"any of itself", schema, R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})"},
        {"not itself", schema, R"({"not":{"$ref":"#"}})"},
        {"always itself", schema,
         R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})"},
        {"one another", schema,
         R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})"},
        {"doubling references", schema, doubling_references(60)},
        {"deep", schema, repeated("{\"items\":", 90) + "{}" + repeated("}", 90)},
        {"too deep", schema, repeated("{\"items\":", 20000) + "{}" + repeated("}", 20000)},
        {"many properties", schema,
         "{\"type\":\"object\",\"properties\":{" +
             numbered("\"p#\":{\"type\":\"null\"}", 5000, ",") + "}}"},
        {"many required", schema,
         "{\"type\":\"object\",\"required\":[" + numbered("\"p#\"", 5000, ",") + "]}"},
        {"many patterns", schema,
         "{\"type\":\"object\",\"patternProperties\":{" + numbered("\"^p#\":{}", 300, ",") + "}}"},
        {"a large step", schema, R"({"type":"integer","multipleOf":1021})"},
        {"a chain of rules", grammar, "root ::= r0\n" + numbered("r# ::= \"a\" r#x", 1, "\n")},
        {"many rules", grammar,
         "root ::= r0\n" +
             [] {
                 std::string rules;
                 for (int i = 0; i < 40000; ++i)
                     rules += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
                 return rules + "r40000 ::= \"a\"\n";
             }()},
        {"left recursion", grammar, "root ::= root root | root \"a\" | \"a\" | \"\""},
        {"no end", grammar, "root ::= \"a\" root"},
        {"parentheses", grammar,
         "root ::= " + repeated("(", 90000) + "\"a\"" + repeated(")", 90000)},
        {"counts in a grammar", grammar, "root ::= (((\"a\"{1,999}){1,999}){1,999}){1,999}"},
        {"a huge count", grammar, "root ::= (\"a\" | \"b\" root){0,2000000000}"},
        {"many choices", grammar, "root ::= " + numbered("\"a#\"", 60000, " | ")},
    };
}

TEST_CASE("hostile grammars end within their limits") {
    GrammarLimits limits;
    limits.seconds = 0.2;
    for (const Hostile& hostile : hostile_grammars()) {
        CAPTURE(hostile.name);
        GrammarCompiler compiler = small_compiler(limits);
        const auto begin = std::chrono::steady_clock::now();
        const auto result = compiler.compile({hostile.kind, hostile.text});
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (std::getenv("NVLLM_VERBOSE") != nullptr)
            std::cout << hostile.name << ": " << seconds << " s, "
                      << (result.ok() ? "compiled" : result.fault().message.substr(0, 160)) << "\n";
        CHECK(seconds < (kSanitized ? 50 : 10));
        if (!result.ok()) {
            CHECK(result.fault().message.size() > 10);
            continue;
        }
        GrammarMatcher matcher(*result);
        allowed_tokens(matcher);
        matcher.forced_text();
    }
}

// A grammar with very many readings takes ever longer: the request ends, not the process.
TEST_CASE("an ambiguous grammar ends its answer in time") {
    GrammarMatcher matcher(compiled(GrammarKind::grammar, "root ::= root root | \"a\""));
    const auto begin = std::chrono::steady_clock::now();
    int accepted = 0;
    while (accepted < 3000 && matcher.accept(token('a'))) {
        ++accepted;
        allowed_tokens(matcher);
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (seconds > 2) break;
    }
    CHECK(accepted > 50);
}

}  // namespace
}  // namespace nvllm
