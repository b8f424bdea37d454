// Windows of both perplexity customs, their sums, and who wins a multiple choice.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "kernels/error.h"
#include "lib/measure/divergence.h"
#include "lib/measure/logprob_file.h"
#include "lib/measure/multiple_choice.h"
#include "lib/measure/perplexity.h"

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

TEST_CASE("the highest sum wins, and the highest sum by bytes; of equals the first") {
    const Question question = {"", "", {"a", "bbbb"}, 1};
    CHECK(!check_stop(question, {-2.0, -4.0}).is_right);
    CHECK(check_stop(question, {-2.0, -4.0}).is_right_normalised);
    CHECK(check_stop(question, {-4.0, -2.0}).is_right);
    CHECK(!check_stop(question, {-2.0, -2.0}).is_right);
    const ChoiceAccuracy accuracy =
        accuracy_of({check_stop(question, {-2.0, -4.0}), check_stop(question, {-4.0, -2.0})});
    CHECK(accuracy.accuracy == 0.5);
    CHECK(accuracy.accuracy_error == doctest::Approx(0.5));
    CHECK(accuracy.normalised == 1.0);
    CHECK(accuracy.normalised_error == 0.0);
}

TEST_CASE("divergence of known distributions") {
    const std::vector<float> base = {std::log(0.5f), std::log(0.25f), std::log(0.25f)};
    const std::vector<float> model = {std::log(0.25f), std::log(0.5f), std::log(0.25f)};
    const TokenDivergence same = divergence_of(base, base, 0);
    CHECK(same.kld == 0.0);
    CHECK(same.same_top);
    const TokenDivergence other = divergence_of(base, model, 0);
    CHECK(other.kld == doctest::Approx(0.25 * std::log(2.0)));
    CHECK(!other.same_top);
    const DivergenceReport report = summarise({same, other});
    CHECK(report.mean_kld == doctest::Approx(0.125 * std::log(2.0)));
    CHECK(report.same_top == 0.5);
    CHECK(report.mean_delta_p == doctest::Approx(-0.125));
    CHECK(report.base_perplexity == doctest::Approx(2.0));
}

TEST_CASE("a file of logprobs reads back, and every cut of it is an error") {
    const auto path = std::filesystem::temp_directory_path() / "nvllm_logprob_file_test";
    LogprobWriter writer(path, {3, 8, 1});
    writer.add_window({{0, 2}, 1});
    writer.add_row(std::vector<float>{-1.0f, -2.0f, -3.0f});
    writer.finish();
    LogprobReader reader(path);
    CHECK(reader.head().context == 8);
    CHECK(reader.next_window().token_ids == std::vector<int32_t>{0, 2});
    CHECK(reader.next_row() == std::vector<float>{-1.0f, -2.0f, -3.0f});
    for (size_t size = std::filesystem::file_size(path) - 1; size > 0; size -= 3) {
        std::filesystem::resize_file(path, size);
        const auto read = [&] {
            LogprobReader cut(path);
            cut.next_window();
            cut.next_row();
        };
        CHECK_THROWS_AS(read(), Error);
        if (size < 3) break;
    }
    std::filesystem::remove(path);
}
