// Tries the ranks of all replicas, then those of one.
#include "lib/engine/expert_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lib/base/log.h"
#include "lib/engine/replicas/expert_load_file.h"
#include "lib/model/layers/moe_mlp.h"
#include "lib/parallel/expert_placement.h"

namespace nvllm {
namespace {

[[noreturn]] void refuse_copies(int32_t copies, int32_t experts, int32_t ranks) {
    const int32_t most = experts * (ranks - 1);
    const int32_t fewer = std::min((experts + copies) / ranks * ranks - experts, most);
    const int32_t more = std::min(fewer + ranks, most);
    std::string others;
    if (fewer >= 0 && fewer < more) others += fmt::format("{} or ", fewer);
    throw Error(ErrorKind::usage,
                fmt::format("--num-redundant-experts {}: {} ranks have as many of {} experts and "
                            "their copies each, and at most one of each: use {}{}",
                            copies, ranks, experts, others, more));
}

bool places_experts(const ParallelOptions& parallel) {
    return parallel.redundant_experts > 0 || !parallel.expert_load.empty();
}

// Nothing that was asked for is left out without a word.
void check_asked(const ModelMetadata& model, const ParallelOptions& parallel) {
    const bool places = places_experts(parallel);
    if (places && !parallel.experts) {
        throw Error(ErrorKind::usage,
                    "--expert-load and --num-redundant-experts say which ranks have which experts: "
                    "use --enable-expert-parallel");
    }
    const bool asks =
        places || parallel.expert_capacity_factor > 0.0 || !parallel.record_expert_load.empty();
    if (asks && model.model->expert_counts().empty()) {
        throw Error(ErrorKind::usage,
                    fmt::format("{} has no experts: leave out --expert-load, "
                                "--num-redundant-experts, --expert-capacity-factor and "
                                "--record-expert-load",
                                model.config.text_architecture));
    }
    if (parallel.expert_capacity_factor > 0.0) {
        log_warning(
            fmt::format("--expert-capacity-factor {}: an expert that has its share of a "
                        "step's tokens drops further ones, so that answers depend on what "
                        "else is computed",
                        parallel.expert_capacity_factor));
    }
}

void log_placement(const SlotsOfBlock& slots, const std::vector<int64_t>& tokens, int32_t ranks) {
    if (!log_enabled(LogLevel::debug)) return;
    log_debug(
        fmt::format("experts of {}: the rank with the most tokens is to have {:.2f} times "
                    "the mean",
                    slots.block, imbalance(slots.experts, tokens, ranks)));
}

// By the load of each block, or in turn where none is known.
std::vector<SlotsOfBlock> slots_of(const ModelMetadata& model, const ParallelOptions& parallel,
                                   int32_t ranks) {
    std::optional<std::vector<ExpertLoad>> loads;
    if (!parallel.expert_load.empty()) loads = read_expert_load(parallel.expert_load);
    std::vector<SlotsOfBlock> slots;
    const std::vector<const ExpertCounts*> layers = model.model->expert_counts();
    if (loads) check_blocks(*loads, layers.size());
    for (const ExpertCounts* layer : layers) {
        std::vector<int64_t> tokens(layer->chosen.size(), 1);
        if (loads) tokens = load_of_block(*loads, layer->block, tokens.size());
        const auto experts = static_cast<int32_t>(tokens.size());
        const int32_t all = experts + parallel.redundant_experts;
        if (all % ranks != 0 && parallel.redundant_experts == 0) return {};
        if (all % ranks != 0 || all > experts * ranks) {
            refuse_copies(parallel.redundant_experts, experts, ranks);
        }
        slots.push_back({layer->block, balanced_experts(tokens, ranks, all)});
        log_placement(slots.back(), tokens, ranks);
    }
    return slots;
}

// Whether some layer is shared out among so many ranks; then the metadata says so.
bool can_share(EngineMetadata& metadata, const ParallelOptions& parallel, int32_t ranks) {
    ModelLoadOptions options = metadata.options;
    options.part.experts = {0, ranks};
    if (places_experts(parallel)) {
        options.part.expert_options.slots = slots_of(metadata.model, parallel, ranks);
    }
    ModelMetadata model = model_metadata(options);
    if (model.model->num_spread_layers() == 0) return false;
    metadata.options = std::move(options);
    metadata.model = std::move(model);
    return true;
}

}  // namespace

void share_out_experts(EngineMetadata& metadata, const ParallelOptions& parallel) {
    check_asked(metadata.model, parallel);
    if (!parallel.experts) return;
    const auto can_share_among = [&](int32_t replicas) {
        const int32_t ranks = parallel.tensor * replicas;
        return ranks > 1 && can_share(metadata, parallel, ranks);
    };
    if (parallel.data > 1 && can_share_among(parallel.data)) {
        metadata.shares_experts = true;
        return;
    }
    if (can_share_among(1) || !places_experts(parallel)) return;
    throw Error(ErrorKind::usage,
                "--expert-load and --num-redundant-experts: no layer of the model has experts that "
                "the ranks can have as many of each; use other numbers of ranks "
                "(--tensor-parallel-size, --data-parallel-size), or leave these options out");
}

}  // namespace nvllm
