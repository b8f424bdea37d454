// Proposes the drafts of the next step by a model or a head, when a step's tokens are chosen.
//
// A first pass computes the rows that are missing: of a head the same rows as the target in each
// step, whose states are there no longer after it; of a draft model those of sequences that want
// drafts, so that without drafts it takes no time. Behind it each pass makes one level of the tree
// of every sequence that wants drafts: a node sees the nodes that it descends from in the method's
// own cache, where those that are computed lie one behind the other. Of a head the last row of a
// block may have been computed with another token after it, by the sequence that the block is
// shared with: drafts there may be worse, answers are the same.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/context.h"
#include "lib/decode/sampler.h"
#include "lib/execute/batch_builder.h"
#include "lib/execute/plan_extras.h"
#include "lib/execute/propose/draft_storage.h"
#include "lib/execute/propose/draft_tree.h"
#include "lib/execute/propose/model_proposer.h"
#include "lib/execute/step_in_flight.h"
#include "lib/execute/worker_config.h"
#include "lib/execute/worker_sequences.h"
#include "lib/model/model.h"
#include "lib/model/step_scratch.h"
#include "lib/request/batch_plan.h"

namespace nvllm {

class DraftRunner {
  public:
    // `target` and `threads` outlive it. The target computes on the CPU.
    DraftRunner(std::unique_ptr<ModelProposer> proposer, Model& target, const WorkerConfig& config,
                DraftShape shape, ThreadPool& threads);

    const ModelProposer& proposer() const { return *proposer_; }
    const DraftStorage& storage() const { return storage_; }

    // What the plan does to blocks; the bytes between device and host.
    uint64_t move_blocks(const Context& context, const BatchPlan& plan) {
        return storage_.move_blocks(context, plan);
    }
    // Before the target's pass over so many rows: the states that it is to keep; null: none.
    const AuxHiddenStates* expect(const Context& context, int64_t tokens);
    // Fills step.next_drafts and the time that they took. A sequence of which too many rows are
    // missing gets none and is caught up. `hidden`: of the target's pass, [tokens,
    // hidden]. REQUIRES: step.result has the tokens that the plan's entries choose, which
    // `sequences` do not know yet.
    void propose(const ForwardContext& batch, const TensorView& hidden, const BatchPlan& plan,
                 const PlanExtras& extras, const WorkerSequences& sequences, StepInFlight& step);

    // What its passes take of scratch beside the target's largest step. The weights may have no
    // values.
    static size_t scratch_bytes(ModelProposer& proposer, int64_t target_hidden,
                                const LargestStep& step, int32_t max_num_seqs, int32_t tree_width);

  private:
    // The rows of an entry, and its drafts.
    struct Chain {
        size_t entry = 0;
        const WorkerSequence* sequence = nullptr;
        int32_t first = 0;         // row of the first pass
        int32_t count = 0;         // of those
        int32_t num_computed = 0;  // rows of the target
        int32_t num_wanted = 0;
        DraftTree tree;                          // of those that are wanted
        int64_t first_of_target = 0;             // row of the target's pass with the same position
        int32_t num_before_drafts = 0;           // rows of that pass before the first draft
        std::span<const int32_t> accepted_rows;  // of drafts, as DraftTokens counts them
        // Tokens after those that the sequence knows: the chosen ones, then computed drafts.
        std::vector<int32_t> following;
        int32_t num_grown = 0;  // of them, those that the next pass computes
        // The sequence's block tables with more blocks, where drafts lie behind them.
        std::vector<std::vector<int32_t>> tables;

        // Where in the target's pass the sequence's row is that is at the position of row `row`.
        int32_t row_of_target(int32_t row) const {
            const int32_t draft = row - num_before_drafts;
            if (draft < 0) return row;
            return num_before_drafts - 1 + accepted_rows[static_cast<size_t>(draft)];
        }
        // Position of the row that drafts follow.
        int32_t last_position() const { return first + count - 1; }
    };
    // A row whose children are wanted: a node, or -1 for the row that drafts follow.
    struct Grown {
        Chain* chain = nullptr;
        int32_t node = -1;
    };

    Context own_context(const Context& context);
    void list_chains(const BatchPlan& plan, const PlanExtras& extras,
                     const WorkerSequences& sequences, const StepInFlight& step);
    // Whether rows are computed when drafts are wanted, and not when the target computes its own.
    bool is_late() const { return proposer_->tokens_ahead() == 0 && storage_.counts_rows(); }
    // `room`: rows that a first pass over missing rows may have.
    Chain chain_of(const PlanEntry& entry, const WorkerSequence& sequence, int32_t num_wanted,
                   std::span<const int32_t> chosen, int32_t room) const;
    // The rows of the first pass that are as many as the target has computed.
    void choose_computed_rows(const PlanEntry& entry, int32_t num_known, Chain& chain) const;
    // Those that are missing, as far as a pass has room for them.
    void choose_missing_rows(int32_t num_known, int32_t room, Chain& chain) const;
    // The part of the first pass's time that drafts take in each step.
    double usual_share() const;
    void lengthen_tables(Chain& chain, size_t index) const;
    BatchRow first_row_of(const Chain& chain) const;
    // Of the nodes that have grown last.
    BatchRow grown_row_of(const Chain& chain) const;
    // Views of rows_.
    ForwardContext lay_out(const Context& context);
    // Tokens that the method does not know become others: they may follow all the same.
    void limit_tokens(const ForwardContext& batch) const;
    // The states that the first pass reads of the target.
    ConstTensorView states_of_target(const Context& context, const TensorView& hidden);
    // The likeliest tokens after each row of logits, best first, by their columns.
    void find_children(const Context& context, const TensorView& logits, size_t first);
    // Adds children to what has grown. states: [rows of grown_, width].
    void add_children(const Context& context, const ConstTensorView& states);
    // Of each tree the nodes that go on: they become grown_, and the rows of their parents among
    // those before indices_. False: all trees are done.
    bool grow();
    // kept: [wanting * width, state_width], with the states of the rows that drafts follow.
    void add_trees(const Context& context, const TensorView& kept);
    ConstTensorView indices_view() const;

    std::unique_ptr<ModelProposer> proposer_;
    Model& target_;
    int64_t max_logit_rows_;
    int32_t block_size_;
    int32_t max_rows_;  // of a first pass over missing rows
    DraftShape shape_;
    ScratchArena arena_;
    DraftStorage storage_;
    BatchBuilder builder_;
    AuxHiddenStates aux_;
    // Of the step at hand.
    std::vector<Chain> chains_;
    std::vector<Chain*> wanting_;
    std::vector<Grown> grown_;
    std::vector<std::vector<TokenLogprob>> children_;  // of grown_
    std::vector<SamplerScratch> scratch_;              // one a thread
    std::vector<BatchRow> rows_;
    std::vector<int32_t> indices_;
    std::vector<GroupTables> tables_;
};

}  // namespace nvllm
