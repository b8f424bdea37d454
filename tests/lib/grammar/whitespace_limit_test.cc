// White space between the parts of JSON comes to an end; that of texts and other grammars is left
// alone.
#include "lib/grammar/whitespace_limit.h"

#include <algorithm>
#include <string>

#include "tests/lib/grammar/grammar_fixture.h"

namespace nvllm {
namespace {

using namespace test;

bool is_offered(GrammarMatcher& matcher, char byte) {
    return std::ranges::count(allowed_tokens(matcher), token(byte)) > 0;
}

void accept_spaces(GrammarMatcher& matcher, int32_t count) {
    for (int32_t i = 0; i < count; ++i) REQUIRE(matcher.accept(token(i % 2 == 0 ? ' ' : '\n')));
}

TEST_CASE("white space: between two parts it is offered up to a limit, and taken beyond it") {
    GrammarMatcher matcher(compiled(GrammarKind::json_schema,
                                    R"({"type": "array", "items": {"const": 1}, "maxItems": 2})"));
    REQUIRE(matcher.accept(token('[')));
    accept_spaces(matcher, kMostWhitespace - 1);
    CHECK(is_offered(matcher, ' '));
    accept_spaces(matcher, 1);
    CHECK_FALSE(is_offered(matcher, ' '));
    CHECK_FALSE(is_offered(matcher, '\n'));
    CHECK(is_offered(matcher, '1'));
    CHECK(is_offered(matcher, ']'));
    GrammarMatcher copy = matcher;
    CHECK_FALSE(is_offered(copy, ' '));
    matcher.rollback(1);
    CHECK(is_offered(matcher, ' '));
    accept_spaces(matcher, 5);
    CHECK_FALSE(is_offered(matcher, ' '));
    REQUIRE(matcher.accept(token('1')));
    CHECK(is_offered(matcher, ' '));
    CHECK(matches(compiled(GrammarKind::json_schema, R"({"type": "array"})"),
                  "[" + std::string(100, '\n') + "1]"));
}

TEST_CASE("white space: of texts it is left alone") {
    GrammarMatcher text(compiled(GrammarKind::json_schema, R"({"type": "string"})"));
    REQUIRE(text.accept(token('"')));
    for (int32_t i = 0; i < 40; ++i) REQUIRE(text.accept(token(' ')));
    CHECK(is_offered(text, ' '));
    const std::string spaces(40, ' ');
    GrammarMatcher fixed(compiled(GrammarKind::json_schema, R"({"const": ")" + spaces + "\"}"));
    REQUIRE(fixed.accept(token('"')));
    for (int32_t i = 0; i < 40; ++i) {
        CHECK(is_offered(fixed, ' '));
        REQUIRE(fixed.accept(token(' ')));
    }
    CHECK(is_offered(fixed, '"'));
    GrammarMatcher regex(compiled(GrammarKind::regex, "a[ ]{0,60}b"));
    REQUIRE(regex.accept(token('a')));
    for (int32_t i = 0; i < 40; ++i) REQUIRE(regex.accept(token(' ')));
    CHECK(is_offered(regex, ' '));
}

TEST_CASE("white space: schemas inside structural tags are limited as well") {
    GrammarMatcher matcher(compiled(
        GrammarKind::structural_tag,
        R"({"type": "structural_tag", "format": {"type": "json_schema", "json_schema": {"type": "array"}}})"));
    REQUIRE(matcher.accept(token('[')));
    accept_spaces(matcher, kMostWhitespace);
    CHECK_FALSE(is_offered(matcher, ' '));
    CHECK(is_offered(matcher, ']'));
}

}  // namespace
}  // namespace nvllm
