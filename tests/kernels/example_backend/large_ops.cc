// Products, attention and the cache, as plain loops.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/error.h"
#include "ops.h"
#include "values.h"

namespace example {
namespace {

// The batch of one paged_attention().
struct Attention {
    const ConstTensorView& queries;
    const ConstTensorView& keys;
    const ConstTensorView& values;
    const ConstTensorView& tables;
    const nvllm::ops::PagedAttentionOptions& options;
    const TensorView& out;

    int64_t kv_head(int64_t head) const { return head / (queries.dim(1) / keys.dim(1)); }

    int64_t block_of(int64_t sequence, int64_t position) const {
        return host(tables.as<int32_t>())[offset(tables, {sequence, position / keys.dim(2)})];
    }

    // What joins the score of a position so far from the query's.
    float bias(int64_t head, int64_t distance) const {
        if (options.position_bias.data == nullptr) return 0.0f;
        const int64_t reach = options.position_bias.dim(1) / 2;
        return get(options.position_bias, {head, reach + std::clamp(distance, -reach, reach)});
    }

    float score(int64_t sequence, int64_t row, int64_t head, int64_t query,
                int64_t position) const {
        const int64_t block = block_of(sequence, position);
        float sum = 0.0f;
        for (int64_t i = 0; i < queries.dim(2); ++i) {
            sum += get(queries, {row, head, i}) *
                   get(keys, {block, kv_head(head), position % keys.dim(2), i});
        }
        sum = sum * options.scale + bias(head, position - query);
        return options.soft_cap > 0.0f ? options.soft_cap * std::tanh(sum / options.soft_cap) : sum;
    }

    // Of positions [first, last], by the row of position `query`.
    void attend(int64_t sequence, int64_t row, int64_t head, int64_t query, int64_t first,
                int64_t last) const {
        std::vector<float> weights;
        for (int64_t p = first; p <= last; ++p) {
            weights.push_back(score(sequence, row, head, query, p));
        }
        const bool has_sink = options.sinks.data != nullptr;
        float most = *std::ranges::max_element(weights);
        if (has_sink) most = std::max(most, get(options.sinks, {head}));
        float total = has_sink ? std::exp(get(options.sinks, {head}) - most) : 0.0f;
        for (float& weight : weights) total += weight = std::exp(weight - most);
        std::vector<float> sums(static_cast<size_t>(queries.dim(2)));
        for (int64_t p = first; p <= last; ++p) {
            const int64_t block = block_of(sequence, p);
            const float share = weights[static_cast<size_t>(p - first)] / total;
            for (int64_t i = 0; i < queries.dim(2); ++i) {
                sums[static_cast<size_t>(i)] +=
                    share * get(values, {block, kv_head(head), p % values.dim(2), i});
            }
        }
        for (int64_t i = 0; i < queries.dim(2); ++i) {
            set(out, {row, head, i}, sums[static_cast<size_t>(i)]);
        }
    }
};

}  // namespace

void attention_input(const Context& context, const nvllm::ops::AttentionInputOptions& options,
                     const TensorView& projected, const ConstTensorView& slots,
                     const TensorView& key_cache, const TensorView& value_cache) {
    const int64_t width = options.heads * value_cache.dim(3);
    const int64_t kv_width = options.kv_heads * value_cache.dim(3);
    const TensorView queries = projected.columns(0, width).split_last(options.heads);
    const TensorView keys = projected.columns(width, kv_width).split_last(options.kv_heads);
    const TensorView values =
        projected.columns(width + kv_width, kv_width).split_last(options.kv_heads);
    if (options.query_norm.data != nullptr) {
        example::rms_norm(context, queries, options.query_norm, options.query_norm_options,
                          queries);
    }
    if (options.key_norm.data != nullptr) {
        example::rms_norm(context, keys, options.key_norm, options.key_norm_options, keys);
    }
    if (options.cosines.data != nullptr) {
        example::rope(context, options.cosines, options.sines, options.pairs, queries);
        example::rope(context, options.cosines, options.sines, options.pairs, keys);
    }
    example::write_kv(context, keys, values, slots, key_cache, value_cache, options.scales);
}

void matmul(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
            const ConstTensorView& bias, nvllm::DType compute_type, nvllm::ops::MatmulOutput output,
            const TensorView& y) {
    if (context.is_dry_run()) return;
    std::vector<float> row(static_cast<size_t>(x.dim(1)));
    for (int64_t token = 0; token < x.dim(0); ++token) {
        for (int64_t k = 0; k < x.dim(1); ++k) {
            row[static_cast<size_t>(k)] = rounded(get(x, {token, k}), compute_type);
        }
        for (int64_t column = 0; column < weight.dim(0); ++column) {
            float sum =
                output == nvllm::ops::MatmulOutput::accumulate ? get(y, {token, column}) : 0.0f;
            const int64_t first = column * weight.stride(0);
            for (int64_t k = 0; k < x.dim(1); ++k) {
                sum += row[static_cast<size_t>(k)] * load(weight.data, weight.dtype, first + k);
            }
            if (bias.data != nullptr) sum += get(bias, {column});
            set(y, {token, column}, sum);
        }
    }
}

void write_kv(const Context&, const ConstTensorView& keys, const ConstTensorView& values,
              const ConstTensorView& slots, const TensorView& key_cache,
              const TensorView& value_cache, const nvllm::ops::KvScales&) {
    const int64_t block_size = value_cache.dim(2);
    for (int64_t row = 0; row < keys.dim(0); ++row) {
        const int64_t slot = host(slots.as<int64_t>())[row];
        const int64_t block = slot / block_size;
        for (int64_t head = 0; head < keys.dim(1); ++head) {
            for (int64_t i = 0; i < keys.dim(2); ++i) {
                set(key_cache, {block, head, slot % block_size, i}, get(keys, {row, head, i}));
                set(value_cache, {block, head, slot % block_size, i}, get(values, {row, head, i}));
            }
        }
    }
}

void copy_blocks(const Context&, const ConstTensorView& pairs, const ConstTensorView& source,
                 const TensorView& target) {
    const size_t bytes = static_cast<size_t>(source.stride(0)) * nvllm::dtype_bytes(source.dtype);
    for (int64_t pair = 0; pair < pairs.dim(0); ++pair) {
        const auto from = static_cast<size_t>(index_at(pairs, 2 * pair));
        const auto to = static_cast<size_t>(index_at(pairs, 2 * pair + 1));
        std::memmove(host(target.as<std::byte>()) + to * bytes,
                     host(source.as<std::byte>()) + from * bytes, bytes);
    }
}

void paged_attention(const Context& context, const ConstTensorView& queries,
                     const ConstTensorView& key_cache, const ConstTensorView& value_cache,
                     const ConstTensorView& query_start_loc, const ConstTensorView& seq_lens,
                     const ConstTensorView& block_tables,
                     const nvllm::ops::PagedAttentionOptions& options, const TensorView& out) {
    if (options.parents.data != nullptr) {
        throw nvllm::Error(nvllm::ErrorKind::unavailable,
                           "paged_attention: this device knows no trees");
    }
    if (context.is_dry_run()) return;
    const Attention attention{queries, key_cache, value_cache, block_tables, options, out};
    for (int64_t s = 0; s < seq_lens.dim(0); ++s) {
        const int64_t begin = index_at(query_start_loc, s);
        const int64_t end = index_at(query_start_loc, s + 1);
        const int64_t length = index_at(seq_lens, s);
        for (int64_t row = begin; row < end; ++row) {
            const int64_t position = length - end + row;
            const int64_t window = options.window > 0 ? options.window : length;
            const int64_t last =
                options.causal ? position : std::min(length, position + window) - 1;
            const int64_t first = options.chunk > 0 ? position - position % options.chunk
                                                    : std::max<int64_t>(0, position + 1 - window);
            for (int64_t head = 0; head < queries.dim(1); ++head) {
                attention.attend(s, row, head, position, first, last);
            }
        }
    }
}

}  // namespace example
