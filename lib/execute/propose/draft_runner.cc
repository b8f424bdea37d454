// The passes of a draft method over the sequences of a plan.
#include "lib/execute/propose/draft_runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/error.h"
#include "kernels/host/dry_run.h"
#include "kernels/host/thread_pool.h"
#include "kernels/ops/elementwise.h"
#include "lib/execute/worker.h"
#include "lib/model/dry_batch.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {
namespace {

// The first of the largest; what is no number is none.
int64_t find_largest(std::span<const float> values) {
    int64_t best = 0;
    for (int64_t i = 1; i < std::ssize(values); ++i) {
        if (values[static_cast<size_t>(i)] > values[static_cast<size_t>(best)]) best = i;
    }
    return best;
}

int64_t states_width(const TargetStates& states, int64_t hidden) {
    return hidden * std::ssize(states.layers);
}

}  // namespace

DraftRunner::DraftRunner(std::unique_ptr<ModelProposer> proposer, Model& target,
                         const WorkerConfig& config, DraftShape shape, ThreadPool& threads)
    : proposer_(std::move(proposer)),
      target_(target),
      max_logit_rows_(Worker::max_logit_rows(config.max_num_seqs)),
      block_size_(config.block_size),
      max_rows_(config.max_num_batched_tokens),
      shape_(shape),
      arena_(scratch_bytes(
          *proposer_, target.config().hidden_size,
          {config.max_num_batched_tokens, max_logit_rows_, threads.num_threads(), {}, DType::f32},
          config.max_num_seqs, shape.width)),
      storage_(target.kv_groups(), proposer_->kv_groups(), config, shape.num_rows()),
      builder_(target.kv_groups(), config.block_size, {}, proposer_->has_rope_choices()),
      scratch_(static_cast<size_t>(threads.num_threads())) {}

size_t DraftRunner::scratch_bytes(ModelProposer& proposer, int64_t target_hidden,
                                  const LargestStep& step, int32_t max_num_seqs,
                                  int32_t tree_width) {
    const DryRun dry(step.device, step.activations, step.num_threads);
    const Context& context = dry.context();
    // Of each sequence one row more than the target computes, or a level of a tree.
    const int64_t most_grown = int64_t{max_num_seqs} * tree_width;
    for (int64_t tokens = std::max(step.tokens + max_num_seqs, most_grown); tokens > 0;
         tokens /= 2) {
        const ScratchArena::Scope scope(*context.scratch);
        const DryBatch made(proposer.kv_groups(), dry, tokens);
        const TargetStates& read = proposer.target_states();
        ConstTensorView states;
        if (!read.layers.empty()) {
            const int64_t width = states_width(read, target_hidden);
            take_activations(context, {tokens, width});
            states = take_activations(context, {tokens, width});
        } else if (read.last) {
            take_activations(context, {tokens, target_hidden});
            states = take_activations(context, {tokens, target_hidden});
        }
        const int64_t width = proposer.state_width();
        for (int i = 0; i < 3; ++i) {
            take_activations(context, {std::min(most_grown, tokens), width});
        }
        const TensorView out = proposer.begin(made.batch(), states);
        proposer.logits(context, out.rows(0, std::min(step.rows, tokens)));
    }
    return dry.scratch_bytes();
}

Context DraftRunner::own_context(const Context& context) {
    NVLLM_CHECK(ComputeDevice(context).is_cpu(), "drafts of a model are made on the CPU");
    Context own = context;
    // All of the draft's model is here.
    own.tensor_ranks = nullptr;
    own.expert_ranks = nullptr;
    own.pipeline = nullptr;
    own.scratch = &arena_;
    return own;
}

const AuxHiddenStates* DraftRunner::expect(const Context& context, int64_t tokens) {
    arena_.reset();
    const TargetStates& read = proposer_->target_states();
    if (read.layers.empty()) return nullptr;
    const int64_t width = states_width(read, target_.config().hidden_size);
    aux_ = {read.layers, take_activations(own_context(context), {tokens, width})};
    return &aux_;
}

void DraftRunner::propose(const ForwardContext& batch, const TensorView& hidden,
                          const BatchPlan& plan, const PlanExtras& extras,
                          const WorkerSequences& sequences, StepInFlight& step) {
    list_chains(plan, extras, sequences, step);
    if (chains_.empty()) return;
    const Context context = own_context(*batch.context);
    const auto num_wanting = std::ssize(wanting_);
    auto began = std::chrono::steady_clock::now();
    const auto passed_ms = [&] {
        const std::chrono::duration<double, std::milli> passed =
            std::chrono::steady_clock::now() - began;
        return passed.count();
    };
    const TensorView kept = take_activations(
        context, {std::max<int64_t>(num_wanting, 1) * shape_.width, proposer_->state_width()});
    {
        const ScratchArena::Scope scope(arena_);
        rows_.clear();
        for (const Chain& chain : chains_) rows_.push_back(first_row_of(chain));
        const ForwardContext rows = lay_out(context);
        const TensorView out = proposer_->begin(rows, states_of_target(context, hidden));
        if (num_wanting > 0) {
            ops::gather_rows(context, out, builder_.logit_rows(), kept.rows(0, num_wanting));
        }
    }
    // The time that it takes in any case, and what a sequence was behind, are no drafts' time.
    step.result.draft_ms = passed_ms() * usual_share();
    for (const Chain& chain : chains_) {
        if (!is_late()) break;
        storage_.note_filled(chain.sequence->block_tables, chain.first + chain.count);
    }
    if (num_wanting == 0) return;
    began = std::chrono::steady_clock::now();
    add_trees(context, kept);
    for (const Chain& chain : chains_) {
        if (chain.num_wanted == 0) continue;
        step.next_drafts.emplace_back(chain.entry, chain.tree.best());
    }
    step.result.draft_ms += passed_ms();
}

// All of it where sequences are only caught up: the next step is not delayed by that.
double DraftRunner::usual_share() const {
    if (!is_late()) return 0.0;
    if (wanting_.empty()) return 1.0;
    int64_t rows = 0;
    int64_t usual = 0;
    for (const Chain& chain : chains_) {
        rows += chain.count;
        usual += std::min(chain.count, chain.num_computed + 1);
    }
    return static_cast<double>(usual) / static_cast<double>(rows);
}

// Each pass computes the nodes that go on and adds what follows them.
void DraftRunner::add_trees(const Context& context, const TensorView& kept) {
    grown_.clear();
    for (Chain* const chain : wanting_) grown_.push_back({chain, -1});
    TensorView states = kept.rows(0, std::ssize(grown_));
    while (true) {
        add_children(context, states);
        if (!grow()) return;
        const auto count = std::ssize(grown_);
        const ScratchArena::Scope scope(arena_);
        const TensorView before = take_activations(context, {count, states.dim(1)});
        ops::gather_rows(context, states, indices_view(), before);
        const TensorView out = proposer_->go_on(lay_out(context), before);
        states = kept.rows(0, count);
        ops::gather_rows(context, out, builder_.logit_rows(), states);
    }
}

bool DraftRunner::grow() {
    std::vector<Grown> next;
    indices_.clear();
    rows_.clear();
    for (size_t begin = 0; begin < grown_.size();) {
        Chain& chain = *grown_[begin].chain;
        size_t end = begin;
        while (end < grown_.size() && grown_[end].chain == &chain) ++end;
        const std::span<const int32_t> nodes = chain.tree.grow();
        for (const int32_t node : nodes) {
            size_t row = begin;
            while (grown_[row].node != chain.tree.node(node).parent) ++row;
            indices_.push_back(static_cast<int32_t>(row));
            next.push_back({&chain, node});
            chain.following.push_back(chain.tree.node(node).token);
        }
        chain.num_grown = static_cast<int32_t>(nodes.size());
        if (!nodes.empty()) rows_.push_back(grown_row_of(chain));
        begin = end;
    }
    grown_ = std::move(next);
    return !grown_.empty();
}

void DraftRunner::list_chains(const BatchPlan& plan, const PlanExtras& extras,
                              const WorkerSequences& sequences, const StepInFlight& step) {
    chains_.clear();
    wanting_.clear();
    int64_t row = 0;
    int32_t room = max_rows_;
    for (size_t i = 0; i < plan.entries.size(); ++i) {
        const PlanEntry& entry = plan.entries[i];
        Chain chain = chain_of(entry, sequences.at(entry.sequence), extras.num_next_drafts(i),
                               step.result.sequences[i].token_ids, room);
        chain.entry = i;
        chain.first_of_target = row;
        chain.num_before_drafts = entry.count - extras.drafts(i).size();
        const auto path = step.paths.find(i);
        if (path != step.paths.end()) chain.accepted_rows = path->second.rows;
        row += entry.count;
        room -= chain.count;
        if (chain.count > 0) chains_.push_back(std::move(chain));
    }
    for (Chain& chain : chains_) {
        if (chain.num_wanted == 0) continue;
        lengthen_tables(chain, wanting_.size());
        wanting_.push_back(&chain);
    }
}

DraftRunner::Chain DraftRunner::chain_of(const PlanEntry& entry, const WorkerSequence& sequence,
                                         int32_t num_wanted, std::span<const int32_t> chosen,
                                         int32_t room) const {
    Chain chain;
    chain.sequence = &sequence;
    chain.following.assign(chosen.begin(), chosen.end());
    chain.num_computed = entry.count;
    // A sequence that failed chose nothing.
    chain.num_wanted = chosen.empty() ? 0 : num_wanted;
    const auto num_known = static_cast<int32_t>(sequence.token_ids.size() + chosen.size());
    if (is_late()) {
        choose_missing_rows(num_known, room, chain);
    } else {
        choose_computed_rows(entry, num_known, chain);
    }
    const int64_t limit = proposer_->max_positions();
    if (chain.first + chain.count > limit) {
        chain.count = static_cast<int32_t>(std::max<int64_t>(0, limit - chain.first));
        chain.num_wanted = 0;
    }
    const auto levels =
        static_cast<int32_t>(std::min<int64_t>(shape_.depth, limit - chain.last_position()));
    if (levels <= 0) chain.num_wanted = 0;
    chain.tree = DraftTree({levels, shape_.width}, chain.num_wanted);
    return chain;
}

// Rejected drafts are not known tokens. What follows the last one, the target's state of which is
// not there yet, comes of its own row.
void DraftRunner::choose_computed_rows(const PlanEntry& entry, int32_t num_known,
                                       Chain& chain) const {
    const int32_t ahead = proposer_->tokens_ahead();
    int32_t end = std::min(entry.first + entry.count, num_known - ahead);
    if (ahead == 0 && chain.num_wanted > 0) end = num_known;
    chain.first = entry.first;
    chain.count = std::max(0, end - entry.first);
}

void DraftRunner::choose_missing_rows(int32_t num_known, int32_t room, Chain& chain) const {
    if (chain.num_wanted == 0) return;
    chain.first = std::min(storage_.first_missing(chain.sequence->block_tables), num_known - 1);
    chain.count = num_known - chain.first;
    if (chain.count <= room) return;
    chain.count = std::max(0, room);
    chain.num_wanted = 0;
}

void DraftRunner::lengthen_tables(Chain& chain, size_t index) const {
    const auto needed =
        static_cast<size_t>((chain.last_position() + chain.tree.most_rows()) / block_size_ + 1);
    const auto& own = chain.sequence->block_tables;
    const std::vector<CacheLayout>& groups = target_.kv_groups();
    const auto suffices = [&](size_t group) {
        // A state is in one slot, and drafts have none.
        return groups[group].is_state() || own[group].size() >= needed;
    };
    for (size_t group = 0; group < own.size(); ++group) {
        if (suffices(group)) continue;
        if (chain.tables.empty()) chain.tables = own;
        int32_t block = storage_.first_tail_block(group, index);
        while (chain.tables[group].size() < needed) chain.tables[group].push_back(block++);
    }
}

BatchRow DraftRunner::first_row_of(const Chain& chain) const {
    const WorkerSequence& sequence = *chain.sequence;
    const auto ahead = static_cast<size_t>(proposer_->tokens_ahead());
    BatchRow row{std::span(sequence.token_ids).subspan(ahead),
                 chain.tables.empty() ? sequence.block_tables : chain.tables};
    row.first = chain.first;
    row.count = chain.count;
    row.num_last_logits = chain.num_wanted > 0 ? 1 : 0;
    row.drafts = chain.following;
    row.rope_choice = sequence.rope_choice;
    return row;
}

BatchRow DraftRunner::grown_row_of(const Chain& chain) const {
    const DraftTokens& computed = chain.tree.computed();
    BatchRow row = first_row_of(chain);
    row.first = chain.last_position() + 1 + computed.size() - chain.num_grown;
    row.count = chain.num_grown;
    row.num_last_logits = chain.num_grown;
    if (computed.branches()) row.parents = computed.parents;
    return row;
}

ForwardContext DraftRunner::lay_out(const Context& context) {
    ForwardContext batch = builder_.build(rows_);
    limit_tokens(batch);
    batch.context = &context;
    tables_ = storage_.tables(batch.groups);
    batch.groups = tables_;
    batch.kv = storage_.layers();
    return batch;
}

void DraftRunner::limit_tokens(const ForwardContext& batch) const {
    const int64_t vocabulary = proposer_->vocab_size();
    if (vocabulary >= target_.config().vocab_size) return;
    // Of the builder's own memory.
    auto* const tokens = static_cast<int32_t*>(const_cast<void*>(batch.token_ids.data));
    for (int64_t row = 0; row < batch.tokens(); ++row) {
        if (tokens[row] >= vocabulary) tokens[row] = 0;
    }
}

ConstTensorView DraftRunner::states_of_target(const Context& context, const TensorView& hidden) {
    const TargetStates& read = proposer_->target_states();
    if (read.none()) return {};
    indices_.clear();
    for (const Chain& chain : chains_) {
        for (int32_t row = 0; row < chain.count; ++row) {
            indices_.push_back(static_cast<int32_t>(chain.first_of_target) +
                               chain.row_of_target(row));
        }
    }
    const TensorView& source = read.last ? hidden : aux_.out;
    const TensorView states = take_activations(context, {std::ssize(indices_), source.dim(1)});
    ops::gather_rows(context, source, indices_view(), states);
    if (!read.last) return states;
    ForwardContext batch;
    batch.context = &context;
    return target_.last_hidden(batch, states);
}

// A chain needs no confidences. After values that are no numbers nothing follows in a tree.
void DraftRunner::find_children(const Context& context, const TensorView& logits, size_t first) {
    const auto columns =
        static_cast<size_t>(std::min<int64_t>(logits.dim(1), target_.config().vocab_size));
    context.threads->parallel_for(logits.dim(0), 1, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t row = begin; row < end; ++row) {
            const std::span<const float> values(logits.as<float>() + row * logits.stride(0),
                                                columns);
            std::vector<TokenLogprob>& children = children_[first + static_cast<size_t>(row)];
            children.clear();
            if (shape_.width == 1) {
                children.push_back({static_cast<int32_t>(find_largest(values)), 0.0f});
                continue;
            }
            const int32_t count = std::min(shape_.width, static_cast<int32_t>(columns));
            const std::optional<Fault> fault =
                find_candidates(values, count, scratch_[static_cast<size_t>(thread)], children);
            if (fault) children.clear();
        }
    });
}

void DraftRunner::add_children(const Context& context, const ConstTensorView& states) {
    const auto num_rows = std::ssize(grown_);
    children_.resize(std::max(children_.size(), grown_.size()));
    for (int64_t begin = 0; begin < num_rows; begin += max_logit_rows_) {
        const ScratchArena::Scope scope(arena_);
        const int64_t count = std::min(max_logit_rows_, num_rows - begin);
        const TensorView logits = proposer_->logits(context, states.rows(begin, count));
        find_children(context, logits, static_cast<size_t>(begin));
    }
    for (size_t row = 0; row < grown_.size(); ++row) {
        for (const TokenLogprob& child : children_[row]) {
            grown_[row].chain->tree.add(grown_[row].node, proposer_->target_id(child.token_id),
                                        child.logprob);
        }
    }
}

ConstTensorView DraftRunner::indices_view() const {
    return {indices_.data(), DType::i32, {std::ssize(indices_)}};
}

}  // namespace nvllm
