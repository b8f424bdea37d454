// How far one model's distributions lie from a base model's, token by token, as llama-perplexity
// --kl-divergence reports it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace nvllm {

// Of one scored token; nats.
struct TokenDivergence {
    double kld = 0.0;  // KL(base || model) = sum over the vocabulary of p_base (ln p_base - ln p)
    double base_nll = 0.0, nll = 0.0;  // of the text's own token
    bool same_top = false;             // both find the same token likeliest
};

// REQUIRES: rows of equal length, `token` within.
TokenDivergence divergence_of(std::span<const float> base, std::span<const float> model,
                              int32_t token);

struct DivergenceReport {
    int64_t num_scored = 0;
    double perplexity = 0.0, base_perplexity = 0.0;
    double correlation = 0.0;  // of ln p of the text's tokens
    double log_ratio = 0.0;    // ln(perplexity / base_perplexity)
    double mean_kld = 0.0, mean_kld_error = 0.0, max_kld = 0.0, median_kld = 0.0;
    double p90_kld = 0.0, p95_kld = 0.0, p99_kld = 0.0, p999_kld = 0.0;
    double mean_delta_p = 0.0, rms_delta_p = 0.0;  // p - p_base of the text's tokens
    double same_top = 0.0;                         // share, 0 to 1
};
DivergenceReport summarise(const std::vector<TokenDivergence>& tokens);

nlohmann::ordered_json divergence_json(const DivergenceReport& report);
std::string divergence_table(const DivergenceReport& report);

}  // namespace nvllm
