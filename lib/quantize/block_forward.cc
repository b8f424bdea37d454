// One sequence as a batch, in blocks of the cache that are always the same.
#include "lib/quantize/block_forward.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "kernels/error.h"
#include "kernels/host/thread_pool.h"
#include "lib/model/step_scratch.h"

namespace nvllm::quantize {
namespace {

constexpr int32_t kBlockSize = 16;
constexpr ops::KeyAxes kValueAxes = {3, 2};
// Rows of logits at one time: of a vocabulary of 128,256 they are 33 MB.
constexpr int64_t kLogitRows = 64;

int32_t blocks_for(int64_t tokens) {
    return static_cast<int32_t>((tokens + kBlockSize - 1) / kBlockSize);
}

std::vector<int32_t> blocks_of_groups(const Model& model, int64_t tokens) {
    std::vector<int32_t> blocks;
    for (const CacheLayout& group : model.kv_groups()) {
        blocks.push_back(group.is_state() ? 1 : blocks_for(tokens));
    }
    return blocks;
}

// Of the first positions of storage whose blocks are a sequence's in order.
void add_ranges(const TensorView& storage, const ops::KeyAxes& axes, int64_t tokens,
                SampleRanges& ranges) {
    const int64_t heads = storage.dim(1);
    const int64_t head_dim = storage.dim(axes.head_dim);
    ranges.next_sample();
    const std::span<ValueRange> sample = ranges.current();
    for (int64_t token = 0; token < tokens; ++token) {
        for (int64_t channel = 0; channel < heads * head_dim; ++channel) {
            const float value =
                storage.as<float>()[token / kBlockSize * storage.stride(0) +
                                    channel / head_dim * storage.stride(1) +
                                    channel % head_dim * storage.stride(axes.head_dim) +
                                    token % kBlockSize * storage.stride(axes.position)];
            sample[static_cast<size_t>(channel)].add(value);
        }
    }
}

}  // namespace

BlockForward::BlockForward(Model& model, ThreadPool& threads, int64_t most_tokens, DType kv_dtype)
    : model_(model),
      kv_(model.kv_groups(), blocks_of_groups(model, most_tokens), {}, kBlockSize, kv_dtype),
      builder_(model.kv_groups(), kBlockSize, {}, model.original_context() > 0),
      block_tables_(model.kv_groups().size()) {
    context_.scratch = &scratch_;
    context_.threads = &threads;
    const std::vector<int32_t> blocks = blocks_of_groups(model, most_tokens);
    for (size_t group = 0; group < blocks.size(); ++group) {
        block_tables_[group].resize(static_cast<size_t>(blocks[group]));
        std::iota(block_tables_[group].begin(), block_tables_[group].end(), 0);
    }
}

uint64_t BlockForward::planned_bytes(Model& model, int64_t most_tokens, int num_threads) {
    int64_t bytes = 0;
    for (const CacheLayout& group : model.kv_groups()) {
        bytes += group.bytes_per_token(DType::f32) * most_tokens + group.bytes_per_state();
    }
    return static_cast<uint64_t>(bytes) +
           step_scratch_bytes(model, {most_tokens, kLogitRows, num_threads});
}

ForwardContext BlockForward::lay_out(std::span<const int32_t> tokens) {
    scratch_.reset();
    BatchRow row;
    row.token_ids = tokens;
    row.block_tables = block_tables_;
    row.count = static_cast<int32_t>(tokens.size());
    row.rope_choice = row.count <= model_.original_context() ? 1 : 0;
    ForwardContext batch = builder_.build({&row, 1});
    batch.context = &context_;
    batch.kv = kv_.layers();
    model_.begin(batch);
    return batch;
}

void BlockForward::embed(std::span<const int32_t> tokens, const TensorView& hidden) {
    const ForwardContext batch = lay_out(tokens);
    const TensorView made = model_.embed(batch);
    NVLLM_CHECK(made.numel() == hidden.numel(), "hidden states of as many tokens");
    std::memcpy(hidden.data, made.data, static_cast<size_t>(made.numel()) * sizeof(float));
}

void BlockForward::block(int32_t index, std::span<const int32_t> tokens, const TensorView& hidden) {
    model_.block(index, lay_out(tokens), hidden);
}

CacheRanges BlockForward::cache_ranges(int32_t index, bool by_sample) const {
    const TensorView& values = kv_.layers()[static_cast<size_t>(index)].values;
    const SampleRanges ranges(values.dim(1) * values.dim(kValueAxes.head_dim), by_sample);
    return {ranges, ranges};
}

void BlockForward::add_cached(int32_t index, int64_t tokens, CacheRanges& ranges) const {
    const KvLayer& layer = kv_.layers()[static_cast<size_t>(index)];
    NVLLM_CHECK(layer.keys.dtype == DType::f32, "ranges of float32 keys and values");
    add_ranges(layer.keys, ops::key_axes({}), tokens, ranges.keys);
    add_ranges(layer.values, kValueAxes, tokens, ranges.values);
}

void BlockForward::logits(
    std::span<const int32_t> tokens, const TensorView& hidden,
    const std::function<void(int64_t first, const ConstTensorView& rows)>& rows) {
    const ForwardContext batch = lay_out(tokens);
    for (int64_t first = 0; first < hidden.dim(0); first += kLogitRows) {
        const ScratchArena::Scope scope(scratch_);
        const int64_t count = std::min(kLogitRows, hidden.dim(0) - first);
        rows(first, model_.head(batch, hidden.rows(first, count)));
    }
}

void BlockForward::run(
    std::span<const int32_t> tokens,
    const std::function<void(int64_t first, const ConstTensorView& rows)>& rows) {
    const int64_t hidden_size = model_.config().hidden_size;
    const Tensor hidden =
        Tensor::allocate(DType::f32, {static_cast<int64_t>(tokens.size()), hidden_size});
    embed(tokens, hidden.mutable_view());
    for (int32_t index = 0; index < model_.num_blocks(); ++index) {
        block(index, tokens, hidden.mutable_view());
    }
    logits(tokens, hidden.mutable_view(), rows);
}

}  // namespace nvllm::quantize
