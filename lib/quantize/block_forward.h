// Runs a model block by block over one sequence at a time, from hidden states that the caller
// keeps.
//
// Keys and values of one sequence are all that is held beside them. Used by one thread.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "lib/execute/batch_builder.h"
#include "lib/execute/kv_storage.h"
#include "lib/model/model.h"
#include "lib/quantize/sample_ranges.h"

namespace nvllm::quantize {

// Ranges of what a layer keeps of each token.
struct CacheRanges {
    SampleRanges keys;    // of kv_heads * head_dim channels, after the rotation
    SampleRanges values;  // alike
};

class BlockForward {
  public:
    // For sequences of at most `most_tokens`, their keys and values in `kv_dtype`. Model and
    // threads outlive it.
    BlockForward(Model& model, ThreadPool& threads, int64_t most_tokens,
                 DType kv_dtype = DType::f32);

    // Hidden states before the first block: hidden float32 [tokens, hidden].
    void embed(std::span<const int32_t> tokens, const TensorView& hidden);
    // Block `index` over hidden, in place.
    void block(int32_t index, std::span<const int32_t> tokens, const TensorView& hidden);
    // Of nothing yet, for add_cached of block `index`.
    CacheRanges cache_ranges(int32_t index, bool by_sample) const;
    // Counts what block `index` wrote for the first `tokens` positions of its last sequence, as one
    // sample. REQUIRES: keys and values in float32.
    void add_cached(int32_t index, int64_t tokens, CacheRanges& ranges) const;
    // Logits of all rows, a few rows at a time and in order: `rows` gets the number of the first
    // and float32 [rows, vocab].
    void logits(std::span<const int32_t> tokens, const TensorView& hidden,
                const std::function<void(int64_t first, const ConstTensorView& rows)>& rows);
    // All of it: embed, every block, logits.
    void run(std::span<const int32_t> tokens,
             const std::function<void(int64_t first, const ConstTensorView& rows)>& rows);

    Context& context() { return context_; }
    // Most bytes of keys, values and temporaries of such sequences on so many threads.
    static uint64_t planned_bytes(Model& model, int64_t most_tokens, int num_threads);

  private:
    ForwardContext lay_out(std::span<const int32_t> tokens);

    Model& model_;
    ScratchArena scratch_;
    Context context_;
    KvStorage kv_;
    BatchBuilder builder_;
    std::vector<std::vector<int32_t>> block_tables_;
};

}  // namespace nvllm::quantize
