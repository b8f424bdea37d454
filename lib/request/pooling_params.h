// What is made of the hidden states of a prompt: one vector, or values of classes. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/base/result.h"

namespace nvllm {

// The positions whose hidden states are used, after the model's final norm: the last, the mean of
// all, or the first, which is the [CLS] token of encoders.
enum class PoolingKind : uint8_t { last, mean, cls };

// "last", "mean", "cls".
const char* pooling_kind_name(PoolingKind kind);

// What the vector consists of.
enum class PooledValues : uint8_t {
    hidden,   // hidden states
    classes,  // the values of the model's head of classes
    tokens,   // the logits of some tokens, which a text model answers with
};

// What makes scores of the values of classes or tokens: each by itself, or all so that they add up
// to 1.
enum class ScoreFunction : uint8_t { none, sigmoid, softmax };

struct PoolingParams {
    PoolingKind kind = PoolingKind::last;
    bool normalize = true;  // to length 1; only of hidden states
    // Keep this many of the first values, before normalization (Matryoshka: Kusupati et al. 2022);
    // empty: all.
    std::optional<int32_t> dimensions = std::nullopt;

    PooledValues values = PooledValues::hidden;
    ScoreFunction function = ScoreFunction::none;  // only of classes and tokens
    std::vector<int32_t> token_ids = {};           // of PooledValues::tokens, in this order
    // The first position of the second of two texts, in models with token types; 0: one text.
    int32_t second_text = 0;

    // Whether a head of classes reads the mean of hidden states, not one of them.
    bool classifies_mean() const {
        return values == PooledValues::classes && kind == PoolingKind::mean;
    }
    // Whether positions before the last are read: then they must be computed, even if their keys
    // and values are cached.
    bool reads_early_positions() const { return kind != PoolingKind::last; }

    // The field that is out of range, with the range (bad_data); empty if all are in range.
    std::optional<Fault> check(int64_t vector_size) const;
};

}  // namespace nvllm
