// Packing of quantized matrices for the CPU.
#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/dispatch/isa.h"
#include "kernels/cpu/quantized/quantized_layout.h"
#include "kernels/cpu/simd/rows.h"
#include "kernels/error.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::cpu {
namespace {

constexpr int64_t kPanelsPerRange = 2;

struct Packing {
    const ops::QuantizedLayout& layout;
    const ops::UnpackedQuantizedWeight& plain;
    PackedParts parts;
    std::byte* packed;

    int64_t columns_of(int64_t panel) const {
        return std::min<int64_t>(kPanelColumns, layout.out - panel * kPanelColumns);
    }
    int64_t place(int64_t panel, int64_t group, int64_t column) const {
        return (panel * layout.groups() + group) * kPanelColumns + column;
    }
    const int8_t* quantized_of(int64_t row) const {
        return plain.codes.as<int8_t>() + row * layout.in;
    }
};

// Eight quantized values as the nibbles of a word, from the lowest on; integers of 4 bits are
// stored 8 above what they are, so those that pad are 8.
template <ops::WeightFormat code>
uint32_t word_of_nibbles(const int8_t (&codes)[8]) {
    uint64_t bytes;
    std::memcpy(&bytes, codes, sizeof(bytes));
    bytes &= 0x0f0f0f0f0f0f0f0f;
    if (code == ops::WeightFormat::int4) bytes ^= 0x0808080808080808;
    bytes = (bytes | bytes >> 4) & 0x00ff00ff00ff00ff;
    bytes = (bytes | bytes >> 8) & 0x0000ffff0000ffff;
    return static_cast<uint32_t>(bytes | bytes >> 16);
}

template <ops::WeightFormat code>
void pack_values(const Packing& packing, int64_t panel) {
    constexpr int64_t kTogether = 8;
    auto* words = reinterpret_cast<uint32_t*>(packing.packed + panel * packing.parts.panel_bytes);
    for (int64_t column = 0; column < kPanelColumns; ++column) {
        const bool is_there = column < packing.columns_of(panel);
        const int8_t* codes =
            is_there ? packing.quantized_of(panel * kPanelColumns + column) : nullptr;
        const int64_t count = is_there ? packing.layout.in : 0;
        uint32_t* to = words + column;
        for (int64_t k = 0; k < packing.parts.padded_in; k += kTogether) {
            int8_t some[kTogether] = {};
            if (k + kTogether <= count) {
                std::memcpy(some, codes + k, kTogether);
            } else if (k < count) {
                std::memcpy(some, codes + k, static_cast<size_t>(count - k));
            }
            if constexpr (PackedParts::is_nibble(code)) {
                *to = word_of_nibbles<code>(some);
                to += kPanelColumns;
            } else {
                std::memcpy(to, some, sizeof(*to));
                std::memcpy(to + kPanelColumns, some + kTogether / 2, sizeof(*to));
                to += 2 * kPanelColumns;
            }
        }
    }
}

// Two bits of four, from the lowest on.
struct TwoPlaces {
    int first;
    int second;

    explicit TwoPlaces(unsigned kept)
        : first(std::countr_zero(kept)), second(std::countr_zero(kept & (kept - 1))) {
        NVLLM_CHECK(std::popcount(kept) == 2, "sparse matrices keep two of four values");
    }
    uint32_t bits() const { return static_cast<uint32_t>(first | second << 2); }
};

// Where the two values of four `index` of 32 values of k lie, in bytes from the words behind those
// of places on.
template <ops::WeightFormat code>
std::pair<int64_t, int64_t> kept_at(int64_t index, int64_t column) {
    constexpr int64_t row = kPanelColumns * 4;
    if (code == ops::WeightFormat::sparse_float8) {
        const int64_t at = index / 2 * row + column * 4 + index % 2;
        return {at, at + 2};
    }
    if (code == ops::WeightFormat::sparse_bfloat16) {
        const int64_t at = index * row + column * 4;
        return {at, at + 2};
    }
    const int64_t at = index * row + column * 2;
    return {at, at + row / 2};
}

// Values that pad are zeros, in places 0 and 1.
template <ops::WeightFormat code>
void pack_sparse(const Packing& packing, int64_t panel) {
    using T = std::conditional_t<code == ops::WeightFormat::sparse_float8, uint8_t, uint16_t>;
    constexpr int64_t step_bytes = sparse_words(code) * kPanelColumns * 4;
    const int64_t in = packing.layout.in;
    std::byte* const begin = packing.packed + panel * packing.parts.panel_bytes;
    std::memset(begin, 0, static_cast<size_t>(packing.parts.panel_bytes));
    for (int64_t column = 0; column < packing.columns_of(panel); ++column) {
        const int64_t out = panel * kPanelColumns + column;
        const T* kept = packing.plain.codes.as<T>() + out * (in / 2);
        const auto* bits = packing.plain.places.as<uint8_t>() + out * ((in + 7) / 8);
        for (int64_t four = 0; four < in / 4; ++four) {
            const int64_t index = four % (kSparseDepth / 4);
            std::byte* const step = begin + four / (kSparseDepth / 4) * step_bytes;
            const TwoPlaces places((bits[four / 2] >> (four % 2 * 4)) & 15u);
            reinterpret_cast<uint32_t*>(step)[column] |= places.bits() << (4 * index);
            const auto [first, second] = kept_at<code>(index, column);
            std::byte* const values = step + kPanelColumns * 4;
            std::memcpy(values + first, kept + 2 * four, sizeof(T));
            std::memcpy(values + second, kept + 2 * four + 1, sizeof(T));
        }
    }
}

void pack_matrix(const Packing& packing, int64_t panel) {
    using Code = ops::WeightFormat;
    switch (packing.layout.code) {
        case Code::int4:
            return pack_values<Code::int4>(packing, panel);
        case Code::float4:
            return pack_values<Code::float4>(packing, panel);
        case Code::int8:
            return pack_values<Code::int8>(packing, panel);
        case Code::float8:
            return pack_values<Code::float8>(packing, panel);
        case Code::sparse_bfloat16:
            return pack_sparse<Code::sparse_bfloat16>(packing, panel);
        case Code::sparse_float16:
            return pack_sparse<Code::sparse_float16>(packing, panel);
        case Code::sparse_float8:
            return pack_sparse<Code::sparse_float8>(packing, panel);
    }
}

void pack_scales(const Packing& packing, int64_t panel) {
    const ConstTensorView& scales = packing.plain.scales;
    const bool one_row = scales.dim(0) == 1;
    const auto index = float_type_index(packing.layout.scale_type);
    for (int64_t group = 0; group < packing.layout.groups(); ++group) {
        float row[kPanelColumns] = {};
        for (int64_t column = 0; column < packing.columns_of(panel); ++column) {
            const int64_t from = one_row ? 0 : panel * kPanelColumns + column;
            row[column] = scales.as<float>()[from * scales.dim(1) + group];
        }
        std::byte* to = packing.packed + packing.parts.scales;
        kernels().narrow[index](row,
                                element(static_cast<void*>(to), packing.layout.scale_type,
                                        packing.place(panel, group, 0)),
                                kPanelColumns);
    }
}

void pack_zero_points(const Packing& packing, int64_t panel) {
    const ConstTensorView& zeros = packing.plain.zero_points;
    auto* to = reinterpret_cast<int8_t*>(packing.packed + packing.parts.zero_points);
    for (int64_t group = 0; group < packing.layout.groups(); ++group) {
        for (int64_t column = 0; column < kPanelColumns; ++column) {
            const int64_t from = zeros.dim(0) == 1 ? 0 : panel * kPanelColumns + column;
            to[packing.place(panel, group, column)] =
                column < packing.columns_of(panel) ? zeros.as<int8_t>()[from * zeros.dim(1) + group]
                                                   : int8_t{0};
        }
    }
}

// What x, multiplied as 128 above what it is, adds to the sums of each group.
void pack_corrections(const Packing& packing, int64_t panel) {
    auto* to = reinterpret_cast<int32_t*>(packing.packed + packing.parts.corrections);
    for (int64_t group = 0; group < packing.layout.groups(); ++group) {
        const int64_t begin = group * packing.layout.group_size;
        const int64_t end = std::min(begin + packing.layout.group_size, packing.layout.in);
        for (int64_t column = 0; column < kPanelColumns; ++column) {
            int32_t sum = 0;
            if (column < packing.columns_of(panel)) {
                const int8_t* codes = packing.quantized_of(panel * kPanelColumns + column);
                sum = kernels().quantized.sum_quantized(codes + begin, end - begin);
            }
            to[packing.place(panel, group, column)] = -128 * sum;
        }
    }
}

}  // namespace

size_t quantized_weight_bytes(const ops::QuantizedLayout& layout, const ComputeTarget&) {
    return PackedParts(layout).bytes;
}

void pack_weight(const Context& context, const ops::QuantizedLayout& layout,
                 const ops::UnpackedQuantizedWeight& plain, const TensorView& packed) {
    const Packing packing{layout, plain, PackedParts(layout), packed.as<std::byte>()};
    context.threads->parallel_for(packing.parts.panels, kPanelsPerRange,
                                  [&](int64_t begin, int64_t end, int) {
                                      for (int64_t panel = begin; panel < end; ++panel) {
                                          pack_matrix(packing, panel);
                                          pack_scales(packing, panel);
                                          if (layout.has_zero_points)
                                              pack_zero_points(packing, panel);
                                          if (PackedParts::has_corrections(layout))
                                              pack_corrections(packing, panel);
                                      }
                                  });
}

}  // namespace nvllm::cpu
