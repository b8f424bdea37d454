// Divergence of distributions whose divergence is known.
#include "lib/evaluate/divergence.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace nvllm;

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
