// Offsets point at each token's text in what is returned.
#include "lib/server/openai/text_offsets.h"

#include <doctest/doctest.h>

#include <vector>

#include "lib/base/utf8.h"
#include "tests/lib/tokenizer/small_tokenizers.h"

using namespace nvllm;
using namespace nvllm::server;

namespace {

using Ids = std::vector<int32_t>;
using Offsets = std::vector<size_t>;

std::shared_ptr<const Tokenizer> byte_level() {
    static const auto tokenizer = test::tokenizer_of(test::byte_level_json());
    return tokenizer;
}

std::shared_ptr<const Tokenizer> byte_fallback() {
    static const auto tokenizer = test::tokenizer_of(test::byte_fallback_json());
    return tokenizer;
}

Offsets of_echo(std::shared_ptr<const Tokenizer> tokenizer, const Ids& prompt,
                const std::string& text) {
    TextOffsets offsets(std::move(tokenizer));
    offsets.begin_echo(text);
    Offsets all;
    for (const int32_t id : prompt) all.push_back(offsets.next(id));
    return all;
}

Offsets of_response(std::shared_ptr<const Tokenizer> tokenizer, const Ids& prompt,
                    const Ids& answer, bool skips = true) {
    TextOffsets offsets(std::move(tokenizer));
    offsets.begin_response(prompt, skips);
    Offsets all;
    for (const int32_t id : answer) all.push_back(offsets.next(id));
    return all;
}

constexpr int32_t kEnd = 260;

}  // namespace

TEST_CASE("text offsets: an answer's tokens, one after the other") {
    CHECK(of_response(byte_level(), {'a'}, byte_level()->encode("the the in")) ==
          Offsets{0, 3, 7, 8});
    CHECK(of_response(byte_level(), {}, {}) == Offsets{});
}

TEST_CASE("text offsets: characters, not bytes, and all pieces of one at its place") {
    const Ids ids = byte_level()->encode("é日x");
    REQUIRE(ids.size() == 6);
    CHECK(of_response(byte_level(), {}, ids) == Offsets{0, 0, 1, 1, 1, 2});
    CHECK(of_echo(byte_level(), ids, "é日x") == Offsets{0, 0, 1, 1, 1, 2});
}

TEST_CASE("text offsets: special tokens leave no text unless they are shown") {
    const Ids ids = {'a', kEnd, 'b', kEnd};
    CHECK(of_response(byte_level(), {}, ids) == Offsets{0, 1, 1, 2});
    CHECK(of_response(byte_level(), {}, ids, false) == Offsets{0, 1, 8, 9});
}

TEST_CASE("text offsets: of an echo, a special token counts where the client wrote it") {
    const Ids ids = {kEnd, 'a', kEnd, 'b'};
    CHECK(of_echo(byte_level(), ids, "ab") == Offsets{0, 0, 1, 1});
    CHECK(of_echo(byte_level(), ids, "a<|end|>b") == Offsets{0, 0, 1, 8});
    CHECK(of_echo(byte_level(), ids, "<|end|>a<|end|>b") == Offsets{0, 7, 8, 15});
}

TEST_CASE("text offsets: the space that vocabularies put before the first word is in no text") {
    const auto tokenizer = byte_fallback();
    const Ids ids = tokenizer->encode("ab ab c");
    REQUIRE(tokenizer->decode(ids, true) == "ab ab c");
    const Offsets offsets = of_echo(tokenizer, ids, "ab ab c");
    REQUIRE(ids.front() == 1);  // <s>
    CHECK(offsets[0] == 0);
    CHECK(offsets[1] == 0);
    for (size_t i = 2; i < ids.size(); ++i) {
        // What comes before a token is what decodes to the text before it.
        CHECK(offsets[i] == tokenizer->decode({ids.data(), i}, true).size());
    }
}

TEST_CASE("text offsets: an answer goes on where the echo ended") {
    const auto tokenizer = byte_fallback();
    const Ids prompt = tokenizer->encode("ab c"), all = tokenizer->encode("ab c ab");
    TextOffsets offsets(tokenizer);
    offsets.begin_echo("ab c");
    for (const int32_t id : prompt) (void)offsets.next(id);
    offsets.begin_response(prompt, true);
    CHECK(offsets.next(all.back()) == 4);
    CHECK(offsets.next(all.back()) == 7);
}

TEST_CASE("text offsets: a character that begins in the prompt and ends in the answer") {
    const Ids e = byte_level()->encode("é");
    CHECK(of_response(byte_level(), {'a', e[0]}, {e[1], 'b'}) == Offsets{0, 1});
}

TEST_CASE("text offsets: never beyond the echo, whatever the tokenizer made of the text") {
    const Ids ids = byte_level()->encode("the in the");
    for (const size_t offset : of_echo(byte_level(), ids, "th")) CHECK(offset <= 2);
    for (const size_t offset : of_echo(byte_level(), ids, "\xff")) CHECK(offset <= 1);
}

TEST_CASE("text offsets: without a tokenizer nothing has text") {
    CHECK(of_response(nullptr, {1, 2}, {3, 4}) == Offsets{0, 0});
    CHECK(of_echo(nullptr, {1, 2}, "") == Offsets{0, 0});
}
