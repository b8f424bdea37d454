// Reports as JSON and as text.
#include "lib/quantize/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/base/units.h"
#include "lib/quantize/evaluation.h"

namespace nvllm::quantize {
namespace {

constexpr const char* kSchema = "nvllm-quantize.report/1";

double size_of(const LinearRecord& record) {
    return static_cast<double>(record.in) * static_cast<double>(record.out);
}

DivergenceReport parse_evaluation(const nlohmann::ordered_json& object) {
    DivergenceReport report;
    const auto number = [&](const char* name) { return object.at(name).get<double>(); };
    report.perplexity = number("perplexity");
    report.base_perplexity = number("base_perplexity");
    report.correlation = number("correlation");
    report.log_ratio = number("ln_ppl_ratio");
    report.mean_kld = number("mean_kld");
    report.mean_kld_error = number("mean_kld_error");
    report.max_kld = number("max_kld");
    report.median_kld = number("median_kld");
    report.p90_kld = number("p90_kld");
    report.p95_kld = number("p95_kld");
    report.p99_kld = number("p99_kld");
    report.p999_kld = number("p99.9_kld");
    report.mean_delta_p = number("mean_delta_p");
    report.rms_delta_p = number("rms_delta_p");
    report.same_top = number("same_top");
    report.num_scored = object.at("num_tokens").get<int64_t>();
    return report;
}

Report parse_report(const nlohmann::ordered_json& object) {
    Report report;
    report.model = object.at("model").get<std::string>();
    report.recipe = write_json(object.at("recipe"));
    report.calibration = object.at("calibration").get<std::string>();
    for (const auto& linear : object.at("linears")) report.linears.push_back(parse_record(linear));
    if (object.contains("block_errors")) {
        report.block_errors = object.at("block_errors").get<std::vector<double>>();
    }
    report.sizes.source_bytes = object.at("source_bytes").get<uint64_t>();
    report.sizes.written_bytes = object.at("written_bytes").get<uint64_t>();
    if (object.contains("evaluation")) {
        report.evaluation = parse_evaluation(object.at("evaluation"));
    }
    return report;
}

}  // namespace

double Report::bits_per_weight() const {
    double bits = 0.0, values = 0.0;
    for (const LinearRecord& record : linears) {
        bits += record.bits_per_weight * size_of(record);
        values += size_of(record);
    }
    return values > 0.0 ? bits / values : 0.0;
}

double Report::mean_error() const {
    double error = 0.0;
    for (const LinearRecord& record : linears) error += record.relative_error;
    return linears.empty() ? 0.0 : error / static_cast<double>(linears.size());
}

const LinearRecord* Report::worst() const {
    const LinearRecord* worst = nullptr;
    for (const LinearRecord& record : linears) {
        if (worst == nullptr || record.relative_error > worst->relative_error) worst = &record;
    }
    return worst;
}

nlohmann::ordered_json report_json(const Report& report) {
    nlohmann::ordered_json object = {{"schema", kSchema},
                                     {"model", report.model},
                                     {"recipe", parse_ordered_json(report.recipe, "recipe")},
                                     {"calibration", report.calibration},
                                     {"source_bytes", report.sizes.source_bytes},
                                     {"written_bytes", report.sizes.written_bytes},
                                     {"bits_per_weight", report.bits_per_weight()},
                                     {"mean_relative_error", report.mean_error()}};
    if (report.evaluation) {
        object["evaluation"] = divergence_json(*report.evaluation);
        object["evaluation"]["ppl_convention"] = convention_name(PerplexityConvention::hf);
    }
    if (!report.block_errors.empty()) object["block_errors"] = report.block_errors;
    object["linears"] = nlohmann::ordered_json::array();
    for (const LinearRecord& record : report.linears) {
        object["linears"].push_back(record_json(record));
    }
    return object;
}

void write_report(const Report& report, const std::filesystem::path& folder) {
    write_new_file(folder / kReportFile, report_json(report).dump(2) + "\n");
}

Report read_report(const std::filesystem::path& folder) {
    const std::filesystem::path file = folder / kReportFile;
    const nlohmann::ordered_json object = parse_ordered_json(read_file(file), file.string());
    try {
        if (object.at("schema") == kSchema) return parse_report(object);
    } catch (const nlohmann::json::exception& fault) {
        throw Error(ErrorKind::bad_data, fmt::format("{}: {}", file.string(), fault.what()));
    }
    throw Error(ErrorKind::bad_data,
                fmt::format("{}: is no report of the schema {}", file.string(), kSchema));
}

std::vector<std::string> report_warnings(const Report& report) {
    constexpr double kNothingLeft = 0.9;
    std::vector<std::string> warnings;
    for (const LinearRecord& record : report.linears) {
        if (record.relative_error < kNothingLeft) continue;
        warnings.push_back(
            fmt::format("warning: {}: hardly anything is left of it (error {:.3g}); a "
                        "finer scheme or --ignore keeps it",
                        record.name, record.relative_error));
    }
    for (size_t block = 0; block < report.block_errors.size(); ++block) {
        if (report.block_errors[block] < kNothingLeft) continue;
        warnings.push_back(
            fmt::format("warning: block {} gives something else than it did (error "
                        "{:.3g} of what it adds)",
                        block, report.block_errors[block]));
    }
    constexpr size_t kMost = 8;
    if (warnings.size() > kMost) {
        const size_t more = warnings.size() - kMost;
        warnings.resize(kMost);
        warnings.push_back(fmt::format("warning: and {} more like these", more));
    }
    return warnings;
}

std::string report_text(const Report& report, bool linears) {
    std::string text;
    for (const LinearRecord& record : report.linears) {
        if (!linears) break;
        text += fmt::format("{:<44} {:<18} {:<16} {:>7.3f} bits  error {:.3g}\n", record.name,
                            record.method, record.format, record.bits_per_weight,
                            record.relative_error);
    }
    if (const LinearRecord* const worst = report.worst()) {
        text += fmt::format("linears  {}, {:.3f} bits a weight, mean relative error {:.3g}\n",
                            report.linears.size(), report.bits_per_weight(), report.mean_error());
        text += fmt::format("worst    {}, {:.3g}\n", worst->name, worst->relative_error);
    }
    const auto worst = std::max_element(report.block_errors.begin(), report.block_errors.end());
    if (worst != report.block_errors.end()) {
        text += fmt::format("blocks   as written, worst {}: error {:.3g} of what it adds\n",
                            worst - report.block_errors.begin(), *worst);
    }
    text += fmt::format("weights  {} from {}\n", describe_bytes(report.sizes.written_bytes),
                        describe_bytes(report.sizes.source_bytes));
    if (report.evaluation) text += evaluation_text(*report.evaluation);
    return text;
}

}  // namespace nvllm::quantize
