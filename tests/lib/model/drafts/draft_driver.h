// Runs a draft head by hand over one sequence, in steps of any cut.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/host/thread_pool.h"
#include "lib/model/drafts/draft_head.h"
#include "lib/tensor/tensor.h"

namespace nvllm::test {

struct DraftRows {
    std::vector<float> states;  // [tokens, hidden], of forward()
    std::vector<float> logits;  // [tokens, draft vocabulary]
};

class DraftDriver {
  public:
    DraftDriver(const DraftHead& head, ThreadPool& threads) : head_(head), arena_(0) {
        context_.scratch = &arena_;
        context_.threads = &threads;
        const CacheLayout& group = head.kv_groups().front();
        for (int32_t layer = 0; layer < head.num_blocks(); ++layer) {
            KvLayer kv;
            kv.keys = storage({kBlocks, group.kv_heads, group.head_dim, kBlockSize});
            if (!group.is_latent()) {
                kv.values = storage({kBlocks, group.kv_heads, kBlockSize, group.head_dim});
            }
            layers_.push_back(kv);
        }
        // Not adjacent, so that nothing works by their being so.
        for (int32_t block = 0; block < kBlocks; ++block) {
            table_.push_back(static_cast<int32_t>((block * 5 + 3) % kBlocks));
        }
    }

    // The next tokens of the sequence with the target's states.
    DraftRows step(std::span<const int32_t> tokens, std::span<const float> states) {
        return run(tokens, states, true);
    }
    // The same with states of the head's own.
    DraftRows draft(std::span<const int32_t> tokens, std::span<const float> states) {
        return run(tokens, states, false);
    }

  private:
    static constexpr int64_t kBlockSize = 4;
    static constexpr int64_t kBlocks = 32;

    TensorView storage(std::initializer_list<int64_t> shape) {
        tensors_.push_back(Tensor::allocate(DType::f32, shape));
        return tensors_.back().mutable_view();
    }

    DraftRows run(std::span<const int32_t> tokens, std::span<const float> states, bool fuses) {
        const auto count = static_cast<int64_t>(tokens.size());
        const auto width = static_cast<int64_t>(states.size()) / count;
        std::vector<int32_t> positions;
        std::vector<int64_t> slots;
        for (int64_t i = 0; i < count; ++i) {
            const int64_t position = length_++;
            positions.push_back(static_cast<int32_t>(position));
            slots.push_back(table_[static_cast<size_t>(position / kBlockSize)] * kBlockSize +
                            position % kBlockSize);
        }
        const std::vector<int32_t> starts = {0, static_cast<int32_t>(count)};
        const GroupTables tables{ConstTensorView(table_.data(), DType::i32, {1, kBlocks}),
                                 ConstTensorView(slots.data(), DType::i64, {count})};
        arena_.reset();
        ForwardContext batch;
        batch.context = &context_;
        batch.token_ids = ConstTensorView(tokens.data(), DType::i32, {count});
        batch.rows.positions = ConstTensorView(positions.data(), DType::i32, {count});
        batch.query_start_loc = ConstTensorView(starts.data(), DType::i32, {2});
        batch.seq_lens = ConstTensorView(&length_, DType::i32, {1});
        batch.groups = {&tables, 1};
        batch.kv = layers_;
        ConstTensorView hidden(states.data(), DType::f32, {count, width});
        if (fuses) hidden = head_.fuse(context_, hidden);
        const TensorView out = head_.forward(batch, hidden);
        const TensorView logits = head_.logits(context_, out);
        return {{out.as<float>(), out.as<float>() + out.numel()},
                {logits.as<float>(), logits.as<float>() + logits.numel()}};
    }

    const DraftHead& head_;
    ScratchArena arena_;
    Context context_;
    int32_t length_ = 0;
    std::vector<Tensor> tensors_;
    std::vector<KvLayer> layers_;
    std::vector<int32_t> table_;
};

}  // namespace nvllm::test
