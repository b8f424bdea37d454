// Streams of ids against whole ones.
#include "lib/tokenizer/detokenizer.h"

#include <doctest/doctest.h>

#include <random>

#include "lib/base/utf8.h"
#include "tests/lib/tokenizer/small_tokenizers.h"

namespace nvllm {
namespace {

using Ids = std::vector<int32_t>;

// Decoders of several kinds over the same small vocabulary of awkward tokens.
std::string with_decoder(const std::string& decoder) {
    return test::tokenizer_json(
        "{\"type\":\"WordLevel\",\"unk_token\":\"a\",\"vocab\":{\"a\":0,\" \":1,\"\xE2\x96\x81"
        "b\":2,\"<0xC3>\":3,"
        "\"<0xA9>\":4,\"##c\":5,\"d</"
        "w>\":6,\"\xC3\x83\":7,\"\xC2\xA9\":8,\"'s\":9,\".\":10,\"\xE2\x96\x81\":11,\"  \":12,"
        "\"do\":13,\"not\":14}}",
        "\"decoder\":" + decoder +
            ",\"added_tokens\":[{\"id\":15,\"content\":\"<x>\",\"special\":true}]");
}

const std::vector<std::string> kDecoders = {
    "{\"type\":\"ByteLevel\"}",
    "{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}",
    "{\"type\":\"Metaspace\",\"replacement\":\"\xE2\x96\x81\",\"prepend_scheme\":\"always\"}",
    "{\"type\":\"BPEDecoder\",\"suffix\":\"</w>\"}",
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
    "\"\xE2\x96\x81\"},\"content\":\" \"},"
    "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\",\"content\":\" "
    "\",\"start\":1,\"stop\":2}]}",
    "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{"
    "\"type\":\"Replace\",\"pattern\":"
    "{\"Regex\":\"a+\"},\"content\":\"A\"}]}",
};

TEST_CASE("detokenizer: a stream gives what decoding all gives, in whole characters") {
    std::mt19937 random(7);
    for (const std::string& decoder : kDecoders) {
        const auto tokenizer = test::tokenizer_of(with_decoder(decoder));
        for (int round = 0; round < 1700; ++round) {
            Ids ids(random() % 12);
            for (int32_t& id : ids) id = static_cast<int32_t>(random() % 17);
            const bool skip = random() % 2 == 0;
            Detokenizer stream(tokenizer, skip);
            std::string text;
            for (const int32_t id : ids) {
                const std::string piece = stream.append(id);
                REQUIRE(utf8::is_valid(piece));
                text += piece;
            }
            text += stream.finish();
            CAPTURE(decoder);
            CHECK(text == tokenizer->decode(ids, skip));
        }
    }
}

TEST_CASE("detokenizer: half a character is held back and completed") {
    const auto tokenizer = test::tokenizer_of(test::byte_level_json());
    EncodeOptions options;
    options.add_special_tokens = false;
    const auto ids = tokenizer->encode("\xF0\x9F\x98\x80!", options);
    Detokenizer stream(tokenizer, false);
    CHECK(stream.append(ids[0]).empty());
    CHECK(stream.append(ids[1]).empty());
    CHECK(stream.append(ids[2]).empty());
    CHECK(stream.append(ids[3]) == "\xF0\x9F\x98\x80");
    CHECK(stream.append(ids[4]) == "!");
    CHECK(stream.finish().empty());
    Detokenizer broken(tokenizer, false);
    CHECK(broken.append(ids[0]).empty());
    CHECK(broken.finish() == "\xEF\xBF\xBD");
}

TEST_CASE("detokenizer: what follows a prompt keeps its space") {
    const auto tokenizer = test::tokenizer_of(test::byte_fallback_json());
    const Ids prompt = tokenizer->encode("ab");
    const int32_t next = 264;  // " ab"
    Detokenizer fresh(tokenizer, true);
    CHECK(fresh.append(next) == "ab");
    Detokenizer after(tokenizer, true, prompt);
    CHECK(after.append(next) == " ab");
    CHECK(after.finish().empty());
    // Bytes at the end of the prompt are the prompt's.
    Ids with_bytes = prompt;
    with_bytes.push_back(3 + 0xC3);
    with_bytes.push_back(3 + 0xA9);
    Detokenizer behind_bytes(tokenizer, true, with_bytes);
    CHECK(behind_bytes.append(next) == " ab");
    CHECK(behind_bytes.finish().empty());
}

}  // namespace
}  // namespace nvllm
