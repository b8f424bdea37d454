// Tokenizers of every kind on small vocabularies, how work grows, and files that are wrong.
#include "lib/tokenizer/tokenizer.h"

#include <doctest/doctest.h>

#include "kernels/error.h"
#include "tests/lib/tokenizer/small_tokenizers.h"

namespace nvllm {
namespace {

using Ids = std::vector<int32_t>;
using test::tokenizer_json;
using test::tokenizer_of;

Ids plain(const Tokenizer& tokenizer, std::string_view text) {
    EncodeOptions options;
    options.add_special_tokens = false;
    return tokenizer.encode(text, options);
}

std::string spelled(const Tokenizer& tokenizer, std::string_view text) {
    std::string out;
    for (const int32_t id : plain(tokenizer, text))
        out += (out.empty() ? "" : "|") + tokenizer.token_text(id);
    return out;
}

// The message of the error that loading gives; empty when there is none.
std::string refusal(const std::string& json) {
    try {
        tokenizer_of(json);
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_data);
        return error.what();
    }
    return {};
}

TEST_CASE("tokenizer: byte-level BPE") {
    const auto model = tokenizer_of(test::byte_level_json());
    CHECK(spelled(*model, "the thin") == "the|\xC4\xA0|th|in");
    CHECK(spelled(*model, "in the") == "in|\xC4\xA0the");
    const std::string text = "h\xC3\xA9 \xF0\x9F\x98\x80\n";
    CHECK(model->decode(plain(*model, text), false) == text);
    CHECK(model->token_bytes(*model->token_id("\xC4\xA0the")) == " the");
    CHECK(model->vocab_size() == 262);
    CHECK(model->is_special(260));
    CHECK_FALSE(model->is_special(5));
    CHECK(model->token_text(9999).empty());
    CHECK(model->decode(Ids{9999, -1}, false).empty());
}

TEST_CASE("tokenizer: special tokens in texts") {
    const auto model = tokenizer_of(test::byte_level_json());
    CHECK(plain(*model, "in<|end|>in") == Ids{259, 260, 259});
    EncodeOptions letters;
    letters.recognise_special_tokens = false;
    CHECK(model->encode("<|end|>", letters).size() == 7);
    const std::vector<ByteRange> ranges = {{0, 7}};
    EncodeOptions partly;
    partly.plain_text = ranges;
    const Ids ids = model->encode("<|end|><|end|>", partly);
    CHECK(ids.size() == 8);
    CHECK(ids.back() == 260);
    CHECK(model->decode(Ids{259, 260, 259}, true) == "inin");
    CHECK(model->decode(Ids{259, 260, 259}, false) == "in<|end|>in");
}

TEST_CASE("tokenizer: byte fallback") {
    const auto model = tokenizer_of(test::byte_fallback_json());
    CHECK(model->encode("ab c") == Ids{1, 264, 259, 262});
    CHECK(spelled(*model, "\xC3\xA9") == "\xE2\x96\x81|<0xC3>|<0xA9>");
    CHECK(model->decode(model->encode("ab \xC3\xA9"
                                      "c"),
                        true) ==
          "ab \xC3\xA9"
          "c");
    // A run of bytes that is not UTF-8 is shown as one replacement each.
    CHECK(model->decode(Ids{3 + 0xC3, 3 + 0xA9, 3 + 0xFF}, false) ==
          "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    CHECK(model->token_bytes(3 + 0xC3) == "\xC3");
    CHECK(model->token_bytes(264) == " ab");
}

TEST_CASE("tokenizer: WordPiece") {
    const auto model = tokenizer_of(tokenizer_json(
        "{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
        "\"max_input_chars_per_word\":10,\"vocab\":{\"[UNK]\":0,\"play\":1,\"##ing\":2,\"##s\":3,"
        "\",\":4,\"eta\":5}}",
        "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":"
        "true,"
        "\"strip_accents\":null,\"lowercase\":true},\"pre_tokenizer\":{\"type\":"
        "\"BertPreTokenizer\"},"
        "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}"));
    CHECK(plain(*model, "Playing, plays\xE4\xB8\xAD \xC3\x89ta") == Ids{1, 2, 4, 1, 3, 0, 5});
    CHECK(plain(*model, "playingingings") == Ids{0});
    CHECK(model->decode(Ids{1, 2, 4, 1, 3}, false) == "playing, plays");
}

TEST_CASE("tokenizer: Unigram") {
    const auto model =
        tokenizer_of(tokenizer_json("{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0.0],"
                                    "[\"\xE2\x96\x81\",-3.0],[\"a\",-2.0],[\"b\",-2.5],"
                                    "[\"ab\",-3.0],[\"\xE2\x96\x81"
                                    "a\",-2.5]]}",
                                    "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":"
                                    "\"\xE2\x96\x81\",\"prepend_scheme\":\"always\"},"
                                    "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":"
                                    "\"\xE2\x96\x81\",\"prepend_scheme\":\"always\"}"));
    CHECK(spelled(*model, "ab a") ==
          "\xE2\x96\x81"
          "a|b|\xE2\x96\x81"
          "a");
    CHECK(plain(*model, "xyab") == Ids{1, 0, 4});
    CHECK(model->decode(plain(*model, "ab a"), false) == "ab a");
}

TEST_CASE("tokenizer: added tokens take spaces and stand alone as their flags say") {
    const std::string added = test::byte_level_json();
    const size_t at = added.find("\"added_tokens\":[") + 16;
    std::string json = added;
    json.insert(
        at,
        "{\"id\":260,\"content\":\"<l>\",\"lstrip\":true,\"special\":true,\"normalized\":false},"
        "{\"id\":261,\"content\":\"<r>\",\"rstrip\":true,\"special\":true,\"normalized\":false},"
        "{\"id\":262,\"content\":\"cat\",\"single_word\":true,\"special\":false,\"normalized\":"
        "true},");
    const auto model = tokenizer_of(json);
    CHECK(plain(*model, "in \t<l>in") == Ids{259, 260, 259});
    CHECK(plain(*model, "in<r> \n in") == Ids{259, 261, 259});
    CHECK(plain(*model, "cat") == Ids{262});
    CHECK(plain(*model, "concat").size() == 6);
    CHECK(plain(*model, "cats").size() == 4);
    // The two after them got the next free ids, and it is noted.
    CHECK(model->token_id("<|end|>") == 263);
    CHECK(model->notes().size() == 2);
}

TEST_CASE("tokenizer: pieces by script and by length") {
    // One token a character; only where pieces end is seen, by the mark before each.
    const auto cut = [](const std::string& section, const std::string& text) {
        const auto model = tokenizer_of(tokenizer_json(
            "{\"type\":\"WordLevel\",\"unk_token\":\"|\",\"vocab\":{\"|\":0,\"Hello \":1,"
            "\"\u043c\u0438\u0440 \":2,\"\u6771\u4eac\":3,\"Hello\":4,\" \u043c\u0438\u0440 "
            "\":5,\"a\":6,\"1!\":7,\"\u30a2\u30fc\u6f22\u3072 \":8,\"ab\":9}}",
            "\"pre_tokenizer\":" + section));
        return plain(*model, text);
    };
    const std::string scripts = "{\"type\":\"UnicodeScripts\"}";
    CHECK(cut(scripts, "  Hello \u043c\u0438\u0440 \u6771\u4eac") == Ids{1, 2, 3});
    CHECK(cut(scripts, "a1!a") == Ids{6, 7, 6});
    CHECK(cut(scripts, "\u30a2\u30fc\u6f22\u3072 a") == Ids{8, 6});
    CHECK(cut(scripts, "   ").empty());
    // What the tables lack belongs to what is before it.
    CHECK(cut(scripts,
              "a\u0378"
              "b") == Ids{0});
    const std::string five = "{\"type\":\"FixedLength\",\"length\":5}";
    CHECK(cut(five, "Hello \u043c\u0438\u0440 \u6771\u4eac") == Ids{4, 5, 3});
    CHECK(cut("{\"type\":\"FixedLength\"}", "Helloab") == Ids{4, 9});
    CHECK(refusal(tokenizer_json("{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}}",
                                 "\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":0}"))
              .find("length") != std::string::npos);
}

TEST_CASE("tokenizer: work grows with the text and not faster") {
    const auto byte_level = tokenizer_of(test::byte_level_json());
    const auto fallback = tokenizer_of(test::byte_fallback_json());
    for (const std::string unit : {"a", " ", "\n", "th", "\xF0\x9F\x98\x80", "ab", "'", "A1"}) {
        for (const auto& model : {byte_level, fallback}) {
            const auto steps = [&](size_t bytes) {
                std::string text;
                while (text.size() < bytes) text += unit;
                EncodeWork work;
                EncodeOptions options;
                options.work = &work;
                model->encode(text, options);
                return work.steps;
            };
            const uint64_t small = steps(20'000);
            CAPTURE(unit);
            CHECK(steps(400'000) <= 20 * small + 1000);
        }
    }
}

TEST_CASE("tokenizer: ten megabytes of one letter") {
    const auto model = tokenizer_of(test::byte_level_json());
    std::string text;
    text.resize(10'000'000, 'a');
    EncodeWork work;
    EncodeOptions options;
    options.work = &work;
    CHECK(model->encode(text, options).size() == text.size());
    CHECK(work.steps <= 3 * text.size());
}

TEST_CASE("tokenizer: broken UTF-8 counts as U+FFFD") {
    const auto model = tokenizer_of(test::byte_level_json());
    CHECK(model->decode(plain(*model,
                              "a\xFF"
                              "b\xE2\x82"),
                        false) ==
          "a\xEF\xBF\xBD"
          "b\xEF\xBF\xBD");
}

TEST_CASE("tokenizer: of a token that comes twice the last id counts") {
    const auto tokenizer =
        tokenizer_of(tokenizer_json("{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"a\":2,\"ab\":3}"
                                    ",\"merges\":[[\"a\",\"b\"]]}"));
    CHECK(plain(*tokenizer, "aab") == std::vector<int32_t>{2, 3});
    CHECK(tokenizer->token_text(0).empty());
    CHECK(tokenizer->token_text(2) == "a");
}

TEST_CASE("tokenizer: files that are wrong are refused with the reason") {
    CHECK(refusal("{").find("test.json") != std::string::npos);
    CHECK_FALSE(refusal("").empty());
    CHECK_FALSE(refusal("{}").empty());
    CHECK_FALSE(refusal("{\"model\":[]}").empty());
    CHECK_FALSE(refusal("{\"model\":{\"type\":\"Markov\",\"vocab\":{}}}").empty());
    CHECK(refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a b\"]}}")
              .find("\"b\"") != std::string::npos);
    CHECK_FALSE(
        refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}").empty());
    for (const char* merge : {"[\"a\"]", "[\"a\", 1]", "1", "\"a b c\"", "null"}) {
        CHECK(refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[" +
                      std::string(merge) + "]}}")
                  .find("model.merges: ") != std::string::npos);
    }
    CHECK_FALSE(
        refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}").empty());
    CHECK_FALSE(refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4000000000},\"merges\":[]}}")
                    .empty());
    CHECK_FALSE(
        refusal(
            "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999999999999999},\"merges\":[]}}")
            .empty());
    CHECK_FALSE(
        refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"x\"},\"merges\":[]}}").empty());
    CHECK_FALSE(refusal("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":[\"b\",1]},\"merges\":[]}}")
                    .empty());
    CHECK_FALSE(refusal("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}").empty());
    CHECK_FALSE(refusal("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",1],5]}}").empty());
    CHECK(
        refusal("{\"model\":{\"type\":\"WordLevel\",\"vocab\":{\"a\":0}},\"model\":{\"vocab\":{}}}")
            .find("model.vocab comes twice") != std::string::npos);
    CHECK_FALSE(
        refusal("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",1]],\"unk_id\":7}}").empty());
    CHECK_FALSE(refusal(tokenizer_json("{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}",
                                       "\"normalizer\":{\"type\":\"Magic\"}"))
                    .empty());
    CHECK_FALSE(refusal(tokenizer_json(
                            "{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}",
                            "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},"
                            "\"behavior\":\"Isolated\"}"))
                    .empty());
    CHECK_FALSE(
        refusal(
            tokenizer_json(
                "{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}",
                "\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"/////w==\"}"))
            .empty());
    std::string deep;
    for (int i = 0; i < 100000; ++i) deep += "[";
    CHECK_FALSE(refusal("{\"model\":" + deep).empty());
    CHECK(refusal("\x01\x02\x03").find("SentencePiece") != std::string::npos);
}

TEST_CASE("tokenizer: a directory without a tokenizer gives none") {
    CHECK(Tokenizer::load(std::filesystem::temp_directory_path() / "nvllm-no-such-directory") ==
          nullptr);
}

}  // namespace
}  // namespace nvllm
