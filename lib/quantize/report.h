// What was done to a model and what it cost, as it lies in the output's folder.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/evaluate/divergence.h"
#include "lib/quantize/block_solution.h"
#include "lib/quantize/checkpoint_writer.h"
#include "lib/quantize/recipe.h"

namespace nvllm::quantize {

inline constexpr const char* kReportFile = "quantization_report.json";

// The same for the same run: no times, no paths.
struct Report {
    std::string model;        // the source's name
    std::string recipe;       // JSON, as recipe_json() has it
    std::string calibration;  // in words; empty: none
    std::vector<LinearRecord> linears;
    std::vector<double> block_errors;  // as verify_written() gives them; empty: not known
    WrittenSizes sizes;
    std::optional<DivergenceReport> evaluation;

    double bits_per_weight() const;  // of the linears
    double mean_error() const;
    // Null when there are none.
    const LinearRecord* worst() const;
};

// "nvllm-quantize.report/1".
nlohmann::ordered_json report_json(const Report& report);
void write_report(const Report& report, const std::filesystem::path& folder);
// Throws not_found when the folder has none, bad_data.
Report read_report(const std::filesystem::path& folder);
// What of it is likely not what the user wanted, in words: linears of which nothing is left, blocks
// that became others.
std::vector<std::string> report_warnings(const Report& report);
// Totals; with `linears` a line for each too.
std::string report_text(const Report& report, bool linears);

}  // namespace nvllm::quantize
