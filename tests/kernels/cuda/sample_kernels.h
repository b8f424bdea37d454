// Two small kernels in the manner of the real ones, which the emulation's own tests run.
#pragma once

#include <cstdint>

namespace sample {

// out[row] = the sum of in[row][0..columns). Any number of columns.
void row_sums(const float* in, float* out, int64_t rows, int64_t columns);

// out = in transposed; both dense. in [rows, columns].
void transpose(const float* in, float* out, int64_t rows, int64_t columns);

}  // namespace sample
