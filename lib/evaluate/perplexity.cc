// Windows of a text and their sums.
#include "lib/evaluate/perplexity.h"

#include <algorithm>
#include <cmath>

#include "kernels/error.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm {
namespace {

Window window_of(std::span<const int32_t> tokens, size_t begin, size_t end, size_t first_scored) {
    return {{tokens.begin() + static_cast<ptrdiff_t>(begin),
             tokens.begin() + static_cast<ptrdiff_t>(end)},
            first_scored};
}

std::vector<Window> strided(std::span<const int32_t> tokens, size_t context, size_t stride) {
    std::vector<Window> windows;
    size_t scored_to = 0;
    for (size_t begin = 0; scored_to < tokens.size(); begin += stride) {
        const size_t end = std::min(begin + context, tokens.size());
        // A window's own first token has nothing before it.
        windows.push_back(window_of(tokens, begin, end, std::max(scored_to, begin + 1) - begin));
        scored_to = end;
    }
    std::erase_if(windows, [](const Window& window) { return window.token_ids.size() < 2; });
    return windows;
}

}  // namespace

const char* convention_name(PerplexityConvention convention) {
    return convention == PerplexityConvention::hf ? "hf" : "llama.cpp";
}

std::vector<Window> perplexity_windows(std::span<const int32_t> tokens,
                                       PerplexityConvention convention, int32_t context,
                                       std::optional<int32_t> stride, std::optional<int32_t> bos) {
    NVLLM_CHECK(context >= 2, "a window needs two tokens");
    const auto length = static_cast<size_t>(context);
    const bool is_hf = convention == PerplexityConvention::hf;
    if (stride) return strided(tokens, length, static_cast<size_t>(*stride));
    if (is_hf && tokens.size() < length) return strided(tokens, length, length);
    std::vector<Window> windows;
    for (size_t begin = 0; begin + length <= tokens.size(); begin += length) {
        windows.push_back(window_of(tokens, begin, begin + length, is_hf ? 1 : length / 2 + 1));
        if (!is_hf && bos) windows.back().token_ids[0] = *bos;
    }
    return windows;
}

std::optional<int32_t> added_bos(const Tokenizer& tokenizer) {
    const std::vector<int32_t> with = tokenizer.encode("a");
    const std::vector<int32_t> without = tokenizer.encode("a", {.add_special_tokens = false});
    const bool adds = with.size() > without.size() && tokenizer.bos_id() == with.front();
    return adds ? tokenizer.bos_id() : std::nullopt;
}

void PerplexitySum::add(double nll) {
    sum_ += nll;
    sum_of_squares_ += nll * nll;
    ++count_;
}

PerplexityResult PerplexitySum::result() const {
    PerplexityResult result;
    result.num_scored = count_;
    if (count_ == 0) return result;
    const auto count = static_cast<double>(count_);
    result.mean_nll = sum_ / count;
    result.perplexity = std::exp(result.mean_nll);
    const double variance = sum_of_squares_ / count - result.mean_nll * result.mean_nll;
    if (count_ > 1 && variance > 0.0) {
        result.standard_error = std::sqrt(variance / (count - 1.0)) * result.perplexity;
    }
    return result;
}

}  // namespace nvllm
