// What the emulated tests of CUDA kernels share: schedules, buffers of any float type, comparison
// with double precision.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "../testing.h"
#include "schedules.h"

namespace testing {

// How far a value may be from double precision after it was rounded to the type once, with room for
// float32 sums before: the unit roundoff.
inline double rounding(nvllm::DType dtype) {
    if (dtype == nvllm::DType::bf16) return 1.0 / 256;
    if (dtype == nvllm::DType::f16) return 1.0 / 2048;
    return 4e-6;
}

// Whether out[i] matches expected(i) for all i; `absolute` beside the type's rounding.
inline bool matches(const Buffer& out, nvllm::DType dtype, double absolute,
                    const std::function<double(int64_t)>& expected) {
    for (int64_t i = 0; i < out.size(); ++i) {
        if (!close(out[i], expected(i), rounding(dtype), absolute)) return false;
    }
    return true;
}

inline std::vector<double> dequantized(const Buffer& buffer, int64_t first, int64_t count) {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(buffer[first + i]);
    return values;
}

}  // namespace testing
