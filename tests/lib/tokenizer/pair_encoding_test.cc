// Two texts as one: the ids and types of the tokenizers library, by references that
// scripts/fixtures/make_rerankers.py made, and templates that are no good.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/tokenizer/tokenizer.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

const std::filesystem::path kRerankers = test::source_path("tests/fixtures/rerankers");

// The position of the first type that is not 0; 0: there is none.
int32_t first_of_second(const Ids& types) {
    const auto found = std::ranges::find_if(types, [](int32_t type) { return type != 0; });
    return found == types.end() ? 0 : static_cast<int32_t>(found - types.begin());
}

TEST_CASE("pairs: ids, types and cuts are those of the tokenizers library") {
    for (const char* name : {"bert", "roberta", "xlm_roberta"}) {
        const auto tokenizer = Tokenizer::load(kRerankers / name);
        REQUIRE(tokenizer != nullptr);
        const json reference = json::parse(read_file(kRerankers / name / "reference.json"));
        REQUIRE(reference.size() >= 8);
        for (const json& row : reference) {
            CAPTURE(name);
            CAPTURE(row.dump());
            PairLimits limits;
            if (!row["limit"].is_null()) limits.max_tokens = row["limit"].get<int32_t>();
            const EncodedPair pair = tokenizer->encode_pair(
                row["first"].get<std::string>(), row["second"].get<std::string>(), limits);
            CHECK(pair.ids == row["ids"].get<Ids>());
            CHECK(pair.second_text == first_of_second(row["types"].get<Ids>()));
        }
    }
}

TEST_CASE("pairs: the second text alone can be cut") {
    const auto tokenizer = Tokenizer::load(kRerankers / "bert");
    const EncodedPair whole = tokenizer->encode_pair("the cat", "the cat sat on");
    const EncodedPair cut = tokenizer->encode_pair("the cat", "the cat sat on", {{}, 2});
    CHECK(whole.ids.size() == 9);
    CHECK(cut.ids == tokenizer->encode_pair("the cat", "the cat").ids);
    CHECK(cut.ids.size() == 7);
    CHECK(cut.second_text == 4);
    CHECK(tokenizer->encode_pair("the cat", "the cat sat on", {8, 2}).ids == cut.ids);
}

TEST_CASE("pairs: a limit that leaves nothing of a text is refused") {
    const auto tokenizer = Tokenizer::load(kRerankers / "roberta");
    CHECK(tokenizer->encode_pair("the cat", "the mat", {6, {}}).ids.size() == 6);
    CHECK_THROWS_WITH_AS(tokenizer->encode_pair("the cat", "the mat", {5, {}}),
                         doctest::Contains("5 tokens leave no space for two texts"), Error);
}

// What apply_pair() makes of texts [1, 2] and [3].
EncodedPair applied(const PostProcessor& processor) {
    return processor.apply_pair({1, 2}, {3}, {});
}

TEST_CASE("pairs: without a template of their own, each is a text by itself") {
    CHECK(applied({}).ids == Ids{1, 2, 3});
    CHECK(applied({}).second_text == 2);
    const EncodedPair marked = applied({{8}, {9}});
    CHECK(marked.ids == Ids{8, 1, 2, 9, 8, 3, 9});
    CHECK(marked.second_text == 4);
}

PostProcessor loaded(const char* text) {
    return load_post_processor(JsonView(nlohmann::ordered_json::parse(text), "file"));
}

TEST_CASE("pairs: templates that cannot be computed are refused when they are used") {
    constexpr const char* kTemplate = R"({"type": "TemplateProcessing", "special_tokens": {},
        "single": [{"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 1}}, {"Sequence": {"id": "B", "type_id": 0}}]})";
    const PostProcessor odd = loaded(kTemplate);
    CHECK(odd.apply({1}) == Ids{1});
    CHECK_THROWS_WITH_AS(applied(odd), doctest::Contains("other token types"), Error);
    const std::string nested =
        std::string(R"({"type": "Sequence", "processors": [)") + kTemplate + "," + kTemplate + "]}";
    CHECK_THROWS_WITH_AS(applied(loaded(nested.c_str())), doctest::Contains("several templates"),
                         Error);
    CHECK_THROWS_AS(loaded(R"({"type": "TemplateProcessing", "special_tokens": {},
        "single": [{"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "C", "type_id": 1}}]})"),
                    Error);
}

}  // namespace
}  // namespace nvllm
