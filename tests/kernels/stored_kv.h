// Keys and values as storage of each KV type gives them back, by the scalar conversions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/cpu/attention/attention.h"
#include "kernels/ops/kv_cache.h"
#include "testing.h"

namespace testing {

constexpr nvllm::DType kKvTypes[] = {nvllm::DType::f32, nvllm::DType::bf16, nvllm::DType::f16,
                                     nvllm::DType::f8_e4m3, nvllm::DType::i8};

// What int8 stores of one head of one position, and its scale.
struct StoredHead {
    float scale = 0.0f;
    std::vector<int8_t> values;
};

inline StoredHead stored_head(const float* x, int64_t head_dim) {
    StoredHead head{0.0f, std::vector<int8_t>(static_cast<size_t>(head_dim))};
    float most = 0;
    for (int64_t i = 0; i < head_dim; ++i) {
        if (!std::isfinite(x[i])) return {std::nanf(""), head.values};
        most = std::max(most, std::abs(x[i]));
    }
    if (most < 1e-35f) return head;
    head.scale = most / 127.0f;
    const float factor = 127.0f / most;
    for (int64_t i = 0; i < head_dim; ++i) {
        head.values[static_cast<size_t>(i)] = static_cast<int8_t>(std::nearbyint(x[i] * factor));
    }
    return head;
}

// x [rows, head_dim]; `scale`: of float8_e4m3.
inline std::vector<double> as_stored(nvllm::DType dtype, const std::vector<float>& x,
                                     int64_t head_dim, float scale) {
    std::vector<double> stored;
    if (dtype == nvllm::DType::i8) {
        for (size_t row = 0; row < x.size(); row += static_cast<size_t>(head_dim)) {
            const StoredHead head = stored_head(x.data() + row, head_dim);
            for (const int8_t value : head.values) stored.push_back(double{head.scale} * value);
        }
        return stored;
    }
    const float factor = dtype == nvllm::DType::f8_e4m3 ? scale : 1.0f;
    Buffer one(dtype, 1);
    for (const float value : x) {
        one.set(0, value * (1.0f / factor));
        stored.push_back(double{one[0]} * factor);
    }
    return stored;
}

// Queries as they meet keys that are stored in `dtype`.
inline std::vector<double> as_operands(nvllm::DType dtype, const std::vector<float>& x,
                                       int64_t head_dim) {
    return as_stored(nvllm::cpu::attention_compute_type(dtype, head_dim), x, head_dim, 1.0f);
}

// The part of a probability that rounding may change before it meets values.
inline double probability_rounding(nvllm::DType dtype, int64_t head_dim) {
    const bool rounds = nvllm::cpu::attention_compute_type(dtype, head_dim) == nvllm::DType::bf16;
    return rounds ? 0x1p-8 : 0;
}

// A tree of drafts by its rows' parents; texts where empty.
struct Tree {
    std::vector<int32_t> parents;

    // Whether row `row` of the step sees what lies `place` rows after the step's begin.
    bool sees(int64_t row, int64_t place) const {
        if (place < 0 || parents.empty()) return true;
        while (row > place) row = parents[static_cast<size_t>(row)];
        return row == place;
    }
    // Any tree of so many rows.
    static Tree random(int64_t rows, uint64_t seed) {
        Tree tree;
        Random random(seed);
        for (int64_t row = 0; row < rows; ++row)
            tree.parents.push_back(static_cast<int32_t>(random.below(row + 1)) - 1);
        return tree;
    }
    static Tree text(int64_t rows) {
        Tree tree;
        for (int64_t row = 0; row < rows; ++row)
            tree.parents.push_back(static_cast<int32_t>(row) - 1);
        return tree;
    }
};

}  // namespace testing
