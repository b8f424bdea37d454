// Batches of sequences laid out in paged storage, as attention is given them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/ops/attention.h"
#include "kernels/ops/kv_cache.h"
#include "testing.h"

namespace testing {

struct AttentionShape {
    int64_t heads, kv_heads, head_dim;
    nvllm::DType dtype;
    int64_t value_dim = 0;  // of values that are dimensions of keys; 0: they are stored themselves

    int64_t width() const { return heads * head_dim; }
};

// Tokens of one sequence: their queries, keys and values.
struct AttentionText {
    int64_t length;
    std::vector<float> queries, keys, values;

    AttentionText(const AttentionShape& shape, int64_t tokens, uint64_t seed)
        : length(tokens),
          queries(Random(seed).values(tokens * shape.width(), 2.0f)),
          keys(Random(seed + 1).values(tokens * shape.kv_heads * shape.head_dim, 2.0f)),
          values(Random(seed + 2).values(tokens * shape.kv_heads * shape.head_dim)) {}
};

// The first `length` tokens of a text, of which the last `count` are computed and all before them
// are in the cache.
struct AttentionPart {
    const AttentionText* text;
    int64_t length;
    int64_t count;
};

// What must not be read is NaN or no block at all: storage that was never written, the gaps between
// rows of queries, tables before the window.
class AttentionBatch {
  public:
    AttentionBatch(const nvllm::Context& context, const AttentionShape& shape, int64_t block_size,
                   const nvllm::ops::PagedAttentionOptions& options,
                   const std::vector<AttentionPart>& parts)
        : shape_(shape),
          block_size_(block_size),
          options_(options),
          sequences_(static_cast<int64_t>(parts.size())),
          max_blocks_(longest(parts) / block_size + 2),
          blocks_(max_blocks_ * sequences_ + 3),
          keys_(shape.dtype, unwritten()),
          values_(shape.dtype, unwritten()),
          key_scales_(static_cast<size_t>(blocks_ * shape.kv_heads * block_size), std::nanf("")),
          value_scales_(key_scales_),
          tables_(static_cast<size_t>(sequences_ * max_blocks_), 1 << 30) {
        options_.scales.keys = view(key_scales_, {blocks_, shape.kv_heads, block_size});
        options_.scales.values = view(value_scales_, {blocks_, shape.kv_heads, block_size});
        options_.value_dim = shape.value_dim;
        for (int64_t s = 0; s < sequences_; ++s) add(context, s, parts[static_cast<size_t>(s)]);
        out_.resize(static_cast<size_t>(starts_.back() * shape.heads * value_dim()));
    }

    // [tokens, heads, head_dim], or value_dim.
    const std::vector<float>& run(const nvllm::Context& context) {
        const int64_t tokens = starts_.back();
        nvllm::ops::paged_attention(context,
                                    matrix(queries_, tokens, shape_.width(), shape_.width() + kGap)
                                        .split_last(shape_.heads),
                                    key_view(), value_view(), view(starts_, {sequences_ + 1}),
                                    view(lengths_, {sequences_}),
                                    view(tables_, {sequences_, max_blocks_}), options_,
                                    view(out_, {tokens, shape_.heads, value_dim()}));
        return out_;
    }

  private:
    static constexpr int64_t kGap = 3;  // between rows of queries

    static int64_t longest(const std::vector<AttentionPart>& parts) {
        int64_t most = 0;
        for (const AttentionPart& part : parts) most = std::max(most, part.length);
        return most;
    }
    std::vector<float> unwritten() const {
        const int64_t count = blocks_ * shape_.kv_heads * block_size_ * shape_.head_dim;
        return std::vector<float>(static_cast<size_t>(count), std::nanf(""));
    }
    nvllm::TensorView key_view() {
        return keys_.view({blocks_, shape_.kv_heads, shape_.head_dim, block_size_});
    }
    int64_t value_dim() const { return shape_.value_dim > 0 ? shape_.value_dim : shape_.head_dim; }
    nvllm::TensorView value_view() {
        if (shape_.value_dim > 0) return {};
        return values_.view({blocks_, shape_.kv_heads, block_size_, shape_.head_dim});
    }

    void add(const nvllm::Context& context, int64_t sequence, const AttentionPart& part) {
        write_cache(context, *part.text, part.length, take_slots(sequence, part.length));
        if (options_.window > 0) drop_before_window(sequence, part);
        add_queries(part);
        starts_.push_back(starts_.back() + static_cast<int32_t>(part.count));
        lengths_.push_back(static_cast<int32_t>(part.length));
    }

    // Blocks lie in no order: each sequence takes every `sequences`-th, from the end.
    std::vector<int64_t> take_slots(int64_t sequence, int64_t length) {
        std::vector<int64_t> slots;
        for (int64_t p = 0; p < length; ++p) {
            const int64_t block = blocks_ - 1 - (p / block_size_ * sequences_ + sequence);
            tables_[static_cast<size_t>(sequence * max_blocks_ + p / block_size_)] =
                static_cast<int32_t>(block);
            slots.push_back(block * block_size_ + p % block_size_);
        }
        return slots;
    }

    void write_cache(const nvllm::Context& context, const AttentionText& text, int64_t length,
                     std::vector<int64_t> slots) {
        std::vector<float> keys = text.keys, values = text.values;
        const auto rows = [&](std::vector<float>& all) {
            return view(all, {text.length, shape_.kv_heads, shape_.head_dim}).rows(0, length);
        };
        nvllm::ops::write_kv(context, rows(keys), rows(values), view(slots, {length}), key_view(),
                             value_view(), options_.scales);
    }

    void drop_before_window(int64_t sequence, const AttentionPart& part) {
        const int64_t first = std::max<int64_t>(0, part.length - part.count + 1 - options_.window);
        for (int64_t b = 0; b < first / block_size_; ++b)
            tables_[static_cast<size_t>(sequence * max_blocks_ + b)] = -7;
    }

    void add_queries(const AttentionPart& part) {
        const int64_t width = shape_.width();
        for (int64_t t = part.length - part.count; t < part.length; ++t) {
            const auto row = part.text->queries.begin() + t * width;
            queries_.insert(queries_.end(), row, row + width);
            queries_.resize(queries_.size() + kGap, std::nanf(""));
        }
    }

    AttentionShape shape_;
    int64_t block_size_;
    nvllm::ops::PagedAttentionOptions options_;
    int64_t sequences_, max_blocks_, blocks_;
    Buffer keys_, values_;
    std::vector<float> key_scales_, value_scales_;
    std::vector<int32_t> tables_, starts_ = {0}, lengths_;
    std::vector<float> queries_, out_;
};

}  // namespace testing
