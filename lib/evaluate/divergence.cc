// Rows of two models to divergences to a report.
#include "lib/evaluate/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "lib/base/statistics.h"

namespace nvllm {
namespace {

double correlation_of(const std::vector<double>& a, const std::vector<double>& b) {
    const double centre_a = mean(a), centre_b = mean(b);
    double products = 0.0;
    for (size_t i = 0; i < a.size(); ++i) products += (a[i] - centre_a) * (b[i] - centre_b);
    const double spread = population_deviation(a) * population_deviation(b);
    return spread == 0.0 ? 1.0 : products / static_cast<double>(a.size()) / spread;
}

size_t top_of(std::span<const float> row) {
    return static_cast<size_t>(std::ranges::max_element(row) - row.begin());
}

}  // namespace

TokenDivergence divergence_of(std::span<const float> base, std::span<const float> model,
                              int32_t token) {
    TokenDivergence result;
    for (size_t i = 0; i < base.size(); ++i) {
        const double logprob = base[i];
        result.kld += std::exp(logprob) * (logprob - static_cast<double>(model[i]));
    }
    const auto at = static_cast<size_t>(token);
    result.base_nll = -static_cast<double>(base[at]);
    result.nll = -static_cast<double>(model[at]);
    result.same_top = top_of(base) == top_of(model);
    return result;
}

DivergenceReport summarise(const std::vector<TokenDivergence>& tokens) {
    std::vector<double> klds, nlls, base_nlls, deltas, squares, same;
    for (const TokenDivergence& token : tokens) {
        klds.push_back(token.kld);
        nlls.push_back(token.nll);
        base_nlls.push_back(token.base_nll);
        deltas.push_back(std::exp(-token.nll) - std::exp(-token.base_nll));
        squares.push_back(deltas.back() * deltas.back());
        same.push_back(token.same_top ? 1.0 : 0.0);
    }
    DivergenceReport report;
    report.num_scored = static_cast<int64_t>(tokens.size());
    report.perplexity = std::exp(mean(nlls));
    report.base_perplexity = std::exp(mean(base_nlls));
    report.correlation = correlation_of(nlls, base_nlls);
    report.log_ratio = mean(nlls) - mean(base_nlls);
    report.mean_kld = mean(klds);
    report.mean_kld_error =
        sample_deviation(klds) / std::sqrt(std::max(1.0, static_cast<double>(klds.size())));
    report.max_kld = range_of(klds).high;
    report.median_kld = median(klds);
    report.p90_kld = percentile(klds, 90.0);
    report.p95_kld = percentile(klds, 95.0);
    report.p99_kld = percentile(klds, 99.0);
    report.p999_kld = percentile(klds, 99.9);
    report.mean_delta_p = mean(deltas);
    report.rms_delta_p = std::sqrt(mean(squares));
    report.same_top = mean(same);
    return report;
}

nlohmann::ordered_json divergence_json(const DivergenceReport& report) {
    return {{"perplexity", report.perplexity},     {"base_perplexity", report.base_perplexity},
            {"correlation", report.correlation},   {"ln_ppl_ratio", report.log_ratio},
            {"mean_kld", report.mean_kld},         {"mean_kld_error", report.mean_kld_error},
            {"max_kld", report.max_kld},           {"median_kld", report.median_kld},
            {"p90_kld", report.p90_kld},           {"p95_kld", report.p95_kld},
            {"p99_kld", report.p99_kld},           {"p99.9_kld", report.p999_kld},
            {"mean_delta_p", report.mean_delta_p}, {"rms_delta_p", report.rms_delta_p},
            {"same_top", report.same_top},         {"num_tokens", report.num_scored}};
}

std::string divergence_table(const DivergenceReport& report) {
    const auto line = [](const char* label, double value) {
        return fmt::format("{:<24}: {:>12.6f}\n", label, value);
    };
    return line("Mean PPL(Q)", report.perplexity) + line("Mean PPL(base)", report.base_perplexity) +
           fmt::format("{:<24}: {:>11.4f}%\n", "Cor(ln p(Q), ln p(base))",
                       report.correlation * 100.0) +
           line("Mean ln(PPL ratio)", report.log_ratio) +
           fmt::format("{:<24}: {:>12.6f} +/- {:.6f}\n", "Mean KLD", report.mean_kld,
                       report.mean_kld_error) +
           line("Maximum KLD", report.max_kld) + line("99.9% KLD", report.p999_kld) +
           line("99.0% KLD", report.p99_kld) + line("95.0% KLD", report.p95_kld) +
           line("90.0% KLD", report.p90_kld) + line("Median KLD", report.median_kld) +
           fmt::format("{:<24}: {:>11.4f}%\n", "Mean delta p", report.mean_delta_p * 100.0) +
           fmt::format("{:<24}: {:>11.4f}%\n", "RMS delta p", report.rms_delta_p * 100.0) +
           fmt::format("{:<24}: {:>11.4f}%\n", "Same top p", report.same_top * 100.0) +
           fmt::format("{} tokens scored\n", report.num_scored);
}

}  // namespace nvllm
