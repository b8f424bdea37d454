// Patterns as tokenizers write them.
#include "lib/tokenizer/unicode/regex.h"

#include <doctest/doctest.h>

#include <vector>

#include "kernels/error.h"
#include "lib/base/utf8.h"

namespace nvllm {
namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
    const Regex regex(pattern);
    Regex::Matches found(regex, text);
    std::vector<std::string> all;
    for (ByteRange match; found.next(match);) {
        all.emplace_back(text.substr(match.begin, match.end - match.begin));
    }
    return all;
}

using Texts = std::vector<std::string>;

TEST_CASE("regex: words as GPT-2 and Llama 3 cut them") {
    CHECK(matches("'s|'t| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
                  "it's  12 ok!") == Texts{"it", "'s", " ", " 12", " ok", "!"});
    CHECK(matches("\\p{N}{1,3}|\\p{L}+", "12345ab") == Texts{"123", "45", "ab"});
}

TEST_CASE("regex: the traps of PCRE2") {
    CHECK(matches("\\s", "\xE1\xA0\x8E").empty());       // U+180E is no white space
    CHECK(matches("\\p{Han}", "\xE3\x80\x82").empty());  // the script, not its extensions
    CHECK(matches("\\p{Han}+", "\xE4\xB8\xAD\xE6\x96\x87").size() == 1);
    CHECK(matches("[\\p{L}&&[^\\p{Han}]]+",
                  "ab\xE4\xB8\xAD"
                  "c") == Texts{"ab", "c"});
    CHECK(matches("[^(\\s|[.,!?])]+", "ab.c") == Texts{"ab", "c"});
    CHECK(matches("^a", "a\na").size() == 2);
    CHECK(matches("\\w+", "a\xCC\x81_1") == Texts{"a\xCC\x81_1"});
    // A letter of Unicode 16.
    std::string recent;
    utf8::append(recent, 0x1C89);
    CHECK(matches("\\p{L}", recent).size() == 1);
    CHECK(matches("[^\\p{L}]", recent).empty());
}

TEST_CASE("regex: what cannot be said exactly is refused") {
    for (const char* pattern :
         {"(", "[a", "[\\p{L}&&a]", "[^a&&[b]]", "[a[^b]]", "\\", "\\p{NoSuch}", "a{5,2}"}) {
        CAPTURE(pattern);
        CHECK_THROWS_AS(Regex{pattern}, Error);
    }
    CHECK_THROWS_AS(Regex(std::string(100'000, 'a')), Error);
}

TEST_CASE("regex: empty matches come between characters, once") {
    CHECK(matches("x*", "a\xC3\xA9x").size() == 3);
    CHECK(matches("", "ab").size() == 3);
}

TEST_CASE("regex: a text of a million characters is no trouble") {
    const std::string pattern = "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    CHECK(matches(pattern, std::string(1'000'000, 'a')).size() == 1);
    CHECK(matches(pattern, std::string(1'000'000, ' ')).size() == 1);
}

}  // namespace
}  // namespace nvllm
