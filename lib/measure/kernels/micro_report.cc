// llama-bench's fields and table.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/base/statistics.h"
#include "lib/measure/kernels/micro.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

std::string count_text(double count) {
    if (count >= 1e9) return fmt::format("{:.2f} B", count / 1e9);
    if (count >= 1e6) return fmt::format("{:.2f} M", count / 1e6);
    return fmt::format("{:.2f} K", count / 1e3);
}

}  // namespace

Json micro_json(const MicroResult& result, const MicroSetting& setting) {
    const std::vector<double> rates = result.tokens_per_second();
    return {{"build_commit", setting.version},
            {"build_number", 0},
            {"cpu_info", setting.cpu},
            {"gpu_info", ""},
            {"backends", "CPU"},
            {"model_filename", setting.model},
            {"model_type", setting.type},
            {"model_size", setting.model_bytes},
            {"model_n_params", setting.num_parameters},
            {"n_batch", setting.batch_tokens},
            {"n_ubatch", setting.batch_tokens},
            {"n_threads", setting.threads},
            {"type_k", setting.cache_type},
            {"type_v", setting.cache_type},
            {"n_prompt", result.test.num_prompt},
            {"n_gen", result.test.num_generated},
            {"n_depth", result.test.depth},
            {"test", result.test.name()},
            {"test_time", result.time},
            {"avg_ns", mean(result.samples_ns)},
            {"stddev_ns", sample_deviation(result.samples_ns)},
            {"avg_ts", mean(rates)},
            {"stddev_ts", sample_deviation(rates)},
            {"samples_ns", result.samples_ns},
            {"samples_ts", rates}};
}

std::string micro_markdown(std::span<const MicroResult> results, const MicroSetting& setting) {
    constexpr const char* kRow = "| {:<24} | {:>10} | {:>10} | {:<7} | {:>7} | {:>20} | {:>20} |\n";
    std::string text = fmt::format(fmt::runtime(kRow), "model", "size", "params", "backend",
                                   "threads", "test", "t/s");
    text +=
        fmt::format("| {:-<24} | {:->9}: | {:->9}: | {:-<7} | {:->6}: | {:->19}: | {:->19}: |\n",
                    "", "", "", "", "", "", "");
    for (const MicroResult& result : results) {
        const std::vector<double> rates = result.tokens_per_second();
        text += fmt::format(fmt::runtime(kRow), setting.type, describe_bytes(setting.model_bytes),
                            count_text(static_cast<double>(setting.num_parameters)), "CPU",
                            setting.threads, result.test.name(),
                            fmt::format("{:.2f} ± {:.2f}", mean(rates), sample_deviation(rates)));
    }
    return text;
}

std::string micro_csv(std::span<const MicroResult> results, const MicroSetting& setting) {
    std::string text;
    for (const MicroResult& result : results) {
        std::string head, line;
        const Json object = micro_json(result, setting);
        for (const auto& [key, value] : object.items()) {
            if (value.is_array()) continue;  // single values alone, as llama-bench
            head += (head.empty() ? "" : ",") + key;
            std::string cell = value.is_string() ? value.get<std::string>() : value.dump();
            for (size_t at = 0; (at = cell.find('"', at)) != std::string::npos; at += 2) {
                cell.insert(at, 1, '"');
            }
            line += (line.empty() ? "\"" : ",\"") + cell + "\"";
        }
        if (text.empty()) text = head + "\n";
        text += line + "\n";
    }
    return text;
}

}  // namespace nvllm
