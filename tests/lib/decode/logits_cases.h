// Reads what scripts/fixtures/make_logits_processors.py wrote.
#pragma once

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/decode/sampling_state.h"
#include "tests/lib/base/base64.h"

namespace nvllm::test {

struct LogitsRow {
    std::vector<float> logits;
    std::vector<int32_t> token_ids;
    int32_t num_prompt_tokens = 0;
    std::vector<int32_t> eos_token_ids;
    nlohmann::json params;
    std::vector<int32_t> stop_token_ids;
    int32_t max_tokens = 0;
};

struct ExpectedRow {
    std::vector<int32_t> token_ids;  // that stay, ascending
    std::vector<float> logprobs;
};

struct LogitsCase {
    std::vector<std::string> processors;
    std::vector<ExpectedRow> expected;
};

struct LogitsCases {
    std::vector<LogitsRow> rows;
    std::vector<LogitsCase> cases;
};

inline std::vector<float> decode_floats(const std::string& base64) {
    const std::string bytes = decode_base64(base64);
    std::vector<float> values(bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

inline LogitsRow read_logits_row(const nlohmann::json& json) {
    LogitsRow row;
    row.logits = decode_floats(json["logits"]);
    row.token_ids = json["prompt"].get<std::vector<int32_t>>();
    row.num_prompt_tokens = static_cast<int32_t>(row.token_ids.size());
    for (const auto& token : json["generated"]) row.token_ids.push_back(token);
    row.eos_token_ids = json["eos_token_ids"].get<std::vector<int32_t>>();
    row.stop_token_ids = json["stop_token_ids"].get<std::vector<int32_t>>();
    row.max_tokens = json["max_tokens"];
    row.params = json["params"];
    return row;
}

inline ExpectedRow read_expected_row(const nlohmann::json& json) {
    ExpectedRow row;
    const uint64_t mask = std::stoull(json[0].get<std::string>(), nullptr, 16);
    for (int32_t token = 0; token < 64; ++token) {
        if ((mask >> token) & 1u) row.token_ids.push_back(token);
    }
    row.logprobs = decode_floats(json[1]);
    return row;
}

inline LogitsCases read_logits_cases(const std::string& path) {
    std::ifstream file(path);
    const nlohmann::json json = nlohmann::json::parse(file);
    LogitsCases cases;
    for (const auto& row : json["rows"]) cases.rows.push_back(read_logits_row(row));
    for (const auto& entry : json["cases"]) {
        LogitsCase& next = cases.cases.emplace_back();
        next.processors = entry["processors"].get<std::vector<std::string>>();
        for (const auto& row : entry["expected"]) next.expected.push_back(read_expected_row(row));
    }
    return cases;
}

// Sampling parameters with just the named processor switched on besides those that are already.
inline void switch_on(SamplingParams& params, const std::string& name,
                      const nlohmann::json& value) {
    if (name == "min_tokens") params.min_tokens = value;
    if (name == "logit_bias") {
        for (const auto& pair : value) params.logit_bias.emplace_back(pair[0], pair[1]);
    }
    if (name == "repetition_penalty") params.repetition_penalty = value;
    if (name == "frequency_penalty") params.frequency_penalty = value;
    if (name == "presence_penalty") params.presence_penalty = value;
    if (name == "temperature") params.temperature = value;
    if (name == "allowed_token_ids") params.allowed_token_ids = value.get<std::vector<int32_t>>();
    if (name == "bad_words") params.bad_words = value.get<std::vector<std::vector<int32_t>>>();
    if (name == "top_n_sigma") params.top_n_sigma = value;
    if (name == "no_repeat_ngram_size") params.no_repeat_ngram_size = value;
    if (name == "forced_bos_token_id") params.forced_bos_token_id = value.get<int32_t>();
    if (name == "forced_eos_token_id") {
        params.forced_eos_token_ids = value.get<std::vector<int32_t>>();
    }
    if (name == "exponential_decay_length_penalty") params.end_boost = EndBoost{value[0], value[1]};
    if (name == "suppress_tokens") params.suppress_tokens = value.get<std::vector<int32_t>>();
    if (name == "begin_suppress_tokens") {
        params.begin_suppress_tokens = value.get<std::vector<int32_t>>();
    }
    if (name == "top_h") params.top_h = value;
    if (name == "epsilon_cutoff") params.epsilon_cutoff = value;
    if (name == "eta_cutoff") params.eta_cutoff = value;
    if (name == "typical_p") params.typical_p = value;
    if (name == "top_k") params.top_k = value;
    if (name == "top_p") params.top_p = value;
    if (name == "min_p") params.min_p = value;
}

}  // namespace nvllm::test
