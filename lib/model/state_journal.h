// What the ops over states read in a step, so that they can be done again over fewer tokens.
//
// A state cannot go back. Where the last tokens of a step may be rejected, states are kept as they
// were before it, and afterwards the ops go once more from there over the tokens that stay: each
// token is computed from the state that the one before it left, so that what comes has the bits of
// a step without the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/context.h"
#include "kernels/ops/linear_attention.h"
#include "kernels/view.h"

namespace nvllm {

// A sequence of the batch some of whose rows may be rejected.
struct UncertainRows {
    int64_t first = 0;               // row of the batch
    int64_t count = 0;               // rows
    int64_t num_before = 0;          // tokens of the sequence before them; at least one
    std::span<const int32_t> slots;  // of its states, by cache group
};

// One pass at a time. What it keeps grows to the most that a step needed.
class StateJournal {
  public:
    explicit StateJournal(const ComputeDevice& device = {}, size_t reserved_bytes = 0)
        : kept_(reserved_bytes, device) {}
    // One that counts and has no memory (kernels/host/dry_run.h).
    static StateJournal of_dry_run() { return StateJournal(ScratchArena::of_dry_run()); }

    // Before a pass; what was noted of an earlier one goes. The slots outlive it.
    void begin(const Context& context, std::vector<UncertainRows> rows);

    // What the ops are handed, of a layer of that group; what they read of the rows is copied.
    void note_convolution(const Context& context, int32_t group, const ConstTensorView& x,
                          const ops::ConvWeights& weights, const TensorView& states);
    void note_attention(const Context& context, int32_t group,
                        const ops::LinearAttentionInput& input, const TensorView& states);

    // All that was noted of the `index`-th sequence, over its first `count` rows, from the states
    // that its slots hold. REQUIRES: 0 < count <= its rows.
    void repeat(const Context& context, size_t index, int64_t count);

    // The most that was kept at one time.
    size_t bytes() const { return kept_.peak_bytes(); }

  private:
    explicit StateJournal(ScratchArena&& kept) : kept_(std::move(kept)) {}
    struct Convolution {
        ConstTensorView x;
        ops::ConvWeights weights;
    };
    struct Noted {
        int32_t group = 0;
        TensorView states;
        std::variant<Convolution, ops::LinearAttentionInput> op;
    };
    // The uncertain rows of x [tokens, ...], one after another.
    ConstTensorView keep(const Context& context, const ConstTensorView& x);

    ScratchArena kept_;
    size_t num_growths_ = 0;
    std::vector<UncertainRows> rows_;
    int64_t num_rows_ = 0;  // of all
    std::vector<Noted> noted_;
};

}  // namespace nvllm
