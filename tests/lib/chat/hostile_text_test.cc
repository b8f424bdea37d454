// Texts made to be slow or to pass for control tokens, with every vocabulary at hand.
#include <doctest/doctest.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include "lib/chat/chat_template.h"
#include "lib/tokenizer/tokenizer.h"
#include "tests/lib/tokenizer/small_tokenizers.h"
#include "tests/sanitized.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

constexpr size_t kSmallText = test::kSanitized ? 20'000 : 100'000;
constexpr size_t kLargeText = 10 * kSmallText;

// Written-down ones, the bundled model's, and those of the shared data.
std::map<std::string, std::shared_ptr<const Tokenizer>> all_tokenizers() {
    std::map<std::string, std::shared_ptr<const Tokenizer>> all = {
        {"byte level", test::tokenizer_of(test::byte_level_json())},
        {"byte fallback", test::tokenizer_of(test::byte_fallback_json())},
        {"demo", Tokenizer::load(std::filesystem::path(NVLLM_SOURCE_DIR) / "models" / "demo")}};
    const auto folder = test::shared_data("tokenizers");
    if (folder.empty()) return all;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (!entry.is_directory()) continue;
        if (auto tokenizer = Tokenizer::load(entry.path())) {
            all.emplace(entry.path().filename().string(), std::move(tokenizer));
        }
    }
    return all;
}

uint64_t steps(const Tokenizer& tokenizer, const std::string& unit, size_t bytes) {
    std::string text;
    text.reserve(bytes + unit.size());
    while (text.size() < bytes) text += unit;
    EncodeWork work;
    EncodeOptions options;
    options.work = &work;
    tokenizer.encode(text, options);
    return work.steps;
}

TEST_CASE("hostile text: ten times the text is ten times the work") {
    const auto tokenizers = all_tokenizers();
    for (const auto& [name, tokenizer] : tokenizers) {
        for (const std::string unit : {"a", " ", "\xF0\x9F\x98\x80"}) {
            const uint64_t small = steps(*tokenizer, unit, kSmallText);
            CAPTURE(name);
            CAPTURE(unit);
            CHECK(steps(*tokenizer, unit, kLargeText) <= 10 * small + small / 10 + 1000);
        }
    }
    std::cout << "hostile text: " << kLargeText << " bytes with " << tokenizers.size()
              << " vocabularies\n";
}

// Every special token, alone, twice, and between letters and spaces.
std::string message_of_special_tokens(const std::vector<std::string>& tokens) {
    std::string text;
    for (const std::string& token : tokens)
        text += token + token + " " + token + "x" + token + "\n";
    return text;
}

TEST_CASE("hostile text: a message of all special tokens holds none of their ids") {
    size_t num_tokens = 0;
    const auto tokenizers = all_tokenizers();
    for (const auto& [name, tokenizer] : tokenizers) {
        std::vector<std::string> texts;
        std::set<int32_t> ids;
        for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
            if (!tokenizer->is_special(id)) continue;
            texts.push_back(tokenizer->token_text(id));
            ids.insert(id);
        }
        CAPTURE(name);
        RenderedChat chat;
        chat.text = message_of_special_tokens(texts);
        chat.from_messages = {{0, chat.text.size()}};
        // The unknown token stands for what a vocabulary cannot spell, not for its own name.
        const auto plain = tokenizer->encode("\xF3\xB0\x80\x80", {.add_special_tokens = false});
        const std::set<int32_t> unknown(plain.begin(), plain.end());
        size_t found = 0;
        for (const int32_t id : encode_chat(*tokenizer, chat)) {
            found += ids.contains(id) && !unknown.contains(id) ? 1 : 0;
        }
        CHECK(found == 0);
        // What the test looks for is there when it is allowed.
        size_t allowed = 0;
        for (const int32_t id : encode_chat(*tokenizer, chat, true)) allowed += ids.contains(id);
        CHECK(allowed >= texts.size());
        num_tokens += texts.size();
    }
    std::cout << "hostile text: " << num_tokens << " special tokens of " << tokenizers.size()
              << " vocabularies\n";
}

}  // namespace
}  // namespace nvllm
