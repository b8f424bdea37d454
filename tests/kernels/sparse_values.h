// Matrices that keep two of each four neighbours, as a file has them, for tests of products.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops/matmul_quantized.h"
#include "testing.h"

namespace testing {

namespace ops = nvllm::ops;
using nvllm::ConstTensorView;
using nvllm::DType;

// Two of each four values, some of them zeros, as a file has them and as what they mean.
struct SparseValues {
    ops::QuantizedLayout layout;
    std::vector<uint8_t> stored;   // [out, in / 2] of the code's plain type
    std::vector<uint8_t> places;   // [out, ceil(in / 8)]
    std::vector<double> meanings;  // [out, in]

    // `float8`: what a byte means.
    SparseValues(const ops::QuantizedLayout& wanted, double (*float8)(uint8_t)) : layout(wanted) {
        Random random(7);
        places.assign(static_cast<size_t>(layout.out * mask_bytes()), 0);
        meanings.assign(static_cast<size_t>(layout.out * layout.in), 0.0);
        for (int64_t four = 0; four < layout.out * layout.in / 4; ++four) {
            const int64_t row = four * 4 / layout.in, k = four * 4 % layout.in;
            const int64_t first = random.below(3);
            for (const int64_t place : {first, first + 1 + random.below(3 - first)}) {
                places[static_cast<size_t>(row * mask_bytes() + (k + place) / 8)] |=
                    static_cast<uint8_t>(1 << ((k + place) % 8));
                const bool is_zero = random.below(8) == 0;
                const auto bits = static_cast<uint8_t>(random.next() >> 20);
                const float value = random.uniform();
                meanings[static_cast<size_t>(row * layout.in + k + place)] =
                    is_zero ? store(0, 0.0f, float8) : store(bits, value, float8);
            }
        }
    }

    bool keeps(int64_t row, int64_t k) const {
        return (places[static_cast<size_t>(row * mask_bytes() + k / 8)] >> (k % 8) & 1) != 0;
    }

    // As ops::pack_weight() takes them, but for scales.
    ops::UnpackedQuantizedWeight plain() const {
        ops::UnpackedQuantizedWeight plain;
        plain.codes = ConstTensorView(stored.data(), ops::plain_type(layout.code),
                                      {layout.out, layout.in / 2});
        plain.places = ConstTensorView(places.data(), DType::u8, {layout.out, mask_bytes()});
        return plain;
    }

  private:
    int64_t mask_bytes() const { return (layout.in + 7) / 8; }

    // What is stored then means.
    double store(uint8_t bits, float value, double (*float8)(uint8_t)) {
        if (layout.code == ops::WeightFormat::sparse_float8) {
            stored.push_back((bits & 127) == 127 ? uint8_t{0} : bits);  // no NaN
            return float8(stored.back());
        }
        Buffer one(ops::plain_type(layout.code), std::vector<float>{value});
        const auto* bytes = one.view({1}).as<uint8_t>();
        stored.insert(stored.end(), bytes, bytes + 2);
        return one[0];
    }
};

}  // namespace testing
