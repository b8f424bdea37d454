// Sums, order statistics and the two comparisons.
#include "lib/base/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/error.h"
#include "lib/base/random_source.h"

namespace nvllm {
namespace {

constexpr int kBootstrapDraws = 4000;

double sum_of_squares(std::span<const double> samples) {
    const double centre = mean(samples);
    double sum = 0.0;
    for (const double sample : samples) sum += (sample - centre) * (sample - centre);
    return sum;
}

double mean_of_redraw(std::span<const double> samples, RandomSource& random) {
    double sum = 0.0;
    for (size_t i = 0; i < samples.size(); ++i) sum += samples[random.below(samples.size())];
    return sum / static_cast<double>(samples.size());
}

double away_from_zero(double value) {
    constexpr double kTiny = 1e-300;
    return std::fabs(value) < kTiny ? kTiny : value;
}

// The continued fraction of the incomplete beta function by Lentz's method (DLMF 8.17.22).
double beta_fraction(double a, double b, double x) {
    double c = 1.0;
    double d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    double result = d;
    for (int m = 1; m <= 500; ++m) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        result *= d * c;
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        result *= d * c;
        if (std::fabs(d * c - 1.0) < 1e-14) break;
    }
    return result;
}

// I_x(a, b), the regularised incomplete beta function.
double incomplete_beta(double a, double b, double x) {
    if (x <= 0.0) return 0.0;
    if (x >= 1.0) return 1.0;
    const double log_front =
        std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x);
    const double front = std::exp(log_front);
    if (x < (a + 1.0) / (a + b + 2.0)) return front * beta_fraction(a, b, x) / a;
    return 1.0 - front * beta_fraction(b, a, 1.0 - x) / b;
}

}  // namespace

double mean(std::span<const double> samples) {
    if (samples.empty()) return 0.0;
    return std::accumulate(samples.begin(), samples.end(), 0.0) /
           static_cast<double>(samples.size());
}

double median(std::span<const double> samples) { return percentile(samples, 50.0); }

double population_deviation(std::span<const double> samples) {
    if (samples.empty()) return 0.0;
    return std::sqrt(sum_of_squares(samples) / static_cast<double>(samples.size()));
}

double sample_deviation(std::span<const double> samples) {
    if (samples.size() < 2) return 0.0;
    return std::sqrt(sum_of_squares(samples) / static_cast<double>(samples.size() - 1));
}

double percentile(std::span<const double> samples, double percent) {
    if (samples.empty()) return 0.0;
    std::vector<double> sorted(samples.begin(), samples.end());
    std::sort(sorted.begin(), sorted.end());
    const double place = percent / 100.0 * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<size_t>(
        std::clamp(std::floor(place), 0.0, static_cast<double>(sorted.size() - 1)));
    const size_t above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (sorted[above] - sorted[below]) * (place - static_cast<double>(below));
}

Interval range_of(std::span<const double> samples) {
    if (samples.empty()) return {};
    const auto [low, high] = std::minmax_element(samples.begin(), samples.end());
    return {*low, *high};
}

Interval bootstrap_ratio(std::span<const double> samples, std::span<const double> base,
                         double confidence, uint64_t seed) {
    NVLLM_CHECK(!samples.empty() && !base.empty(), "a bootstrap needs samples");
    RandomSource random(seed);
    std::vector<double> ratios;
    ratios.reserve(kBootstrapDraws);
    for (int draw = 0; draw < kBootstrapDraws; ++draw) {
        const double above = mean_of_redraw(samples, random);
        ratios.push_back(above / mean_of_redraw(base, random));
    }
    const double tail = (1.0 - confidence) / 2.0 * 100.0;
    return {percentile(ratios, tail), percentile(ratios, 100.0 - tail)};
}

WelchTest welch_test(std::span<const double> a, std::span<const double> b) {
    WelchTest test;
    if (a.size() < 2 || b.size() < 2) return test;
    const auto count_a = static_cast<double>(a.size()), count_b = static_cast<double>(b.size());
    const double error_a = sum_of_squares(a) / (count_a - 1.0) / count_a;
    const double error_b = sum_of_squares(b) / (count_b - 1.0) / count_b;
    const double difference = mean(a) - mean(b);
    if (error_a + error_b == 0.0) {
        test.p_value = difference == 0.0 ? 1.0 : 0.0;
        return test;
    }
    test.t = difference / std::sqrt(error_a + error_b);
    test.degrees_of_freedom =
        (error_a + error_b) * (error_a + error_b) /
        (error_a * error_a / (count_a - 1.0) + error_b * error_b / (count_b - 1.0));
    test.p_value =
        incomplete_beta(test.degrees_of_freedom / 2.0, 0.5,
                        test.degrees_of_freedom / (test.degrees_of_freedom + test.t * test.t));
    return test;
}

std::string median_and_range(std::span<const double> samples, int decimals) {
    const Interval range = range_of(samples);
    if (samples.size() < 2) return fmt::format("{:.{}f}", median(samples), decimals);
    return fmt::format("{:.{}f} ({:.{}f} to {:.{}f})", median(samples), decimals, range.low,
                       decimals, range.high, decimals);
}

}  // namespace nvllm
