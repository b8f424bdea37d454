// Bounds on the length of a string: masks hold just the tokens that go on, wherever a token's
// characters, escapes and closing quote are.
#include <algorithm>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/lib/grammar/grammar_fixture.h"

namespace nvllm {
namespace {

using namespace test;

// Pieces of strings, with the quote and what follows it at all places.
const std::vector<std::string>& words() {
    static const std::vector<std::string> all = [] {
        const char* pieces[] = {"a",       "bc",    "d\xC3\xA9", "\xE6\x97\xA5\xE6\x9C\xAC",
                                "\\n",     "\\",    "\\\"",      "\\u00e9",
                                "\\u00",   "e9x",   "n1",        "\\ud83d\\ude00",
                                "\\ud83d", "\\ude", "00y",       "\x97\xA5",
                                "\"",      "\",",   "\": ",      "\"}"};
        std::set<std::string> made = {std::string(30, 'x'), std::string(30, 'x') + "\""};
        for (const char* first : pieces) {
            made.emplace(first);
            for (const char* second : pieces) made.insert(std::string(first) + second);
        }
        std::erase_if(made, [](const std::string& word) { return word.size() == 1; });  // bytes
        return std::vector<std::string>(made.begin(), made.end());
    }();
    return all;
}

int32_t vocabulary() { return 256 + static_cast<int32_t>(words().size()) + 1; }
int32_t end_token() { return vocabulary() - 1; }

GrammarCompiler& compiler() {
    static GrammarCompiler made = [] {
        std::string vocab;
        int32_t id = 0;
        const auto add = [&](std::string_view bytes) {
            std::string letters;
            for (const char byte : bytes) {
                const auto letter = byte_level_character(static_cast<uint8_t>(byte));
                if (letter == "\"" || letter == "\\") letters += '\\';
                letters += letter;
            }
            vocab += (id == 0 ? "\"" : ",\"") + letters + "\":" + std::to_string(id);
            ++id;
        };
        for (int byte = 0; byte < 256; ++byte) add(std::string(1, static_cast<char>(byte)));
        for (const std::string& word : words()) add(word);
        return GrammarCompiler(
            tokenizer_of(tokenizer_json(
                "{\"type\":\"BPE\",\"vocab\":{" + vocab + "},\"merges\":[]}",
                "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":"
                "{\"type\":\"ByteLevel\"},\"added_tokens\":[{\"id\":" +
                    std::to_string(end_token()) +
                    ",\"content\":\"<|end|>\",\"special\":true,\"normalized\":false}]")),
            vocabulary(), {end_token()});
    }();
    return made;
}

std::vector<int32_t> masked(GrammarMatcher& matcher) {
    std::vector<uint32_t> mask((static_cast<size_t>(vocabulary()) + 31) / 32);
    REQUIRE(matcher.fill_mask(mask));
    std::vector<int32_t> tokens;
    for (int32_t id = 0; id < vocabulary(); ++id) {
        const auto at = static_cast<size_t>(id);
        if ((mask[at / 32] >> (at % 32) & 1) != 0) tokens.push_back(id);
    }
    return tokens;
}

std::vector<int32_t> accepted(GrammarMatcher& matcher) {
    std::vector<int32_t> tokens;
    for (int32_t id = 0; id < vocabulary(); ++id) {
        if (!matcher.accept(id)) continue;
        tokens.push_back(id);
        matcher.rollback(1);
    }
    return tokens;
}

SharedGrammar grammar_of(const std::string& schema) {
    auto grammar = compiler().compile({GrammarKind::json_schema, schema});
    REQUIRE_MESSAGE(grammar.ok(), (grammar.ok() ? "" : grammar.fault().message));
    return *grammar;
}

TEST_CASE("counted strings: a mask holds just the tokens that are accepted") {
    std::mt19937_64 random(7);
    for (const char* schema :
         {R"({"type": "string", "maxLength": 3})", R"({"type": "string", "minLength": 2})",
          R"({"type": "string", "minLength": 4, "maxLength": 40})",
          R"({"type": "string", "minLength": 2, "maxLength": 2})",
          R"({"anyOf": [{"type": "string", "maxLength": 1}, {"type": "string", "minLength": 4}]})",
          R"({"type": "string", "pattern": "^[a-c]{1,20}$"})",
          R"({"type": "string", "pattern": "^[^x]{2,30}$", "maxLength": 4})",
          R"({"type": "string", "pattern": "^(abc)*d?$", "minLength": 4, "maxLength": 8})",
          R"({"type": "string", "pattern": "b", "maxLength": 3})",
          R"({"type": "string", "pattern": "^a(bc|\"n)*\\\\?$", "minLength": 3})",
          R"({"type": "string", "format": "email", "maxLength": 9})",
          R"({"type": "object", "properties": {"a": {"type": "string", "maxLength": 2}, "bc":
              {"type": "string", "minLength": 1}}, "required": ["a"], "additionalProperties":
              {"type": "string", "minLength": 1, "maxLength": 5}})"}) {
        const SharedGrammar grammar = grammar_of(schema);
        for (int walk = 0; walk < 40; ++walk) {
            GrammarMatcher matcher(grammar);
            for (int step = 0; step < 24 && !matcher.has_ended(); ++step) {
                const std::vector<int32_t> tokens = masked(matcher);
                const std::vector<int32_t> others = accepted(matcher);
                std::vector<int32_t> differing;
                std::ranges::set_symmetric_difference(tokens, others,
                                                      std::back_inserter(differing));
                REQUIRE_MESSAGE(differing.empty(), std::string(schema), ", walk ", walk, ", step ",
                                step, ", token ", differing.empty() ? 0 : differing[0]);
                REQUIRE_FALSE(tokens.empty());
                REQUIRE(matcher.accept(tokens[random() % tokens.size()]));
            }
        }
    }
}

TEST_CASE("counted strings: a character is a code point, however it is written") {
    const SharedGrammar grammar =
        grammar_of(R"({"type": "string", "minLength": 2, "maxLength": 3})");
    for (const char* whole : {R"("ab")", R"("\u00e9\n")", R"("\ud83d\ude00é")", R"("日本語")",
                              R"("\"\\\/")", R"("😀😀")"}) {
        CHECK_MESSAGE(matches(grammar, whole), whole);
    }
    for (const char* other : {R"("a")", R"("")", R"("abcd")", R"("\ud83d\ude00")", R"("é")",
                              R"("\n\n\n\n")", R"("\ud83d\n")"}) {
        CHECK_MESSAGE(!matches(grammar, other), other);
    }
    CHECK(matches(grammar_of(R"({"type": "string", "maxLength": 0})"), "\"\""));
    CHECK_FALSE(matches(grammar_of(R"({"type": "string", "maxLength": 0})"), "\"a\""));
}

TEST_CASE("counted strings: beside a pattern no length leads nowhere") {
    const std::string threes = R"({"type": "string", "pattern": "^(abc)*$", "minLength": 4)";
    CHECK(matches(grammar_of(threes + R"(, "maxLength": 8})"), R"("abcabc")"));
    CHECK_FALSE(matches(grammar_of(threes + R"(, "maxLength": 8})"), R"("abc")"));
    const auto none =
        compiler().compile({GrammarKind::json_schema, threes + R"(, "maxLength": 5})"});
    REQUIRE_FALSE(none.ok());
    CHECK(none.fault().message.find("no text of the pattern has a length from 4 on and up to 5") !=
          std::string::npos);
    for (const char* most : {"1000000", "2147483647", "4294967296"}) {
        const auto large =
            grammar_of(R"({"type": "string", "maxLength": )" + std::string(most) + "}");
        CHECK(matches(large, "\"" + std::string(5000, 'x') + "\""));
    }
}

TEST_CASE("counted strings: what JSON escapes is escaped, whatever the count") {
    for (const char* count : {"{1,9}", "{1,50}", "+"}) {
        const SharedGrammar grammar =
            grammar_of(R"({"type": "string", "pattern": "^.)" + std::string(count) + "$\"}");
        for (const char* whole : {R"("a\"b")", R"("a\\")", R"("\u001f")", R"("\t")"})
            CHECK_MESSAGE(matches(grammar, whole), whole);
        for (const char* other : {R"("a"b")", R"("a\")", "\"\t\"", R"("\n")"})
            CHECK_MESSAGE(!matches(grammar, other), other);
    }
}

TEST_CASE("counted strings: positions that were taken back count anew") {
    GrammarMatcher matcher(grammar_of(R"({"type": "string", "minLength": 1, "maxLength": 3})"));
    REQUIRE(matcher.accept_text("\"ab"));
    GrammarMatcher copy = matcher;
    REQUIRE(matcher.accept(token('c')));
    CHECK_FALSE(matcher.accept(token('d')));
    matcher.rollback(1);
    CHECK(matcher.accept(token('d')));
    CHECK_FALSE(matcher.accept(token('e')));
    CHECK(matcher.accept_text("\""));
    CHECK(copy.accept_text("x\""));
}

}  // namespace
}  // namespace nvllm
