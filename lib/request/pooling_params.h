// How one vector is made of the hidden states of a prompt: plain data.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/base/result.h"

namespace nvllm {

// Which positions' hidden states, behind the model's final norm: the last one's, the average of
// all, or the first one's, where encoders have their [CLS] token.
enum class PoolingKind : uint8_t { last, mean, cls };

// "last", "mean", "cls".
const char* pooling_kind_name(PoolingKind kind);

struct PoolingParams {
    PoolingKind kind = PoolingKind::last;
    bool normalize = true;  // to length 1
    // Keep the first so many values, before normalising (Matryoshka: Kusupati et al. 2022); empty:
    // all.
    std::optional<int32_t> dimensions = std::nullopt;

    // Whether positions before the last are read: then they must be computed, even when their keys
    // and values are at hand.
    bool reads_early_positions() const { return kind != PoolingKind::last; }

    // What is out of range, named as the user wrote it, with the range; empty when all is well.
    std::optional<Fault> check(int64_t hidden_size) const;
};

}  // namespace nvllm
