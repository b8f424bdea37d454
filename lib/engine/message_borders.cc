// Special tokens of a prompt.
#include "lib/engine/message_borders.h"

#include <algorithm>

namespace nvllm {
namespace {

// The end of one message and the header of the next are one border.
constexpr int32_t kLeastMessage = 16;

}  // namespace

int32_t count_stable_tokens(const Tokenizer& tokenizer, std::span<const int32_t> prompt) {
    const size_t least = prompt.size() - std::min(prompt.size(), kHeaderTokens);
    for (size_t count = prompt.size(); count > least; --count) {
        if (tokenizer.is_special(prompt[count - 1])) return static_cast<int32_t>(count);
    }
    return 0;
}

std::vector<int32_t> message_borders(const Tokenizer& tokenizer, std::span<const int32_t> prompt) {
    std::vector<int32_t> borders;
    int32_t last = 0;
    for (size_t index = 0; index < prompt.size(); ++index) {
        const auto count = static_cast<int32_t>(index);
        if (count - last < kLeastMessage || !tokenizer.is_special(prompt[index])) continue;
        borders.push_back(count);
        last = count;
    }
    return borders;
}

}  // namespace nvllm
