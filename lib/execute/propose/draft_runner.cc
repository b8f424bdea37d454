// The passes of a draft method over the sequences of a plan.
#include "lib/execute/propose/draft_runner.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/error.h"
#include "kernels/host/dry_run.h"
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
                         const WorkerConfig& config, int32_t num_drafts, ThreadPool& threads)
    : proposer_(std::move(proposer)),
      target_(target),
      max_logit_rows_(Worker::max_logit_rows(config.max_num_seqs)),
      block_size_(config.block_size),
      max_rows_(config.max_num_batched_tokens),
      arena_(scratch_bytes(
          *proposer_, target.config().hidden_size,
          {config.max_num_batched_tokens, max_logit_rows_, threads.num_threads(), {}, DType::f32},
          config.max_num_seqs)),
      storage_(target.kv_groups(), proposer_->kv_groups(), config, num_drafts),
      builder_(target.kv_groups().size(), config.block_size, {}, proposer_->has_rope_choices()) {}

size_t DraftRunner::scratch_bytes(ModelProposer& proposer, int64_t target_hidden,
                                  const LargestStep& step, int32_t max_num_seqs) {
    const DryRun dry(step.device, step.activations, step.num_threads);
    const Context& context = dry.context();
    // Of each sequence one row more than the target computes.
    for (int64_t tokens = step.tokens + max_num_seqs; tokens > 0; tokens /= 2) {
        const ScratchArena::Scope scope(*context.scratch);
        const DryBatch made(proposer.kv_groups(), proposer.num_layers(), dry, tokens);
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
        const int64_t sequences = std::min<int64_t>(max_num_seqs, tokens);
        for (int i = 0; i < 3; ++i) take_activations(context, {sequences, width});
        const TensorView out = proposer.begin(made.batch(), states);
        proposer.logits(context, out.rows(0, std::min(step.rows, tokens)));
    }
    return dry.scratch_bytes();
}

Context DraftRunner::own_context(const Context& context) {
    NVLLM_CHECK(ComputeDevice(context).is_cpu(), "drafts of a model are made on the CPU");
    Context own = context;
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
    std::vector<Chain*> all;
    for (Chain& chain : chains_) all.push_back(&chain);
    const auto num_wanting = std::ssize(wanting_);
    auto began = std::chrono::steady_clock::now();
    const auto passed_ms = [&] {
        const std::chrono::duration<double, std::milli> passed =
            std::chrono::steady_clock::now() - began;
        return passed.count();
    };
    const TensorView kept =
        take_activations(context, {std::max<int64_t>(num_wanting, 1), proposer_->state_width()});
    {
        const ScratchArena::Scope scope(arena_);
        const ForwardContext rows = lay_out(context, all, 0);
        const TensorView out = proposer_->begin(rows, states_of_target(context, hidden));
        if (num_wanting > 0) ops::gather_rows(context, out, builder_.logit_rows(), kept);
    }
    // The time that it takes in any case, and what a sequence was behind, are no drafts' time.
    step.result.draft_ms = passed_ms() * usual_share();
    if (is_late()) note_filled();
    if (num_wanting == 0) return;
    began = std::chrono::steady_clock::now();
    add_chains(context, kept);
    for (Chain& chain : chains_) {
        if (chain.num_wanted == 0) continue;
        DraftTokens& drafts = step.next_drafts.emplace_back(chain.entry, DraftTokens{}).second;
        drafts.token_ids.assign(
            chain.following.begin() + static_cast<std::ptrdiff_t>(chain.num_chosen),
            chain.following.end());
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

void DraftRunner::note_filled() {
    for (const Chain& chain : chains_) {
        storage_.note_filled(chain.sequence->block_tables, chain.first + chain.count);
    }
}

// Each pass computes the rows of the last drafts and adds the next.
void DraftRunner::add_chains(const Context& context, const TensorView& kept) {
    TensorView states = kept;
    for (int32_t pass = 1;; ++pass) {
        add_drafts(context, states, wanting_);
        indices_.clear();
        std::vector<Chain*> left;
        for (size_t i = 0; i < wanting_.size(); ++i) {
            if (wanting_[i]->num_wanted <= pass) continue;
            left.push_back(wanting_[i]);
            indices_.push_back(static_cast<int32_t>(i));
        }
        if (left.empty()) return;
        wanting_ = std::move(left);
        const auto count = std::ssize(wanting_);
        const ScratchArena::Scope scope(arena_);
        const TensorView before = take_activations(context, {count, states.dim(1)});
        ops::gather_rows(context, states, indices_view(), before);
        const ForwardContext rows = lay_out(context, wanting_, pass);
        const TensorView out = proposer_->go_on(rows, before);
        states = kept.rows(0, count);
        ops::gather_rows(context, out, builder_.logit_rows(), states);
    }
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
    chain.num_chosen = chosen.size();
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
    chain.num_wanted =
        static_cast<int32_t>(std::min<int64_t>(chain.num_wanted, limit - chain.last_position(0)));
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
        static_cast<size_t>(chain.last_position(chain.num_wanted - 1) / block_size_ + 1);
    const auto& own = chain.sequence->block_tables;
    const bool suffice =
        std::ranges::all_of(own, [&](const auto& table) { return table.size() >= needed; });
    if (suffice) return;
    chain.tables = own;
    for (size_t group = 0; group < own.size(); ++group) {
        int32_t block = storage_.first_tail_block(group, index);
        while (chain.tables[group].size() < needed) chain.tables[group].push_back(block++);
    }
}

BatchRow DraftRunner::row_of(const Chain& chain, int32_t pass) const {
    const WorkerSequence& sequence = *chain.sequence;
    const auto ahead = static_cast<size_t>(proposer_->tokens_ahead());
    BatchRow row{std::span(sequence.token_ids).subspan(ahead),
                 chain.tables.empty() ? sequence.block_tables : chain.tables};
    row.first = pass == 0 ? chain.first : chain.last_position(pass);
    row.count = pass == 0 ? chain.count : 1;
    row.num_last_logits = chain.num_wanted > 0 ? 1 : 0;
    row.drafts = chain.following;
    row.rope_choice = sequence.rope_choice;
    return row;
}

ForwardContext DraftRunner::lay_out(const Context& context, std::span<Chain* const> chains,
                                    int32_t pass) {
    rows_.clear();
    for (const Chain* const chain : chains) rows_.push_back(row_of(*chain, pass));
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

void DraftRunner::add_drafts(const Context& context, const ConstTensorView& states,
                             std::span<Chain* const> chains) {
    const auto num_chains = std::ssize(chains);
    for (int64_t begin = 0; begin < num_chains; begin += max_logit_rows_) {
        const ScratchArena::Scope scope(arena_);
        const int64_t count = std::min(max_logit_rows_, num_chains - begin);
        const TensorView logits = proposer_->logits(context, states.rows(begin, count));
        const auto columns =
            static_cast<size_t>(std::min<int64_t>(logits.dim(1), target_.config().vocab_size));
        for (int64_t row = 0; row < count; ++row) {
            const float* const values = logits.as<float>() + row * logits.stride(0);
            const auto best = static_cast<int32_t>(find_largest({values, columns}));
            chains[static_cast<size_t>(begin + row)]->following.push_back(
                proposer_->target_id(best));
        }
    }
}

ConstTensorView DraftRunner::indices_view() const {
    return {indices_.data(), DType::i32, {std::ssize(indices_)}};
}

}  // namespace nvllm
