// Summaries of samples: location, spread, percentiles, and whether two sets of samples differ.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nvllm {

// All of these give 0 for no samples.
double mean(std::span<const double> samples);
double median(std::span<const double> samples);
// Root of the mean squared distance from the mean, divisor n: numpy.std, as vLLM reports it.
double population_deviation(std::span<const double> samples);
// The same with divisor n - 1, as llama-bench reports it; 0 for one sample.
double sample_deviation(std::span<const double> samples);
// `percent` from 0 to 100, linear between the neighbouring samples: numpy.percentile's default.
double percentile(std::span<const double> samples, double percent);

struct Interval {
    double low = 0.0;
    double high = 0.0;
};

// Smallest and largest.
Interval range_of(std::span<const double> samples);

// A percentile-bootstrap interval of mean(samples) / mean(base): both sets are drawn again with
// replacement (Efron & Tibshirani 1993, section 13.3). The same seed gives the same interval.
// REQUIRES: neither is empty; 0 < confidence < 1.
Interval bootstrap_ratio(std::span<const double> samples, std::span<const double> base,
                         double confidence, uint64_t seed);

// Welch's unequal-variances t-test (Welch 1947) of the hypothesis that both means are equal.
struct WelchTest {
    double t = 0.0;
    double degrees_of_freedom = 0.0;
    // Two-sided. 1 when it cannot be computed (fewer than two samples in a set); 0 or 1 when
    // neither set has any spread.
    double p_value = 1.0;
};
WelchTest welch_test(std::span<const double> a, std::span<const double> b);

// "12.3 (11.9 to 12.8)": the median and the range, for tables.
std::string median_and_range(std::span<const double> samples, int decimals);

}  // namespace nvllm
