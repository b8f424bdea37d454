// From a setup to a worker.
#include "lib/execute/worker_setup.h"

#include <fmt/format.h>

#include "kernels/ops/open_backend.h"
#include "lib/base/clock.h"
#include "lib/base/fault_points.h"
#include "lib/base/log.h"
#include "lib/execute/propose/proposer_methods.h"
#include "lib/model/dense_modules.h"

namespace nvllm {
namespace {

void check_as_planned(const std::filesystem::path& directory, const std::vector<CacheLayout>& found,
                      const std::vector<CacheLayout>& planned, bool is_same = true) {
    if (is_same && found == planned) return;
    throw Error(ErrorKind::bad_data,
                fmt::format("{}: another model than the one this engine was started with; start it "
                            "anew",
                            directory.string()));
}

std::unique_ptr<ModelProposer> load_proposer(const WorkerSetup& setup, const Model& model,
                                             ThreadPool& threads) {
    if (!setup.proposer.enabled()) return nullptr;
    ProposerSetup own = setup.proposer;
    own.model.threads = &threads;
    auto proposer = make_proposer(own, model.config(), ProposerUse::runs);
    check_as_planned(own.model.directory, proposer->kv_groups(), setup.draft_kv_groups);
    return proposer;
}

// What makes a device slow is said like everything else that is.
void hear_warnings(const ComputeDevice& device) {
    if (device.is_cpu() || device.backend()->set_warn == nullptr) return;
    device.backend()->set_warn([](const char* sentence) { log_warning(sentence); });
}

RankRole make_role(const WorkerSetup& setup, int64_t hidden_size) {
    RankRole role;
    if (setup.ranks.is_alone()) return role;
    role.groups = std::make_unique<RankGroups>(
        setup.ranks, setup.model.device.index,
        max_sum_bytes(setup.worker.max_num_batched_tokens, hidden_size, setup.worker.activations));
    role.chooses = setup.ranks.chooses();
    role.is_last_stage = setup.ranks.stage() + 1 == setup.ranks.sizes.pipeline;
    return role;
}

}  // namespace

uint64_t max_sum_bytes(int64_t max_num_batched_tokens, int64_t hidden_size, DType activations) {
    return static_cast<uint64_t>(max_num_batched_tokens * hidden_size) * dtype_bytes(activations);
}

CpuPlacement share_of(const CpuPlacement& all, int32_t rank, int32_t ranks) {
    CpuPlacement share = all;
    const auto threads = static_cast<int32_t>(all.threads.size());
    const int32_t first = std::min(rank * threads / ranks, threads - 1);
    const int32_t last = std::max(first + 1, (rank + 1) * threads / ranks);
    share.threads.assign(all.threads.begin() + first, all.threads.begin() + last);
    return share;
}

ModelPart part_of(const Shard& tensor, const std::vector<PipelineStage>& stages, int32_t stage) {
    ModelPart part;
    part.tensor = tensor;
    if (stages.empty()) return part;
    const PipelineStage& own = stages[static_cast<size_t>(stage)];
    part.first_block = own.first_block;
    part.num_blocks = own.num_blocks;
    part.has_embedding = stage == 0;
    part.has_head = stage + 1 == std::ssize(stages);
    return part;
}

WorkerSetup WorkerSetup::of_rank(int32_t rank) const {
    WorkerSetup own = *this;
    if (ranks.is_alone()) return own;
    own.ranks.rank = rank;
    own.placement = share_of(placement, own.ranks.rank, ranks.sizes.num_ranks());
    if (!devices.empty()) own.model.device.index = devices[static_cast<size_t>(rank)];
    own.model.part =
        part_of({own.ranks.tensor_rank(), ranks.sizes.tensor}, stages, own.ranks.stage());
    own.model.part.expert_options = model.part.expert_options;
    if (ranks.sizes.expert_parallel) {
        own.model.part.experts = {own.ranks.expert_rank(),
                                  ranks.sizes.tensor * ranks.sharing.count};
    }
    own.model.groups = kv_groups;
    if (!own.ranks.chooses()) {
        own.proposer = {};
        own.draft_kv_groups.clear();
    }
    if (stages.empty()) return own;
    for (CacheLayout& group : own.kv_groups) {
        std::erase_if(group.layers, [&](int32_t layer) {
            return !has_cached_layer(stages, own.ranks.stage(), layer);
        });
    }
    return own;
}

std::unique_ptr<Worker> make_worker(const WorkerSetup& setup, ThreadPool& threads,
                                    WorkerReady& ready) {
    fault_point("worker.start");
    const MonotonicClock clock;
    const double begin_s = clock.now_s();
    if (const std::string refused = threads.bind_caller(); !refused.empty()) log_warning(refused);
    ModelLoadOptions options = setup.model;
    options.threads = &threads;
    const ComputeDevice device = open_device(setup.model.device);
    hear_warnings(device);
    auto targets = std::make_unique<LoraTargets>();
    if (setup.worker.adapters.max_loras > 0) options.lora_targets = targets.get();
    std::unique_ptr<Model> model = load_model(options, &ready.read_bytes);
    check_as_planned(options.directory, model->kv_groups(), setup.kv_groups,
                     model->config().vocab_size == setup.vocab_size);
    std::unique_ptr<ModelProposer> proposer = load_proposer(setup, *model, threads);
    DenseModules dense = load_dense_modules(options, model->config().hidden_size);
    const double loaded_s = clock.now_s();
    RankRole role = make_role(setup, model->config().hidden_size);
    auto worker = std::make_unique<Worker>(std::move(model), setup.worker, threads, device,
                                           std::move(proposer), setup.proposer.shape,
                                           std::move(dense), std::move(role), std::move(targets));
    ready.weight_bytes = worker->model().weight_bytes();
    ready.kv_bytes = worker->kv_storage().bytes();
    ready.weights_ms = (loaded_s - begin_s) * 1000.0;
    ready.worker_ms = (clock.now_s() - loaded_s) * 1000.0;
    return worker;
}

}  // namespace nvllm
