// How long a step of an engine takes, as a formula: what a replay has in place of a model.
#pragma once

#include <cstdint>
#include <filesystem>

#include "lib/request/batch_plan.h"

namespace nvllm::view {

// The defaults are of the order of an 8-billion-parameter model on one large GPU: 2 * 8e9
// operations a token at 450 TFLOP/s, 128 KiB of keys and values a token.
struct StepModel {
    double fixed_ms = 5.0;
    double prefill_token_ms = 0.035;
    // One token's reading of one earlier position.
    double prefill_position_ms = 3.5e-6;
    double decode_sequence_ms = 0.1;

    // Computing `count` tokens of a prompt from position `first`.
    double prefill_ms(int64_t first, int64_t count) const {
        const auto tokens = static_cast<double>(count);
        const double positions =
            tokens * static_cast<double>(first) + tokens * (tokens - 1.0) / 2.0;
        return tokens * prefill_token_ms + positions * prefill_position_ms;
    }
};

// One object with any of the four members. Throws bad_data for anything else in it.
StepModel read_step_model(const std::filesystem::path& path, StepModel defaults);

}  // namespace nvllm::view
