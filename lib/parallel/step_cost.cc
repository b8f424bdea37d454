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

struct StageCost {
    double read_s = 0.0;
    double compute_s = 0.0;
    double link_s = 0.0;
    double bytes_sent = 0.0;  // by all ranks of the stage
    int64_t messages = 0;
    uint64_t weight_bytes = 0;
    uint64_t kv_bytes = 0;

    double total_s() const { return std::max(read_s, compute_s) + link_s; }
};

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

    void add_weights(uint64_t all, double read_bytes, double weights, StageCost& cost) const {
        cost.weight_bytes += all;
        cost.read_s += read_bytes / machine_.read_bytes_per_s;
        cost.compute_s +=
            2.0 * weights * static_cast<double>(load_.sequences) / machine_.operations_per_s;
    }

    void add_block(const BlockCost& block, StageCost& cost) const {
        const auto dense = static_cast<double>(block.weight_bytes - block.expert_bytes);
        const auto experts = static_cast<double>(block.expert_bytes);
        const double chosen = model_.num_experts == 0
                                  ? 0.0
                                  : static_cast<double>(model_.experts_per_token) /
                                        static_cast<double>(model_.num_experts);
        add_weights(block.weight_bytes, dense + experts * share_of_experts(model_, load_.sequences),
                    (dense + experts * chosen) / model_.bytes_per_weight, cost);
        const auto cached =
            static_cast<uint64_t>(block.kv_bytes_per_token * load_.sequences * load_.context);
        cost.kv_bytes += cached;
        cost.read_s += static_cast<double>(cached) / machine_.read_bytes_per_s;
        for (int32_t i = 0; i < block.sums; ++i) add_sum(cost);
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
            const auto head = static_cast<double>(model.head_bytes);
            adder.add_weights(model.head_bytes, head, head / model.bytes_per_weight, cost);
            adder.add_logits(cost);
        }
        step.latency_s += cost.total_s();
        step.rank_bytes += static_cast<uint64_t>(std::llround(cost.bytes_sent));
        step.messages += cost.messages;
        step.weight_bytes = std::max(step.weight_bytes, cost.weight_bytes);
        step.kv_bytes = std::max(step.kv_bytes, cost.kv_bytes);
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
