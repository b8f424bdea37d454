// What kernels of matmuls ask of a block: its K-blocks of k and its panels of packed x.
// Factors is part of every name here, so that no instruction set gets another's code.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/simd/kernels.h"

namespace nvllm::cpu {

// A step of a row of x, rounded to X; the values after the first `count` are zeros.
template <class Operands, typename X, typename Packed>
void pack_step(const float* x, int64_t count, Packed* out) {
    constexpr int64_t step = Operands::step;
    if (count >= step) return Operands::template pack<X>(x, out);
    float tail[step] = {};
    for (int64_t i = 0; i < count; ++i) tail[i] = x[i];
    Operands::template pack<X>(tail, out);
}

// Panels of up to max_rows rows of packed x, of like sizes: MatmulKernels::panel_begin.
template <class Operands, int max_rows>
class MatmulPanels {
    using Packed = typename Operands::Packed;
    static constexpr int64_t step = Operands::step;

  public:
    // Where the K-block ends that begins at k = `begin`.
    static int64_t k_block_end(const MatmulBlock& block, int64_t begin) {
        return begin + kBlockK < block.in ? begin + kBlockK : block.in;
    }
    // Values of k of that K-block, the last one's filled up to a multiple of a step.
    static int64_t packed_length(const MatmulBlock& block, int64_t begin) {
        return (k_block_end(block, begin) - begin + step - 1) / step * step;
    }

    struct Panel {
        const Packed* x;  // from k = 0
        int64_t token;    // of its first row
        int64_t rows;
    };

    explicit MatmulPanels(const MatmulBlock& block)
        : x_(static_cast<const Packed*>(block.x)),
          padded_in_((block.in + step - 1) / step * step),
          tokens_(block.tokens),
          count_((block.tokens + max_rows - 1) / max_rows) {}

    int64_t count() const { return count_; }
    Panel at(int64_t panel) const {
        const int64_t begin = tokens_ * panel / count_;
        const int64_t end = tokens_ * (panel + 1) / count_;
        return {x_ + begin * padded_in_, begin, end - begin};
    }

    // Calls body with the panel's number of rows as a constant.
    template <int rows = max_rows, typename Body>
    static void with_rows(const Panel& panel, Body body) {
        if constexpr (rows > 0) {
            if (panel.rows == rows) {
                body(std::integral_constant<int, rows>());
            } else {
                with_rows<rows - 1>(panel, body);
            }
        }
    }

  private:
    const Packed* x_;
    int64_t padded_in_;
    int64_t tokens_;
    int64_t count_;
};

}  // namespace nvllm::cpu
