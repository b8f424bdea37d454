// Borders between messages, found by special tokens.
#include "lib/engine/message_borders.h"

#include <doctest/doctest.h>

#include "tests/shared_data.h"

namespace nvllm {
namespace {

TEST_CASE("message borders lie before special tokens that are no header of one another") {
    const auto tokenizer = Tokenizer::load(test::source_path("models/demo-draft"));
    REQUIRE(tokenizer != nullptr);
    int32_t special = 0;
    while (!tokenizer->is_special(special)) ++special;
    int32_t plain = 0;
    while (tokenizer->is_special(plain)) ++plain;
    std::vector<int32_t> prompt(100, plain);
    CHECK(message_borders(*tokenizer, prompt).empty());
    CHECK(count_stable_tokens(*tokenizer, prompt) == 0);
    // A header at the beginning, a message's end with the next one's header, and another one.
    for (const size_t index : {0, 3, 30, 32, 80}) prompt[index] = special;
    CHECK(message_borders(*tokenizer, prompt) == std::vector<int32_t>{30, 80});
    CHECK(count_stable_tokens(*tokenizer, prompt) == 81);
}

}  // namespace
}  // namespace nvllm
