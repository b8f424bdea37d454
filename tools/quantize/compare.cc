// nvllm-quantize compare: what several methods made of one model, side by side.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/cli/main_guard.h"
#include "lib/cli/options.h"
#include "lib/cli/progress.h"
#include "lib/quantize/evaluation.h"
#include "lib/quantize/report.h"
#include "tools/quantize/quantize.h"

namespace nvllm::quantize_tool {
namespace {

struct CompareOptions {
    std::vector<std::string> folders;
    std::string model;
    std::string eval;
    int64_t max_seq_length = 2048;
    int64_t eval_tokens = 0;
    int32_t threads = 0;
    bool json = false;
};

OptionList<CompareOptions> compare_options() {
    OptionList<CompareOptions> list("compare");
    list.add("folders", &CompareOptions::folders, "What nvllm-quantize wrote.", value_name("DIR"),
             positional());
    list.add("model", &CompareOptions::model, "The model they were made of, for --eval.",
             short_name('m'), value_name("MODEL"));
    list.add("eval", &CompareOptions::eval,
             "A text on which all are compared with the model; else what their reports say.",
             value_name("FILE"));
    list.add("max-seq-length", &CompareOptions::max_seq_length, "Tokens of a window at most.",
             range(2, 1 << 20));
    list.add("eval-tokens", &CompareOptions::eval_tokens, "Tokens of the text at most.",
             at_least(0), default_text("all"));
    list.add("threads", &CompareOptions::threads, "Threads.", short_name('t'), range(0, 4096),
             default_text("one for each physical core"));
    list.add("json", &CompareOptions::json, "One JSON object, schema nvllm-quantize.compare/1.");
    return list;
}

void check(const CompareOptions& options) {
    if (options.folders.empty()) throw Error(ErrorKind::usage, "name folders: compare DIR DIR ...");
    if (options.eval.empty() != options.model.empty()) {
        throw Error(ErrorKind::usage, "--eval FILE and --model MODEL belong together");
    }
}

std::string methods_of(const quantize::Report& report) {
    std::string names;
    for (const auto& modifier : parse_ordered_json(report.recipe, "recipe")) {
        names += (names.empty() ? "" : "+") + modifier.value("method", "?");
    }
    return names;
}

DivergenceReport evaluate(const CompareOptions& options, const std::string& folder) {
    quantize::EvaluationOptions evaluation;
    evaluation.base = resolve_model_directory(options.model);
    evaluation.model = folder;
    evaluation.text = options.eval;
    evaluation.context = options.max_seq_length;
    evaluation.most_tokens = options.eval_tokens;
    evaluation.num_threads = options.threads;
    const MonotonicClock clock;
    Progress progress("Evaluating " + folder, 1000, clock);
    return quantize::evaluate(
        evaluation, [&](double share) { progress.update(static_cast<uint64_t>(1000 * share)); });
}

// Models of other programs have no report; on a text they can be compared all the same.
nlohmann::ordered_json row_of(const CompareOptions& options, const std::string& folder) {
    nlohmann::ordered_json row = {{"folder", folder}};
    const bool has_report =
        std::filesystem::exists(std::filesystem::path(folder) / quantize::kReportFile);
    if (has_report || options.eval.empty()) {
        const quantize::Report report = quantize::read_report(folder);
        row["methods"] = methods_of(report);
        row["written_bytes"] = report.sizes.written_bytes;
        row["bits_per_weight"] = report.bits_per_weight();
        row["mean_relative_error"] = report.mean_error();
        if (report.evaluation) row["evaluation"] = divergence_json(*report.evaluation);
    }
    if (!options.eval.empty()) row["evaluation"] = divergence_json(evaluate(options, folder));
    return row;
}

std::string shown(const nlohmann::ordered_json& row, const char* key, const char* form) {
    return row.contains(key) ? fmt::format(fmt::runtime(form), row[key].get<double>()) : "?";
}

std::string table(const nlohmann::ordered_json& rows) {
    std::string text =
        fmt::format("{:<28} {:<20} {:>7} {:>10} {:>11} {:>11} {:>10} {:>9}\n", "folder", "methods",
                    "bits", "error", "perplexity", "before", "KL", "same top");
    for (const auto& row : rows) {
        text += fmt::format("{:<28} {:<20} {:>7} {:>10}", row["folder"].get<std::string>(),
                            row.value("methods", "?"), shown(row, "bits_per_weight", "{:.3f}"),
                            shown(row, "mean_relative_error", "{:.3g}"));
        if (row.contains("evaluation")) {
            const auto& evaluation = row["evaluation"];
            text += fmt::format(
                " {:>11.4f} {:>11.4f} {:>10.6f} {:>8.2f}%", evaluation["perplexity"].get<double>(),
                evaluation["base_perplexity"].get<double>(), evaluation["mean_kld"].get<double>(),
                100.0 * evaluation["same_top"].get<double>());
        }
        text += "\n";
    }
    return text;
}

}  // namespace

int run_compare(const Invocation& invocation) {
    CompareOptions options;
    const auto list = compare_options();
    OptionSet set;
    set.add(list, options);
    if (answered(invocation, set)) return 0;
    check(options);
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const std::string& folder : options.folders) rows.push_back(row_of(options, folder));
    if (options.json) {
        write_output(write_json(nlohmann::ordered_json{{"schema", "nvllm-quantize.compare/1"},
                                                       {"models", rows}}) +
                     "\n");
    } else {
        write_output(table(rows));
    }
    return 0;
}

}  // namespace nvllm::quantize_tool
