// How the hidden states of a prompt are pooled to one vector: plain data.
#pragma once

#include <cstdint>
#include <optional>

#include "lib/base/result.h"

namespace nvllm {

// The positions whose hidden states are used, after the model's final norm: the last, the mean of
// all, or the first, which is the [CLS] token of encoders.
enum class PoolingKind : uint8_t { last, mean, cls };

// "last", "mean", "cls".
const char* pooling_kind_name(PoolingKind kind);

struct PoolingParams {
    PoolingKind kind = PoolingKind::last;
    bool normalize = true;  // to length 1
    // Keep this many of the first values, before normalization (Matryoshka: Kusupati et al. 2022);
    // empty: all.
    std::optional<int32_t> dimensions = std::nullopt;

    // Whether positions before the last are read: then they must be computed, even if their keys
    // and values are cached.
    bool reads_early_positions() const { return kind != PoolingKind::last; }

    // The field that is out of range, with the range (bad_data); empty if all are in range.
    std::optional<Fault> check(int64_t hidden_size) const;
};

}  // namespace nvllm
