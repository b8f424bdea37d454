// Compiling: every kind, what is kept, limits.
#include "lib/grammar/grammar_compiler.h"

#include <atomic>
#include <thread>

#include "tests/lib/grammar/grammar_fixture.h"

namespace nvllm {
namespace {

using namespace test;

TEST_CASE("every kind of grammar") {
    CHECK(has_grammar_engine());
    CHECK(matches(GrammarKind::json_object, "", R"({"a": [1, {"b": null}]})"));
    CHECK_FALSE(matches(GrammarKind::json_object, "", "[1]"));
    const std::string schema =
        R"({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]})";
    CHECK(matches(GrammarKind::json_schema, schema, R"({"age":7})"));
    CHECK(matches(GrammarKind::json_schema, schema, R"({"age": 7, "name": "x"})"));
    CHECK_FALSE(matches(GrammarKind::json_schema, schema, R"({"age":"7"})"));
    CHECK_FALSE(matches(GrammarKind::json_schema, schema, "{}"));
    CHECK(matches(GrammarKind::regex, "[0-9]{3}-[a-f]+", "123-beef"));
    CHECK_FALSE(matches(GrammarKind::regex, "[0-9]{3}-[a-f]+", "12-beef"));
    CHECK(matches(GrammarKind::choice, R"(["yes", "no \"\\\n"])", "no \"\\\n"));
    CHECK_FALSE(matches(GrammarKind::choice, R"(["yes", "no"])", "ye"));
    CHECK(matches(GrammarKind::grammar, "root ::= \"a\" b\nb ::= \"b\" | \"c\"", "ac"));
}

TEST_CASE("equal specs are compiled once, also when they come together") {
    GrammarCompiler compiler = small_compiler();
    const GrammarSpec spec{GrammarKind::json_schema, R"({"type": "array"})"};
    std::vector<SharedGrammar> seen(8);
    std::vector<std::thread> threads;
    for (SharedGrammar& mine : seen)
        threads.emplace_back([&] { mine = compiler.compile(spec).value(); });
    for (std::thread& thread : threads) thread.join();
    for (const SharedGrammar& grammar : seen) CHECK(grammar == seen.front());
    CHECK(compiler.compile({GrammarKind::choice, R"(["array"])"}).value() != seen.front());
}

TEST_CASE("what was not used for longest goes first") {
    GrammarLimits limits;
    limits.cached_bytes = 1 << 20;
    GrammarCompiler compiler = small_compiler(limits);
    const auto of = [](int number) {
        return GrammarSpec{GrammarKind::choice,
                           "[\"" + std::string(1000, 'a') + std::to_string(number) + "\"]"};
    };
    const SharedGrammar first = compiler.compile(of(0)).value();
    const SharedGrammar second = compiler.compile(of(1)).value();
    CHECK(compiler.compile(of(0)).value() == first);
    for (int number = 2; number < 100; ++number) {
        REQUIRE(compiler.compile(of(number)).ok());
        REQUIRE(compiler.compile(of(0)).value() == first);
    }
    CHECK(compiler.compile(of(1)).value() != second);
}

TEST_CASE("a text over the limit is refused") {
    GrammarLimits limits;
    limits.text_bytes = 100;
    GrammarCompiler compiler = small_compiler(limits);
    const auto result = compiler.compile({GrammarKind::regex, std::string(101, 'a')});
    REQUIRE_FALSE(result.ok());
    CHECK(result.fault().kind == ErrorKind::bad_data);
    CHECK(result.fault().message.find("at most 100 B") != std::string::npos);
}

TEST_CASE("texts that do not parse are refused with the reason") {
    CHECK(fault_of(GrammarKind::json_schema, "{").find("JSON schema") == 0);
    CHECK_FALSE(fault_of(GrammarKind::regex, "a(b").empty());
    CHECK_FALSE(fault_of(GrammarKind::grammar, "root ::= missing").empty());
    CHECK_FALSE(fault_of(GrammarKind::grammar, "start ::= \"a\"").empty());
    CHECK_FALSE(fault_of(GrammarKind::choice, "{}").empty());
    CHECK_FALSE(fault_of(GrammarKind::structural_tag, "{}").empty());
}

}  // namespace
}  // namespace nvllm
