// Two results beside each other: how the metrics they share differ, and whether that is more than
// chance.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lib/base/statistics.h"

namespace nvllm {

// One figure that both results have.
struct Comparison {
    std::string name;  // "batching.continuous.samples.tokens_per_second", "tests.pp512.samples_ts"
    double a = 0.0, b = 0.0;  // means of the samples, or the single values
    size_t num_a = 1, num_b = 1;
    double ratio = 1.0;        // b / a
    bool has_samples = false;  // two or more on both sides: the fields below mean something
    Interval interval;         // of the ratio, by bootstrap, 95 %
    double p_value = 1.0;      // Welch's test
};

// Lists of numbers are samples of one figure; single numbers are compared by ratio alone, and left
// out where the samples they sum up ("avg_ns" of "samples_ns") are compared. Objects
// in a list are matched by their "test" or "op". Descriptions of the machine ("environment") and
// metrics of one side alone are left out. In the order of `a`.
std::vector<Comparison> compare_results(const nlohmann::ordered_json& a,
                                        const nlohmann::ordered_json& b, uint64_t seed);

// Rows, with "differs" where p < 0.05 after Holm's correction over all rows with samples (Holm
// 1979), and "not shown" otherwise. Unequal single values are "one value each": nothing tells
// chance from change. Names are without the word "samples".
std::string comparison_table(const std::vector<Comparison>& rows);
nlohmann::ordered_json comparison_json(const std::vector<Comparison>& rows);

// Which rows differ by Holm's procedure at level 0.05.
std::vector<bool> differing_rows(const std::vector<Comparison>& rows);

}  // namespace nvllm
