// Log-softmax, ranks and the likeliest tokens.
#include "lib/decode/logprobs.h"

#include <algorithm>
#include <cmath>

#include "kernels/error.h"

namespace nvllm {
namespace {

// Of one row: turns a logit into its logprob.
struct LogSoftmax {
    double maximum;
    double log_total;

    float operator()(float logit) const {
        const double value = static_cast<double>(logit) - maximum - log_total;
        return std::max(static_cast<float>(value), kLowestLogprob);
    }
};

int32_t rank_of(std::span<const float> logits, int32_t chosen) {
    const float value = logits[static_cast<size_t>(chosen)];
    int32_t num_better = 0;
    for (const float logit : logits) num_better += logit > value ? 1 : 0;
    const auto before = logits.first(static_cast<size_t>(chosen));
    return 1 + num_better + static_cast<int32_t>(std::count(before.begin(), before.end(), value));
}

}  // namespace

void compute_logprobs(std::span<const float> logits, int32_t chosen, int32_t num_top,
                      Scores& scratch, SampledLogprobs& result) {
    NVLLM_CHECK(chosen >= 0 && static_cast<size_t>(chosen) < logits.size(),
                "the chosen token is outside of the vocabulary");
    // Scores changes a row only through row(), which is not called here.
    scratch.reset({const_cast<float*>(logits.data()), logits.size()});
    const LogSoftmax logprob{scratch.max(), std::log(scratch.total_weight())};
    result.chosen = {chosen, logprob(logits[static_cast<size_t>(chosen)])};
    result.rank = rank_of(logits, chosen);
    result.top.clear();
    if (num_top == 0) return;
    for (const Candidate& candidate : scratch.best(static_cast<size_t>(num_top))) {
        result.top.push_back({candidate.token_id, logprob(candidate.score)});
    }
}

}  // namespace nvllm
