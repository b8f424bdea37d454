// Any ids through the streaming detokenizer: whole characters, and the same text as decoding all at
// once.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/utf8.h"
#include "lib/tokenizer/detokenizer.h"
#include "tests/lib/tokenizer/small_tokenizers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const auto kByteLevel = nvllm::test::tokenizer_of(nvllm::test::byte_level_json());
    static const auto kFallback = nvllm::test::tokenizer_of(nvllm::test::byte_fallback_json());
    if (size == 0) return 0;
    const auto& tokenizer = (data[0] & 1) != 0 ? kByteLevel : kFallback;
    const bool skip = (data[0] & 2) != 0;
    std::vector<int32_t> ids;
    for (size_t i = 1; i < size; ++i) ids.push_back(data[i] + ((data[0] & 4) != 0 ? 10 : 0));
    nvllm::Detokenizer stream(tokenizer, skip);
    std::string text;
    for (const int32_t id : ids) {
        const std::string piece = stream.append(id);
        if (!nvllm::utf8::is_valid(piece)) __builtin_trap();
        text += piece;
    }
    text += stream.finish();
    if (text != tokenizer->decode(ids, skip)) __builtin_trap();
    return 0;
}
