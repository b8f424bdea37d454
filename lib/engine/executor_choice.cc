// The setup of a replica's workers, and who starts them.
#include "lib/engine/executor_choice.h"

#include <utility>

#include "lib/engine/options/placement.h"
#include "lib/engine/rank_launch_choice.h"
#include "lib/execute/local_executor.h"
#include "lib/execute/mock_executor.h"
#include "lib/execute/ranks/lockstep.h"
#include "lib/execute/ranks/shared_ranks.h"
#include "lib/execute/remote_executor.h"

namespace nvllm {
namespace {

WorkerConfig worker_config(const EngineConfig& config, const DraftChoice& drafts,
                           const MemoryPlan& plan) {
    const ComputeOptions& compute = config.compute;
    WorkerConfig worker = compute.worker;
    worker.reports_expert_load = !compute.parallel.record_expert_load.empty();
    worker.block_size = plan.block_size;
    worker.num_blocks = plan.num_blocks;
    worker.num_host_blocks = plan.num_host_blocks;
    worker.max_num_batched_tokens = config.scheduling.scheduler.max_num_batched_tokens;
    worker.max_num_seqs = config.scheduling.scheduler.max_num_seqs;
    worker.kv_dtype = plan.kv_dtype;
    worker.num_draft_states = drafts.num_states;
    worker.most_drafts = drafts.speculation.most_drafts();
    const std::shared_ptr<DiskStore>& disk = config.kv_cache.cache.disk_store;
    if (disk != nullptr) worker.disk_folder = disk->folder().string();
    const bool uses_graphs = compute.cuda_graph && !compute.enforce_eager;
    worker.max_graph_rows = uses_graphs ? compute.max_cuda_graph_size : 0;
    return worker;
}

WorkerSetup worker_setup(const EngineConfig& config, const EngineMetadata& metadata,
                         const MemoryPlan& plan) {
    WorkerSetup setup;
    setup.model = metadata.options;
    setup.model.part = {};
    setup.model.part.expert_options = metadata.options.part.expert_options;
    setup.placement = metadata.placement;
    setup.replica = metadata.place;
    setup.model.checkpoint = metadata.model.checkpoint;
    setup.model.max_model_len = plan.max_model_len;
    setup.worker = worker_config(config, metadata.drafts, plan);
    setup.worker.activations = metadata.model.activations;
    setup.worker.adapters = metadata.lora.limits;
    setup.kv_groups = metadata.model.kv_groups;
    setup.vocab_size = metadata.model.config.vocab_size;
    setup.proposer = metadata.drafts.setup;
    if (metadata.drafts.proposer != nullptr) {
        setup.draft_kv_groups = metadata.drafts.proposer->kv_groups();
    }
    setup.ranks.sizes = metadata.parallel.sizes;
    setup.stages = metadata.parallel.stages;
    setup.placement_options = placement_options(config);
    if (metadata.shares_experts) setup.ranks.sharing = metadata.place;
    if (setup.ranks.is_alone()) return setup;
    const bool own_processes = has_own_processes(config.compute.parallel.backend);
    if (metadata.device.is_cpu()) {
        if (own_processes) setup.ranks.collectives = rank_collectives();
        return setup;
    }
    setup.ranks.collectives = metadata.device.choice.module_path;
    // No graph has held operations between ranks so far.
    setup.worker.max_graph_rows = 0;
    if (own_processes) return setup;
    for (const ChosenDevice& device : metadata.devices) {
        setup.devices.push_back(device.choice.index);
    }
    return setup;
}

}  // namespace

std::vector<std::unique_ptr<StepExecutor>> make_executors(
    const EngineConfig& config, const std::vector<EngineMetadata>& replicas,
    const MemoryPlan& plan) {
    std::vector<std::unique_ptr<StepExecutor>> executors;
    const int32_t ranks = replicas.front().parallel.sizes.num_ranks();
    const auto count = static_cast<int32_t>(replicas.size());
    std::shared_ptr<SharedRanks> shared;
    const auto lockstep = std::make_shared<Lockstep>(count);
    if (replicas.front().shares_experts) {
        shared = std::make_shared<SharedRanks>(
            rank_launcher(config, {}, count * ranks, replicas.front().device), count, ranks);
    }
    for (const EngineMetadata& own : replicas) {
        if (config.model.load_format == kMetronome) {
            executors.push_back(std::make_unique<MockExecutor>(mock_interval()));
            continue;
        }
        const WorkerSetup setup = worker_setup(own.config, own, plan);
        if (setup.ranks.is_alone() && config.compute.isolation == Isolation::thread) {
            executors.push_back(std::make_unique<LocalExecutor>(setup));
            continue;
        }
        auto executor = std::make_unique<RemoteExecutor>(
            setup, shared ? shared->launcher(own.place.index)
                          : rank_launcher(config, own.place, ranks, own.device));
        if (!shared) {
            executors.push_back(std::move(executor));
            continue;
        }
        executors.push_back(
            std::make_unique<LockstepExecutor>(lockstep, own.place.index, std::move(executor)));
    }
    return executors;
}

}  // namespace nvllm
