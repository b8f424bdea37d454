// Runs a model by hand: paged sequences, steps of any cut, logits or last hidden states of every
// row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/host/thread_pool.h"
#include "lib/model/forward_pass.h"
#include "lib/model/loader.h"
#include "lib/tensor/tensor.h"

namespace nvllm::test {

// What to compute in one step for one sequence.
struct Work {
    size_t sequence = 0;
    std::vector<int32_t> tokens;
    // Of a tree: for each token the one of `tokens` that it follows, or -1; empty: a text.
    std::vector<int32_t> parents = {};
};

// Blocks are handed out in scattered order, so that nothing works by their being adjacent.
class Driver {
  public:
    Driver(Model& model, ThreadPool& threads, DType kv_dtype, int64_t block_size,
           size_t scratch_bytes = 0, int64_t num_blocks = 1021)
        : model_(model), arena_(scratch_bytes), block_size_(block_size), num_blocks_(num_blocks) {
        context_.scratch = &arena_;
        context_.threads = &threads;
        const auto& groups = model.kv_groups();
        layers_.resize(num_cached_layers(groups));
        for (size_t group = 0; group < groups.size(); ++group) {
            for (const int32_t layer : groups[group].layers) {
                KvLayer& kv = layers_[static_cast<size_t>(layer)];
                kv.group = static_cast<int32_t>(group);
                if (groups[group].is_state()) {
                    // A sequence's slot has the number of its first block.
                    constexpr auto kBytes = static_cast<int64_t>(sizeof(float));
                    kv.state =
                        storage(DType::f32, {num_blocks_, groups[group].state_bytes / kBytes});
                    continue;
                }
                kv.keys = storage(kv_dtype, {num_blocks_, groups[group].kv_heads,
                                             groups[group].head_dim, block_size_});
                if (groups[group].is_latent()) continue;
                kv.values = storage(kv_dtype, {num_blocks_, groups[group].kv_heads, block_size_,
                                               groups[group].head_dim});
            }
        }
    }

    // `rope_choice`: of models with an original_context().
    size_t add_sequence(int32_t rope_choice = 0) {
        sequences_.emplace_back().rope_choice = rope_choice;
        return sequences_.size() - 1;
    }

    // Logits of all tokens of the step, row by row.
    std::vector<float> step(const std::vector<Work>& batch) {
        lay_out(batch);
        const ForwardContext forward = forward_context();
        const TensorView logits = model_.head(forward, run_blocks(forward));
        return {logits.as<float>(), logits.as<float>() + logits.numel()};
    }

    // States after `layers` blocks, side by side, of `tokens` of one new sequence, in one step.
    std::vector<float> aux_hidden_of(std::span<const int32_t> tokens,
                                     std::span<const int64_t> layers) {
        lay_out({{add_sequence(), {tokens.begin(), tokens.end()}}});
        const auto count = static_cast<int64_t>(tokens.size());
        const auto width = static_cast<int64_t>(layers.size()) * model_.config().hidden_size;
        std::vector<float> out(static_cast<size_t>(count * width));
        const AuxHiddenStates aux{layers, TensorView(out.data(), DType::f32, {count, width})};
        ForwardContext forward = forward_context();
        forward.aux_hidden = &aux;
        arena_.reset();
        nvllm::run_blocks(model_, forward);
        return out;
    }

    // The same of what the model says at its end.
    std::vector<float> hidden_step(const std::vector<Work>& batch) {
        lay_out(batch);
        const ForwardContext forward = forward_context();
        const ConstTensorView hidden = model_.last_hidden(forward, run_blocks(forward));
        return {hidden.as<float>(), hidden.as<float>() + hidden.numel()};
    }

    // The values of the model's head of classes at every position of one new sequence.
    std::vector<float> classes_of(std::span<const int32_t> tokens) {
        lay_out({{add_sequence(), {tokens.begin(), tokens.end()}}});
        const ForwardContext forward = forward_context();
        const ConstTensorView hidden = model_.last_hidden(forward, run_blocks(forward));
        const TensorView values = model_.classify(forward, hidden);
        return {values.as<float>(), values.as<float>() + values.numel()};
    }

    // Logits of `tokens` of one new sequence, cut into chunks (0: one chunk).
    std::vector<float> logits_of(std::span<const int32_t> tokens, size_t chunk) {
        const size_t sequence = add_sequence();
        std::vector<float> all;
        const size_t size = chunk == 0 ? tokens.size() : chunk;
        for (size_t first = 0; first < tokens.size(); first += size) {
            const auto part = tokens.subspan(first, std::min(size, tokens.size() - first));
            const std::vector<float> rows = step({{sequence, {part.begin(), part.end()}}});
            all.insert(all.end(), rows.begin(), rows.end());
        }
        return all;
    }

    // Last hidden states of `tokens` of one new sequence, in one step.
    std::vector<float> hidden_of(std::span<const int32_t> tokens) {
        return hidden_step({{add_sequence(), {tokens.begin(), tokens.end()}}});
    }

    // The `count` tokens that greedy decoding appends to the prompt.
    std::vector<int32_t> greedy(std::span<const int32_t> prompt, size_t count) {
        const size_t sequence = add_sequence();
        std::vector<float> logits = step({{sequence, {prompt.begin(), prompt.end()}}});
        std::vector<int32_t> ids;
        while (true) {
            ids.push_back(last_choice(logits));
            if (ids.size() == count) return ids;
            logits = step({{sequence, {ids.back()}}});
        }
    }

    const ScratchArena& arena() const { return arena_; }
    // What has been cached, one a layer; zeros where nothing was.
    const std::vector<KvLayer>& layers() const { return layers_; }

  private:
    struct Sequence {
        int32_t rope_choice = 0;
        int32_t length = 0;
        std::vector<int32_t> blocks;
    };

    TensorView run_blocks(const ForwardContext& forward) {
        arena_.reset();
        model_.begin(forward);
        const TensorView hidden = model_.embed(forward);
        for (int32_t block = 0; block < model_.num_blocks(); ++block) {
            model_.block(block, forward, hidden);
        }
        return hidden;
    }

    TensorView storage(DType dtype, std::initializer_list<int64_t> shape) {
        tensors_.push_back(Tensor::allocate(dtype, shape));
        return tensors_.back().mutable_view();
    }

    int32_t last_choice(const std::vector<float>& logits) const {
        const auto row = logits.end() - static_cast<std::ptrdiff_t>(model_.config().vocab_size);
        return static_cast<int32_t>(std::max_element(row, logits.end()) - row);
    }

    // 389 and the prime 1021 have no common divisor: every block is handed out once.
    int32_t next_block() { return static_cast<int32_t>(389 * ++handed_out_ % num_blocks_); }

    void lay_out(const std::vector<Work>& batch) {
        ids_.clear();
        positions_.clear();
        rope_choices_.clear();
        parents_.clear();
        slots_.clear();
        starts_ = {0};
        lengths_.clear();
        size_t width = 1;
        for (const Work& work : batch) {
            add_rows(work);
            width = std::max(width, sequences_[work.sequence].blocks.size());
        }
        has_tree_ = std::any_of(batch.begin(), batch.end(),
                                [](const Work& work) { return !work.parents.empty(); });
        tables_.assign(batch.size() * width, 0);
        for (size_t row = 0; row < batch.size(); ++row) {
            const auto& blocks = sequences_[batch[row].sequence].blocks;
            std::copy(blocks.begin(), blocks.end(),
                      tables_.begin() + static_cast<std::ptrdiff_t>(row * width));
        }
    }

    void add_rows(const Work& work) {
        Sequence& sequence = sequences_[work.sequence];
        const auto first_row = static_cast<int32_t>(ids_.size());
        const int32_t length = sequence.length;
        for (size_t i = 0; i < work.tokens.size(); ++i) {
            const int64_t position = sequence.length++;
            if (position % block_size_ == 0) sequence.blocks.push_back(next_block());
            const int32_t parent =
                work.parents.empty() ? static_cast<int32_t>(i) - 1 : work.parents[i];
            parents_.push_back(parent);
            ids_.push_back(work.tokens[i]);
            positions_.push_back(
                parent < 0 ? length : positions_[static_cast<size_t>(first_row + parent)] + 1);
            rope_choices_.push_back(sequence.rope_choice);
            slots_.push_back(sequence.blocks.back() * block_size_ + position % block_size_);
        }
        starts_.push_back(static_cast<int32_t>(ids_.size()));
        lengths_.push_back(sequence.length);
    }

    ForwardContext forward_context() {
        const auto tokens = static_cast<int64_t>(ids_.size());
        const auto rows = static_cast<int64_t>(lengths_.size());
        const auto width = static_cast<int64_t>(tables_.size()) / rows;
        groups_.assign(model_.kv_groups().size(),
                       {ConstTensorView(tables_.data(), DType::i32, {rows, width}),
                        ConstTensorView(slots_.data(), DType::i64, {tokens})});
        ForwardContext forward;
        forward.context = &context_;
        forward.token_ids = ConstTensorView(ids_.data(), DType::i32, {tokens});
        forward.rows.positions = ConstTensorView(positions_.data(), DType::i32, {tokens});
        if (model_.original_context() > 0) {
            forward.rows.rope_choices = ConstTensorView(rope_choices_.data(), DType::i32, {tokens});
        }
        if (has_tree_)
            forward.rows.parents = ConstTensorView(parents_.data(), DType::i32, {tokens});
        forward.query_start_loc = ConstTensorView(starts_.data(), DType::i32, {rows + 1});
        forward.seq_lens = ConstTensorView(lengths_.data(), DType::i32, {rows});
        forward.groups = groups_;
        forward.kv = layers_;
        return forward;
    }

    Model& model_;
    ScratchArena arena_;
    Context context_;
    int64_t block_size_;
    int64_t num_blocks_;
    int64_t handed_out_ = 0;
    std::vector<Tensor> tensors_;
    std::vector<KvLayer> layers_;
    std::vector<Sequence> sequences_;
    std::vector<GroupTables> groups_;
    std::vector<int32_t> ids_, positions_, rope_choices_, parents_, starts_, lengths_, tables_;
    bool has_tree_ = false;
    std::vector<int64_t> slots_;
};

}  // namespace nvllm::test
