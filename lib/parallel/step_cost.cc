// Sums over the blocks of each stage.
#include "lib/parallel/step_cost.h"

#include <algorithm>
#include <cmath>

namespace nvllm {
namespace {

// Of so many tokens each choosing some experts, the share of experts that any chooses.
double share_of_experts(const ModelCost& model, int64_t tokens) {
    if (model.num_experts == 0) return 1.0;
    const double missed =
        1.0 - static_cast<double>(model.experts_per_token) / static_cast<double>(model.num_experts);
    return 1.0 - std::pow(missed, static_cast<double>(tokens));
}

// Of ranks that are neighbours by number.
const LinkSpec& link_of(const MachineSpec& machine, int32_t ranks) {
    return ranks <= machine.devices_per_host ? machine.within : machine.between;
}

class StageAdder {
  public:
    StageAdder(const ModelCost& model, const ParallelSizes& sizes, const MachineSpec& machine,
               const StepLoad& load)
        : model_(model),
          ranks_(sizes.tensor),
          machine_(machine),
          load_(load),
          link_(link_of(machine, sizes.tensor)),
          hidden_bytes_(
              static_cast<double>(load.sequences * model.hidden_size * machine.activation_bytes)) {}

    // That each of so many tokens is multiplied with.
    void add_weights(double read_bytes, double used_bytes, int64_t tokens, StageCost& cost) const {
        cost.read_s += read_bytes / machine_.read_bytes_per_s;
        cost.compute_s += 2.0 * used_bytes / model_.bytes_per_weight * static_cast<double>(tokens) /
                          machine_.operations_per_s;
    }

    void add_head(StageCost& cost) const {
        const auto head = static_cast<double>(model_.head_bytes);
        cost.weight_bytes += model_.head_bytes;
        add_weights(head, head, load_.sequences, cost);
        add_logits(cost);
    }

    void add_block(const BlockCost& block, StageCost& cost) const {
        const auto dense = static_cast<double>(block.weight_bytes - block.expert_bytes);
        cost.weight_bytes += block.weight_bytes;
        add_weights(dense, dense, load_.sequences, cost);
        if (block.expert_bytes > 0) add_experts(static_cast<double>(block.expert_bytes), cost);
        const auto cached =
            static_cast<uint64_t>(block.kv_bytes_per_token * load_.sequences * load_.context);
        cost.kv_bytes += cached;
        cost.read_s += static_cast<double>(cached) / machine_.read_bytes_per_s;
        for (int32_t i = 0; i < block.sums; ++i) add_sum(cost);
    }

    // The tokens of all replicas come to a rank's experts.
    void add_experts(double bytes, StageCost& cost) const {
        const int64_t tokens = load_.sequences * model_.expert_replicas;
        const double chosen =
            static_cast<double>(model_.experts_per_token) / static_cast<double>(model_.num_experts);
        add_weights(bytes * share_of_experts(model_, tokens), bytes * chosen, tokens, cost);
        if (model_.expert_ranks > 1) add_dispatch(cost);
    }

    // Counts, which experts, rows and results; then each tensor group has all its rows.
    void add_dispatch(StageCost& cost) const {
        const auto ranks = static_cast<double>(model_.expert_ranks);
        const auto per_token = static_cast<double>(model_.experts_per_token);
        const double elsewhere = 1.0 - 1.0 / ranks;
        const double reached = (ranks - 1.0) * (1.0 - std::pow(elsewhere, per_token));
        const double sent = hidden_bytes_ * (reached + per_token * elsewhere);
        const LinkSpec& link = link_of(machine_, model_.expert_ranks);
        cost.bytes_sent += sent;
        cost.link_s += 4.0 * link.latency_s + sent / ranks_ / link.bytes_per_s;
        cost.messages += 4;
        if (ranks_ == 1) return;
        const double gathered = (ranks_ - 1) * hidden_bytes_;
        cost.bytes_sent += gathered;
        cost.link_s += link_.latency_s + gathered / ranks_ / link_.bytes_per_s;
        ++cost.messages;
    }

    void add_sum(StageCost& cost) const {
        if (ranks_ == 1) return;
        const auto others = static_cast<double>(ranks_ - 1);
        cost.bytes_sent += 2.0 * others * hidden_bytes_;
        cost.link_s += 2.0 * link_.latency_s + 2.0 * others / static_cast<double>(ranks_) *
                                                   hidden_bytes_ / link_.bytes_per_s;
        ++cost.messages;
    }

    void add_logits(StageCost& cost) const {
        if (ranks_ == 1 || !model_.is_vocabulary_cut) return;
        const auto others = static_cast<double>(ranks_ - 1);
        const auto bytes = static_cast<double>(load_.sequences * model_.vocab_size) * sizeof(float);
        cost.bytes_sent += others * bytes;
        cost.link_s +=
            link_.latency_s + others / static_cast<double>(ranks_) * bytes / link_.bytes_per_s;
        ++cost.messages;
    }

    // To the next stage, from each rank to its neighbour there.
    void add_hand_over(const LinkSpec& link, StageCost& cost) const {
        cost.bytes_sent += static_cast<double>(ranks_) * hidden_bytes_;
        cost.link_s += link.latency_s + hidden_bytes_ / link.bytes_per_s;
        ++cost.messages;
    }

  private:
    const ModelCost& model_;
    int32_t ranks_;
    const MachineSpec& machine_;
    const StepLoad& load_;
    const LinkSpec& link_;
    double hidden_bytes_;
};

}  // namespace

StepCost step_cost(const ModelCost& model, const ParallelSizes& sizes,
                   std::span<const PipelineStage> stages, const MachineSpec& machine,
                   const StepLoad& load) {
    const PipelineStage whole{0, static_cast<int32_t>(model.blocks.size())};
    if (stages.empty()) stages = {&whole, 1};
    const StageAdder adder(model, sizes, machine, load);
    const LinkSpec& to_next = link_of(machine, 2 * sizes.tensor);
    StepCost step;
    for (size_t index = 0; index < stages.size(); ++index) {
        StageCost cost;
        if (index == 0) {
            cost.weight_bytes += model.embedding_bytes;
            if (model.is_vocabulary_cut) adder.add_sum(cost);
        }
        for (int32_t block = 0; block < stages[index].num_blocks; ++block) {
            adder.add_block(model.blocks[static_cast<size_t>(stages[index].first_block + block)],
                            cost);
        }
        if (index + 1 < stages.size()) {
            adder.add_hand_over(to_next, cost);
        } else {
            adder.add_head(cost);
        }
        step.latency_s += cost.total_s();
        step.rank_bytes += static_cast<uint64_t>(std::llround(cost.bytes_sent));
        step.messages += cost.messages;
        step.weight_bytes = std::max(step.weight_bytes, cost.weight_bytes);
        step.kv_bytes = std::max(step.kv_bytes, cost.kv_bytes);
        step.stages.push_back(cost);
        if (cost.total_s() <= step.stage_s) continue;
        step.stage_s = cost.total_s();
        step.read_s = cost.read_s;
        step.compute_s = cost.compute_s;
        step.link_s = cost.link_s;
    }
    // Each of the groups of sequences that take turns is kept.
    step.kv_bytes *= static_cast<uint64_t>(sizes.pipeline);
    return step;
}

}  // namespace nvllm
