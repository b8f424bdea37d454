// The option lists that every program with an engine has: of the engine and of sampling.
#pragma once

#include "lib/cli/option_list.h"
#include "lib/engine/options/engine_options.h"
#include "lib/request/sampling_params.h"

namespace nvllm {

// Flags for how tokens are chosen; their JSON names are in request_json.cc. Absent ones leave a
// model's own defaults (generation_config.json) in force.
struct SamplingFlags {
    std::optional<int32_t> max_tokens;
    std::optional<float> temperature;
    std::optional<int32_t> top_k;
    std::optional<float> top_p;
    std::optional<float> min_p;
    std::optional<float> typical_p;
    std::optional<float> top_n_sigma;
    std::optional<float> top_h;
    std::optional<float> epsilon_cutoff;
    std::optional<float> eta_cutoff;
    std::vector<std::string> samplers;
    std::vector<int32_t> allowed_token_ids;
    std::optional<int32_t> no_repeat_ngram_size;
    std::vector<int32_t> suppress_tokens;
    std::optional<float> repetition_penalty;
    std::optional<float> presence_penalty;
    std::optional<float> frequency_penalty;
    std::vector<std::string> logit_bias;  // "ID+bias", "ID-bias"
    std::optional<int32_t> min_tokens;
    std::optional<bool> ignore_eos;
    std::vector<std::string> stop;
    std::vector<int32_t> stop_token_ids;
    std::optional<bool> include_stop;
    std::optional<bool> skip_special_tokens;
    std::optional<int32_t> logprobs;
    std::optional<int32_t> prompt_logprobs;
    std::optional<int32_t> n;
    std::optional<int32_t> best_of;
    std::optional<bool> use_beam_search;
    std::optional<float> length_penalty;
    std::optional<std::string> early_stopping;
    std::optional<uint64_t> seed;

    // `defaults` with what was given. Throws usage when a logit bias cannot be read.
    SamplingParams over(SamplingParams defaults) const;
};

OptionList<SamplingFlags> sampling_options();

}  // namespace nvllm
