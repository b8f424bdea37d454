// Windows of both conventions, and perplexity with its error.
#include "lib/evaluate/perplexity.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

using namespace nvllm;

namespace {

std::vector<int32_t> counting(int32_t count) {
    std::vector<int32_t> tokens(static_cast<size_t>(count));
    std::iota(tokens.begin(), tokens.end(), 100);
    return tokens;
}

// The tokens that count, over all windows.
std::vector<int32_t> scored(const std::vector<Window>& windows) {
    std::vector<int32_t> tokens;
    for (const Window& window : windows) {
        tokens.insert(tokens.end(),
                      window.token_ids.begin() + static_cast<ptrdiff_t>(window.first_scored),
                      window.token_ids.end());
    }
    return tokens;
}

}  // namespace

TEST_CASE("hf: all tokens of full windows but the first of each") {
    const auto windows =
        perplexity_windows(counting(10), PerplexityConvention::hf, 4, std::nullopt, 1);
    REQUIRE(windows.size() == 2);
    CHECK(scored(windows) == std::vector<int32_t>{101, 102, 103, 105, 106, 107});
    const auto one = perplexity_windows(counting(3), PerplexityConvention::hf, 4, std::nullopt, 1);
    CHECK(scored(one) == std::vector<int32_t>{101, 102});
    CHECK(perplexity_windows(counting(1), PerplexityConvention::hf, 4, std::nullopt, 1).empty());
}

TEST_CASE("hf with a stride: every token but the first counts once") {
    for (const int32_t stride : {1, 2, 3}) {
        const auto windows =
            perplexity_windows(counting(11), PerplexityConvention::hf, 4, stride, 1);
        std::vector<int32_t> all = counting(11);
        all.erase(all.begin());
        CHECK(scored(windows) == all);
        for (const Window& window : windows) CHECK(window.first_scored >= 1);
    }
}

TEST_CASE("llama.cpp: the second half of each window, which begins with the beginning token") {
    const auto windows =
        perplexity_windows(counting(19), PerplexityConvention::llama_cpp, 8, std::nullopt, 1);
    REQUIRE(windows.size() == 2);
    CHECK(windows[1].token_ids[0] == 1);
    CHECK(windows[1].token_ids[1] == 109);
    CHECK(scored(windows) == std::vector<int32_t>{105, 106, 107, 113, 114, 115});
    CHECK(perplexity_windows(counting(7), PerplexityConvention::llama_cpp, 8, std::nullopt, 1)
              .empty());
}

TEST_CASE("perplexity is exp of the mean, its error that of llama-perplexity") {
    PerplexitySum sum;
    for (const double nll : {1.0, 2.0, 3.0}) sum.add(nll);
    const PerplexityResult result = sum.result();
    CHECK(result.perplexity == doctest::Approx(std::exp(2.0)));
    CHECK(result.num_scored == 3);
    CHECK(result.standard_error == doctest::Approx(std::sqrt(2.0 / 3.0 / 2.0) * std::exp(2.0)));
    CHECK(PerplexitySum().result().num_scored == 0);
}
