// A batch of rows with adapters of several ranks and types over a linear of two parts, and what it
// should give.
#pragma once

#include <vector>

#include "kernels/ops/lora.h"
#include "reference.h"
#include "testing.h"

namespace testing {

// Outputs of both parts, and values between two rows of y.
struct LoraWidths {
    int64_t first, second, gap;
};
// Rows and parts that begin anywhere; and such as kernels may read eight values of at once.
constexpr LoraWidths kUnevenWidths = {37, 530, 3};
constexpr LoraWidths kEvenWidths = {40, 528, 8};

class LoraCase {
  public:
    static constexpr int64_t kSlots = 5, kParts = 2, kMaxRank = 21;

    // Row t has slots[t]. Of the slots the third one leaves the second part as it is, and the
    // fourth has a bias alone.
    LoraCase(int64_t in, std::vector<int32_t> slots, nvllm::DType dtype = nvllm::DType::f32,
             const LoraWidths& widths = kUnevenWidths)
        : in_(in), widths_(widths), slots_(std::move(slots)), x_(dtype, 0), y_(dtype, 0) {
        Random random(static_cast<uint64_t>(in));
        x_ = Buffer(dtype, random.values(tokens() * in));
        y_ = Buffer(dtype, random.values(tokens() * stride()));
        buffers_.reserve(4 * kSlots * kParts);
        for (int64_t slot = 1; slot <= kSlots; ++slot) {
            for (int64_t part = 0; part < kParts; ++part) add_pair(random, slot, part);
        }
    }

    int64_t tokens() const { return static_cast<int64_t>(slots_.size()); }
    // By the ops, or by those of a backend.
    std::vector<float> computed(
        const nvllm::Context& context,
        decltype(nvllm::ops::lora_shrink)* shrink = nvllm::ops::lora_shrink,
        decltype(nvllm::ops::lora_expand)* expand = nvllm::ops::lora_expand) {
        std::vector<float> inner(static_cast<size_t>(tokens() * kParts * kMaxRank));
        Buffer y = y_;
        const nvllm::ops::LoraLinear linear = {pairs_.data(), kSlots, kParts, kMaxRank};
        const nvllm::TensorView between = view(inner, {tokens(), kParts, kMaxRank});
        shrink(context, x_.view({tokens(), in_}), view(slots_, {tokens()}), linear, between);
        expand(context, between, view(slots_, {tokens()}), linear,
               y.matrix(tokens(), stride() - widths_.gap, stride()));
        std::vector<float> values;
        for (int64_t i = 0; i < y.size(); ++i) values.push_back(y[i]);
        return values;
    }
    // In double precision; and of each value the magnitude of what is summed.
    std::vector<double> expected(std::vector<double>& magnitudes) const {
        std::vector<double> y;
        for (int64_t i = 0; i < y_.size(); ++i) y.push_back(y_[i]);
        magnitudes.assign(y.size(), 1.0);
        for (int64_t t = 0; t < tokens(); ++t) {
            const int32_t slot = slots_[static_cast<size_t>(t)];
            for (int64_t part = 0; slot > 0 && part < kParts; ++part)
                add(t, slot, part, y, magnitudes);
        }
        return y;
    }
    // The same adapters with this row alone.
    LoraCase alone(int64_t row) const {
        LoraCase one(in_, {slots_[static_cast<size_t>(row)]}, dtype_of(x_), widths_);
        for (int64_t i = 0; i < in_; ++i) one.x_.set(i, x_[row * in_ + i]);
        for (int64_t i = 0; i < stride(); ++i) one.y_.set(i, y_[row * stride() + i]);
        // Made with other random numbers.
        one.pairs_ = pairs_;
        return one;
    }
    std::vector<float> row_of(const std::vector<float>& y, int64_t row) const {
        return {y.begin() + row * stride(), y.begin() + (row + 1) * stride()};
    }

  private:
    static nvllm::DType dtype_of(Buffer buffer) { return buffer.view({buffer.size()}).dtype; }

    static constexpr int32_t kRanks[kSlots] = {1, 16, 8, 0, kMaxRank};

    int64_t stride() const { return widths_.first + widths_.second + widths_.gap; }
    const nvllm::ops::LoraPair& pair(int64_t slot, int64_t part) const {
        return pairs_[static_cast<size_t>((slot - 1) * kParts + part)];
    }

    void add_pair(Random& random, int64_t slot, int64_t part) {
        nvllm::ops::LoraPair& pair = pairs_.emplace_back();
        sources_.emplace_back();
        if (slot == 3 && part == 1) return;
        const nvllm::DType dtype = kFloatTypes[slot % 3];
        pair.rank = kRanks[slot - 1];
        pair.out = part == 0 ? widths_.first : widths_.second;
        pair.first_column = part == 0 ? 0 : widths_.first;
        pair.scale = 0.25f * static_cast<float>(slot);
        pair.dtype = dtype;
        const auto keep = [&](nvllm::DType type, int64_t rows, int64_t columns) {
            buffers_.emplace_back(type, random.values(rows * columns));
            return &buffers_.back();
        };
        Source& source = sources_.back();
        if (pair.rank > 0) {
            source.a = keep(dtype, pair.rank, in_);
            source.b = keep(dtype, pair.rank, pair.out);
            pair.a = source.a->view({pair.rank, in_}).data;
            pair.b = source.b->view({pair.rank, pair.out}).data;
        }
        if (slot != 2) {
            source.bias = keep(nvllm::DType::f32, 1, pair.out);
            pair.bias = source.bias->view({pair.out}).as<float>();
        }
    }

    void add(int64_t row, int32_t slot, int64_t part, std::vector<double>& y,
             std::vector<double>& magnitudes) const {
        const nvllm::ops::LoraPair& of = pair(slot, part);
        const Source& source = sources_[static_cast<size_t>((slot - 1) * kParts + part)];
        for (int64_t o = 0; o < of.out; ++o) {
            reference::Dot outer;
            if (of.bias != nullptr) outer.add((*source.bias)[o], 1.0);
            for (int64_t r = 0; r < of.rank; ++r) {
                reference::Dot inner;
                for (int64_t k = 0; k < in_; ++k) {
                    inner.add(x_[row * in_ + k], (*source.a)[r * in_ + k]);
                }
                outer.add(static_cast<double>(of.scale) * inner.sum, (*source.b)[r * of.out + o]);
                magnitudes[static_cast<size_t>(row * stride() + of.first_column + o)] +=
                    inner.magnitude;
            }
            y[static_cast<size_t>(row * stride() + of.first_column + o)] += outer.sum;
        }
    }

    struct Source {
        Buffer* a = nullptr;
        Buffer* b = nullptr;
        Buffer* bias = nullptr;
    };
    int64_t in_;
    LoraWidths widths_;
    std::vector<int32_t> slots_;
    Buffer x_, y_;
    std::vector<nvllm::ops::LoraPair> pairs_;
    std::vector<Source> sources_;  // of the pairs
    std::vector<Buffer> buffers_;
};

}  // namespace testing
