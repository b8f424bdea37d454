// Where the parts of a packed quantized matrix lie.
//
// Quantized values come first: panels of 16 columns, each [words][16] with eight 4-bit or four
// 8-bit quantized values of one column in a word; then scales, zero points and corrections, each
// [panels][groups][16]. Columns and values of k that pad the last panel and word are zeros.
//
// Panels of sparse matrices are [in / 32][1 + words][16]. The first word holds the places of the
// values that are kept of 32: of each four, from the lowest bits on, two bits for the first and two
// for the second. In the others these values follow by rising k: both of each four as a pair in a
// word (bfloat16), sixteen first ones before sixteen second ones (float16), or of two fours the
// first ones in bytes 0 and 1, the second ones in bytes 2 and 3 (float8).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/quantized/dequantize_scalar.h"
#include "kernels/ops/matmul_quantized.h"

namespace nvllm::cpu {

struct PackedParts {
    int64_t panels;
    int64_t padded_in;    // a multiple of 8, of sparse matrices of 32
    int64_t panel_bytes;  // of quantized values
    size_t scales;        // offsets
    size_t zero_points;
    size_t corrections;
    size_t bytes;

    explicit PackedParts(const ops::QuantizedLayout& layout)
        : panels((layout.out + kPanelColumns - 1) / kPanelColumns),
          padded_in(padded(layout.in, ops::is_sparse(layout.code) ? kSparseDepth : 8)),
          panel_bytes(bytes_of_panel(layout.code, padded_in)) {
        const auto values = static_cast<size_t>(panels * layout.groups() * kPanelColumns);
        scales = in_lines(static_cast<size_t>(panels * panel_bytes));
        zero_points = in_lines(scales + values * dtype_bytes(layout.scale_type));
        corrections = in_lines(zero_points + (layout.has_zero_points ? values : 0));
        bytes = corrections + (has_corrections(layout) ? values * sizeof(int32_t) : 0);
    }
    static constexpr bool is_nibble(ops::WeightFormat code) {
        return code == ops::WeightFormat::int4 || code == ops::WeightFormat::float4;
    }
    static bool has_corrections(const ops::QuantizedLayout& layout) {
        return layout.code == ops::WeightFormat::int8 && !layout.has_zero_points;
    }

  private:
    static int64_t padded(int64_t in, int64_t depth) { return (in + depth - 1) / depth * depth; }
    static int64_t bytes_of_panel(ops::WeightFormat code, int64_t padded_in) {
        if (ops::is_sparse(code)) {
            return padded_in / kSparseDepth * sparse_words(code) * kPanelColumns * 4;
        }
        return padded_in * kPanelColumns / (is_nibble(code) ? 2 : 1);
    }
    static size_t in_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }
};

}  // namespace nvllm::cpu
