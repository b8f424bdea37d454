// Positions in a grammar: masks, tokens, taking back, copies.
#include "lib/grammar/grammar_matcher.h"

#include <algorithm>
#include <utility>

#include "tests/lib/grammar/grammar_fixture.h"

namespace nvllm {
namespace {

using namespace test;
using Tokens = std::vector<int32_t>;

TEST_CASE("a mask holds just the tokens that go on, and the end where the answer is whole") {
    const SharedGrammar grammar = compiled(GrammarKind::choice, R"(["the", "thin", "t"])");
    GrammarMatcher matcher(grammar);
    CHECK(allowed_tokens(matcher) == Tokens{token('t'), 256, 257});  // "t", "th", "the"
    CHECK_FALSE(matcher.may_end());
    CHECK_FALSE(matcher.accept(token('h')));
    CHECK_FALSE(matcher.accept(kEnd));
    REQUIRE(matcher.accept(token('t')));
    CHECK(allowed_tokens(matcher) == Tokens{token('h'), kEnd});
    CHECK(matcher.may_end());
    REQUIRE(matcher.accept(token('h')));
    CHECK(allowed_tokens(matcher) == Tokens{token('e'), token('i'), 259});  // "in"
    REQUIRE(matcher.accept(259));
    CHECK(allowed_tokens(matcher) == Tokens{kEnd});
    REQUIRE(matcher.accept(kEnd));
    CHECK(matcher.has_ended());
    CHECK_FALSE(matcher.may_end());
    CHECK(allowed_tokens(matcher).empty());
    CHECK_FALSE(matcher.accept(token('e')));
}

TEST_CASE("tokens are taken back, the end token included") {
    GrammarMatcher matcher(compiled(GrammarKind::regex, "a[bc]*"));
    REQUIRE(matcher.accept(token('a')));
    REQUIRE(matcher.accept(token('b')));
    REQUIRE(matcher.accept(kEnd));
    matcher.rollback(2);
    CHECK_FALSE(matcher.has_ended());
    CHECK(allowed_tokens(matcher) == Tokens{token('b'), token('c'), kEnd});
    matcher.rollback(1);
    CHECK(allowed_tokens(matcher) == Tokens{token('a')});
}

TEST_CASE("bytes that are no UTF-8 are not allowed: surrogates, overlong forms, beyond Unicode") {
    const auto offers = [](const std::pair<GrammarKind, const char*>& given,
                           std::string_view before, int byte) {
        GrammarMatcher matcher(compiled(given.first, given.second));
        for (const char one : before) REQUIRE(matcher.accept(token(one)));
        return std::ranges::count(allowed_tokens(matcher), byte) > 0;
    };
    struct Row {
        std::pair<GrammarKind, const char*> grammar;
        std::string before = {};
    };
    const Row rows[] = {
        {{GrammarKind::json_schema, R"({"type": "string"})"}, "\""},
        {{GrammarKind::json_schema, R"({"type": "string", "maxLength": 4})"}, "\""},
        {{GrammarKind::json_schema, R"({"type": "string", "pattern": "^[^a]{2}$"})"}, "\""},
        {{GrammarKind::regex, "[^a]{2}"}},
        {{GrammarKind::regex, ".{2}"}},
        {{GrammarKind::grammar, "root ::= [^a] [^b]"}}};
    for (const Row& row : rows) {
        const auto offers_after = [&](const char* lead, int byte) {
            return offers(row.grammar, row.before + lead, byte);
        };
        CHECK(offers_after("\xed", 0x9f));
        CHECK_FALSE(offers_after("\xed", 0xa0));
        CHECK_FALSE(offers_after("\xed", 0xbf));
        CHECK_FALSE(offers_after("\xe0", 0x9f));
        CHECK_FALSE(offers_after("\xf0", 0x8f));
        CHECK_FALSE(offers_after("\xf4", 0x90));
        CHECK_FALSE(offers_after("", 0xc0));
        CHECK_FALSE(offers_after("", 0xc1));
        CHECK(offers_after("\xee", 0x80));
    }
}

TEST_CASE("copies go on apart") {
    GrammarMatcher first(compiled(GrammarKind::choice, R"(["ab", "ac"])"));
    REQUIRE(first.accept(token('a')));
    GrammarMatcher second = first;
    REQUIRE(first.accept(token('b')));
    REQUIRE(second.accept(token('c')));
    CHECK(first.may_end());
    CHECK(second.may_end());
    second.rollback(1);
    CHECK(first.may_end());
    CHECK_FALSE(second.may_end());
    second = first;
    CHECK(second.may_end());
}

TEST_CASE("the text that must follow ends where there is a choice, and is whole characters") {
    GrammarMatcher matcher(compiled(GrammarKind::grammar, R"(root ::= "{\"name\": \"" [éè] "x")"));
    CHECK(matcher.forced_text() == R"({"name": ")");
    REQUIRE(matcher.accept_text(R"({"name": ")"));
    CHECK(matcher.forced_text().empty());  // both letters begin with the same byte
    REQUIRE(matcher.accept_text("é"));
    CHECK(matcher.forced_text() == "x");
}

TEST_CASE("special tokens write nothing, and ids without a token are never allowed") {
    GrammarMatcher matcher(compiled(GrammarKind::regex, "[^x]*"));
    const Tokens allowed = allowed_tokens(matcher);
    CHECK(std::find(allowed.begin(), allowed.end(), token('a')) != allowed.end());
    CHECK(std::find(allowed.begin(), allowed.end(), token('x')) == allowed.end());
    CHECK(std::find(allowed.begin(), allowed.end(), kUser) == allowed.end());
    CHECK(allowed.back() == kEnd);
}

TEST_CASE("structural tags name special tokens, which no text in them can write") {
    const SharedGrammar grammar = compiled(GrammarKind::structural_tag, R"({
        "type": "structural_tag", "format": {"type": "sequence", "elements": [
            {"type": "token", "token": "<|user|>"},
            {"type": "json_schema", "json_schema": {"type": "string"}},
            {"type": "token", "token": "<|user|>"}]}})");
    GrammarMatcher matcher(grammar);
    CHECK(allowed_tokens(matcher) == Tokens{kUser});
    CHECK(matcher.forced_text().empty());
    REQUIRE(matcher.accept(kUser));
    REQUIRE(matcher.accept(token('"')));
    CHECK_FALSE(matcher.accept(kUser));
    REQUIRE(matcher.accept(token('"')));
    REQUIRE(matcher.accept(kUser));
    CHECK(allowed_tokens(matcher) == Tokens{kEnd});
}

TEST_CASE("a structural tag with a special token in its text lets the token write it") {
    const SharedGrammar grammar = compiled(GrammarKind::structural_tag, R"({
        "type": "structural_tag", "format": {"type": "tag", "begin": "<|user|>",
        "content": {"type": "json_schema", "json_schema": {"type": "integer"}}, "end": "."}})");
    GrammarMatcher matcher(grammar);
    CHECK(allowed_tokens(matcher) == Tokens{token('<'), kUser});
    REQUIRE(matcher.accept(kUser));
    CHECK(matcher.accept(token('7')));
}

TEST_CASE("a tag that names a token of another vocabulary is refused") {
    const std::string message = fault_of(GrammarKind::structural_tag, R"({
        "type": "structural_tag", "format": {"type": "token", "token": "<|nobody|>"}})");
    CHECK(message.find("\"<|nobody|>\" at #/format/token") != std::string::npos);
}

}  // namespace
}  // namespace nvllm
