// Completes the options of each part with sizes of the model and of the memory plan.
#include "lib/engine/engine_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <utility>

#include "kernels/collectives.h"
#include "kernels/ops/backend_ops.h"
#include "kernels/ops/open_backend.h"
#include "lib/base/file.h"
#include "lib/decode/device_sampler.h"
#include "lib/engine/expert_choice.h"
#include "lib/engine/model_choice.h"
#include "lib/engine/options/kv_cache_types.h"
#include "lib/engine/options/placement.h"
#include "lib/engine/options/speculation_options.h"
#include "lib/engine/rank_launch_choice.h"
#include "lib/execute/worker_setup.h"
#include "lib/model/layers/rope_scaling.h"
#include "lib/model/lora/adapter_slots.h"
#include "lib/system/memory_info.h"

namespace nvllm {
namespace {

ModelLoadOptions load_options(const EngineConfig& config, int num_threads) {
    ModelLoadOptions options = config.model.load;
    options.directory = model_directory(config);
    check_quantization(config, options.directory);
    options.dtype = dtype_from_name(config.model.dtype);  // empty for auto
    const bool has_no_weights =
        config.model.load_format == "dummy" || config.model.load_format == kMetronome;
    options.load_format = has_no_weights ? LoadFormat::dummy : LoadFormat::automatic;
    options.refuses_quantized = config.model.quantization == "none";
    options.num_threads = num_threads;
    options.part.tensor = {0, config.compute.parallel.tensor};
    options.part.expert_options.capacity_factor = config.compute.parallel.expert_capacity_factor;
    options.part.expert_options.are_counted = !config.compute.parallel.record_expert_load.empty();
    return options;
}

// Of host blocks, at least, through which blocks of files pass: a prompt's of several thousand
// tokens.
constexpr uint64_t kPassingBytes = uint64_t{256} << 20;
constexpr uint64_t kPassingShare = 16;  // of --memory-limit, at most

// A device finds a position's block by shifting.
int32_t device_block_tokens(const BlockSize& size, int32_t tokens) {
    const auto count = static_cast<uint32_t>(tokens);
    if (std::has_single_bit(count)) return tokens;
    const auto smaller = static_cast<int32_t>(std::bit_floor(count));
    if (size.bytes) return smaller;
    throw Error(
        ErrorKind::usage,
        fmt::format("--block-size {}: on a device blocks hold a power of two of tokens, such "
                    "as {}",
                    tokens, smaller));
}

// A size in bytes is counted in keys and values of all layers together.
int32_t block_tokens(const BlockSize& size, const ModelMetadata& metadata,
                     std::span<const int64_t> of_drafts, DType kv_dtype) {
    int64_t bytes_per_token = std::accumulate(of_drafts.begin(), of_drafts.end(), int64_t{0});
    for (const CacheLayout& group : metadata.kv_groups) {
        bytes_per_token += group.bytes_per_token(kv_dtype);
    }
    return size.in_tokens(std::max<int64_t>(bytes_per_token, 1));
}

// A block's scales lie behind its int8 values, at multiples of four bytes.
void check_scales_fit(const MemoryRequest& request, const std::vector<CacheLayout>& groups) {
    if (request.kv_dtype != DType::i8) return;
    for (const CacheLayout& group : groups) {
        if (group.bytes_per_token(DType::i8) * request.block_size % 4 == 0) continue;
        throw Error(ErrorKind::usage,
                    fmt::format("--kv-cache-dtype int8: blocks of {} tokens of heads of {} do not "
                                "leave room for scales at multiples of four bytes; --block-size {} "
                                "does",
                                request.block_size, group.head_dim, request.block_size + 1));
    }
}

// Without a flag the free memory of a device is filled, less a rest for other users of the device.
constexpr double kDeviceUtilization = 0.9;

// A plan is for every replica: on the CPU these share the machine's memory, elsewhere each has a
// device, of which the one with the least free memory counts.
void add_devices(EngineMetadata& metadata, const BlockSize& block_size) {
    MemoryRequest& request = metadata.memory;
    request.num_replicas = metadata.config.compute.parallel.data;
    if (metadata.device.is_cpu()) {
        request.num_sharing *= request.num_replicas;
        return;
    }
    request.device = metadata.device.name;
    request.available_bytes =
        std::ranges::min(metadata.devices, {}, &ChosenDevice::free_bytes).free_bytes;
    request.block_size = device_block_tokens(block_size, request.block_size);
    if (!request.utilization) request.utilization = kDeviceUtilization;
}

// Of all adapters that may be in the memory that the plan is of.
uint64_t adapter_bytes(const EngineMetadata& metadata) {
    if (metadata.lora_targets == nullptr) return 0;
    const LoraChoice& lora = metadata.lora;
    const int32_t count = metadata.device.is_cpu() ? lora.max_cpu_loras : lora.limits.max_loras;
    const uint64_t usual = largest_adapter_bytes(*metadata.lora_targets, lora.limits.max_rank,
                                                 metadata.model.compute_type);
    return static_cast<uint64_t>(count) * std::max(usual, lora.largest_bytes);
}

MemoryRequest memory_request(const EngineMetadata& all) {
    const EngineConfig& config = all.config;
    const ModelMetadata& metadata = all.model;
    const DraftChoice& drafts = all.drafts;
    const SchedulerConfig& scheduler = config.scheduling.scheduler;
    MemoryRequest request = config.memory;
    // One pool of host blocks: sequences that give way come before cached blocks. What comes from
    // files passes through it.
    uint64_t passing = config.kv_cache.prefix_cache_dir.empty() ? 0 : kPassingBytes;
    if (request.limit_bytes) passing = std::min(passing, *request.limit_bytes / kPassingShare);
    request.swap_bytes += std::max(std::exchange(request.offload_bytes, 0), passing);
    request.adapter_bytes = adapter_bytes(all);
    request.weight_bytes = metadata.weight_bytes + request.adapter_bytes;
    request.scratch_bytes = Worker::scratch_bytes(
        *metadata.model,
        {scheduler.max_num_batched_tokens, Worker::max_logit_rows(scheduler.max_num_seqs),
         metadata.num_threads, metadata.device, metadata.activations,
         all.lora_targets == nullptr ? std::vector<ops::LoraLinear>()
                                     : largest_linears(*all.lora_targets, all.lora.limits.max_loras,
                                                       all.lora.limits.max_rank)});
    request.available_bytes = available_memory_bytes();
    request.model_max_positions = metadata.config.max_positions;
    request.max_num_seqs = scheduler.max_num_seqs;
    request.max_num_batched_tokens = scheduler.max_num_batched_tokens;
    request.whole_prompts = metadata.config.encoder;
    request.kv_dtype = kv_cache_type(config.kv_cache.dtype).value_or(metadata.kv_dtype);
    request.draft_bytes_per_token = draft_bytes_per_token(drafts, metadata, request.kv_dtype);
    request.block_size = block_tokens(config.kv_cache.block_size, metadata,
                                      request.draft_bytes_per_token, request.kv_dtype);
    request.groups = metadata.kv_groups;
    check_scales_fit(request, request.groups);
    if (drafts.proposer != nullptr) check_scales_fit(request, drafts.proposer->kv_groups());
    add_drafts(drafts, metadata, request);
    return request;
}

void add_rank_shares(const ParallelChoice& parallel, MemoryRequest& request) {
    for (int32_t rank = 0; rank < parallel.sizes.num_ranks(); ++rank) {
        const int32_t stage = parallel.sizes.stage_of(rank);
        RankShare share{parallel.stage_bytes[static_cast<size_t>(stage)], {}};
        for (const CacheLayout& group : request.groups) {
            const auto is_own = [&](int32_t layer) {
                return has_cached_layer(parallel.stages, stage, layer);
            };
            share.num_layers.push_back(
                static_cast<int32_t>(std::ranges::count_if(group.layers, is_own)));
        }
        request.ranks.push_back(std::move(share));
    }
}

// Of the memory of one machine all ranks of a stage have equal shares; the request is then that of
// one of them, with the layers of all stages.
void share_memory(const ParallelChoice& parallel, MemoryRequest& request) {
    if (parallel.is_alone()) return;
    request.num_sharing = parallel.sizes.tensor;
    request.scratch_bytes *= static_cast<uint64_t>(parallel.sizes.pipeline);
    add_rank_shares(parallel, request);
}

// Each rank has a device of its own: the request is for one with the weights of the largest stage,
// and with as many layers of each group as any stage has.
void divide_among_devices(const EngineMetadata& metadata, MemoryRequest& request) {
    const ParallelChoice& parallel = metadata.parallel;
    if (parallel.is_alone()) return;
    add_rank_shares(parallel, request);
    const uint64_t of_drafts = request.weight_bytes - metadata.model.weight_bytes;
    request.weight_bytes = std::ranges::max(parallel.stage_bytes) + of_drafts;
    request.scratch_bytes += RankGroups::device_bytes(
        max_sum_bytes(request.max_num_batched_tokens, metadata.model.config.hidden_size,
                      metadata.model.activations));
    for (size_t group = 0; group < request.groups.size(); ++group) {
        int32_t most = 1;
        for (const RankShare& share : request.ranks) most = std::max(most, share.num_layers[group]);
        request.groups[group].layers.resize(static_cast<size_t>(most));
    }
}

void check_device_stores(const ChosenDevice& device, const std::vector<CacheLayout>& groups,
                         DType kv_dtype) {
    if (device.is_cpu() || dtype_bytes(kv_dtype) > 1) return;
    const BackendTable& backend = *open_device(device.choice).backend();
    for (const CacheLayout& group : groups) {
        if (!group.is_latent() || kv_dtype != DType::i8 || group.head_dim <= backend.max_head_dim)
            continue;
        throw Error(ErrorKind::unavailable,
                    fmt::format("--kv-cache-dtype int8: {} keeps vectors of at most {} values so, "
                                "and this model's have {}: use fp8",
                                device.name, backend.max_head_dim, group.head_dim));
    }
    const auto stores = backend.ops->stores_kv;
    if (stores != nullptr && stores(kv_dtype)) return;
    throw Error(ErrorKind::unavailable,
                fmt::format("--kv-cache-dtype: {} keeps keys and values in float32, bfloat16 or "
                            "float16, not in {}",
                            device.name, dtype_name(kv_dtype)));
}

[[noreturn]] void refuse_ranks(const ChosenDevice& device, const std::string& why) {
    throw Error(
        ErrorKind::unavailable,
        fmt::format("several ranks cannot compute on {}: {}; use --device cpu, or leave out "
                    "--tensor-parallel-size and --pipeline-parallel-size",
                    device.name, why));
}

// Ranks on devices exchange data by the collectives of the device's module.
void check_ranks_compute(const ParallelOptions& parallel, const ChosenDevice& device) {
    if (device.is_cpu() || parallel.tensor * parallel.pipeline == 1) return;
    CollectivesLibrary library;
    try {
        library = open_collectives(device.choice.module_path).look();
    } catch (const Error& error) {
        refuse_ranks(device, error.what());
    }
    if (!library.fault.empty()) {
        refuse_ranks(device, fmt::format("{} is missing: {}", library.name, library.fault));
    }
    if (parallel.data > 1 && has_own_processes(parallel.backend)) {
        refuse_ranks(device, "a launcher that starts ranks starts those of one replica");
    }
}

// Those of the ranks that this program starts.
std::vector<ChosenDevice> rank_devices(const ComputeOptions& compute) {
    const ParallelOptions& parallel = compute.parallel;
    const bool are_here = !has_own_processes(parallel.backend);
    const int32_t ranks = are_here ? parallel.tensor * parallel.pipeline : 1;
    return choose_devices(compute.device, parallel.data * ranks);
}

void check_device_attends(const ChosenDevice& device, const std::vector<CacheLayout>& groups) {
    if (device.is_cpu()) return;
    const BackendTable& backend = *open_device(device.choice).backend();
    if (have_states(groups) && backend.ops->linear_attention == nullptr) {
        throw Error(
            ErrorKind::unavailable,
            fmt::format("{} has no linear attention, which this model has: use --device cpu",
                        device.name));
    }
    for (const CacheLayout& group : groups) {
        if (group.is_latent() && backend.max_latent_dim == 0) {
            throw Error(ErrorKind::unavailable,
                        fmt::format("{} has no latent attention (MLA), which this model has: use "
                                    "--device cpu",
                                    device.name));
        }
        const int64_t most = group.is_latent() ? backend.max_latent_dim : backend.max_head_dim;
        if (most == 0 || group.head_dim <= most) continue;
        throw Error(ErrorKind::unavailable,
                    fmt::format("{} computes attention for heads of at most {} values, and this "
                                "model's have {}: use --device cpu",
                                device.name, most, group.head_dim));
    }
}

// A step that is planned ahead begins with a token that is not known yet, so that nothing can be
// proposed after it.
void check_speculation(const EngineConfig& config, const ModelMetadata& model,
                       const DraftChoice& drafts) {
    if (!drafts.speculation.enabled()) return;
    if (drafts.speculation.is_tree() && have_states(model.kv_groups)) {
        throw Error(ErrorKind::usage,
                    fmt::format("--speculative-config: {} has layers with linear attention, whose "
                                "states follow one draft after another: leave out tree_width",
                                model.config.architecture));
    }
    if (config.compute.parallel.pipeline > 1 && drafts.proposer != nullptr &&
        !drafts.proposer->target_states().layers.empty()) {
        throw Error(ErrorKind::usage,
                    fmt::format("--speculative-config: {} reads hidden states of several layers, "
                                "which --pipeline-parallel-size {} has in different ranks",
                                drafts.setup.method, config.compute.parallel.pipeline));
    }
    if (!config.scheduling.async_scheduling) return;
    throw Error(ErrorKind::usage,
                "--async-scheduling plans a step before the tokens are known after which "
                "--speculative-config proposes some: leave one of them out");
}

// `config` as the model has it: not every model caches prefixes.
void check_tiers(const EngineConfig& config, const ParallelChoice& parallel) {
    const bool has_files = !config.kv_cache.prefix_cache_dir.empty();
    if (config.memory.offload_bytes == 0 && !has_files) return;
    const char* const flag = has_files ? "--prefix-cache-dir" : "--kv-offloading-size";
    if (!config.kv_cache.cache.enable_prefix_caching) {
        throw Error(ErrorKind::usage,
                    fmt::format("{} keeps blocks of the prefix cache, which is off with "
                                "--no-enable-prefix-caching and for encoders: leave it out",
                                flag));
    }
    if (!has_files || parallel.is_alone()) return;
    throw Error(ErrorKind::usage,
                "--prefix-cache-dir keeps the blocks of a model that one rank computes: leave it "
                "out, or --tensor-parallel-size and --pipeline-parallel-size");
}

// Devices whose host chooses tokens have to be waited for.
bool can_plan_ahead(const ChosenDevice& device) {
    if (device.is_cpu()) return false;
    const BackendTable& backend = open_backend(device.choice.module_path);
    return DeviceSampler::is_possible_on(ComputeDevice(backend, device.choice.index));
}

}  // namespace

EngineMetadata engine_metadata(const EngineConfig& config) {
    EngineMetadata metadata;
    // A mock executor computes nothing.
    if (config.model.load_format != kMetronome) {
        metadata.devices = rank_devices(config.compute);
        metadata.device = metadata.devices.front();
    }
    check_ranks_compute(config.compute.parallel, metadata.device);
    metadata.placement = engine_placement(config);
    metadata.options = load_options(config, metadata.placement.num_threads());
    metadata.options.device = metadata.device.choice;
    metadata.lora = choose_adapters(config.lora);
    if (metadata.lora.limits.max_loras > 0) metadata.lora_targets = std::make_shared<LoraTargets>();
    metadata.options.lora_targets = metadata.lora_targets.get();
    metadata.model = model_metadata(metadata.options);
    metadata.options.lora_targets = nullptr;
    share_out_experts(metadata, config.compute.parallel);
    metadata.parallel = choose_parallel(config.compute.parallel, metadata.options, metadata.model);
    metadata.config = fitted_to(metadata.model.config, !metadata.device.is_cpu(), config);
    metadata.drafts = config.model.load_format == kMetronome
                          ? DraftChoice{speculation_settings(config.speculation).config, {}, {}}
                          : choose_drafts(config, metadata.options, metadata.model);
    check_speculation(config, metadata.model, metadata.drafts);
    check_tiers(metadata.config, metadata.parallel);
    metadata.config.scheduling.async_scheduling = config.scheduling.async_scheduling &&
                                                  metadata.parallel.is_alone() &&
                                                  can_plan_ahead(metadata.device);
    check_device_attends(metadata.device, metadata.model.kv_groups);
    metadata.memory = memory_request(metadata);
    if (metadata.device.is_cpu()) {
        share_memory(metadata.parallel, metadata.memory);
    } else {
        divide_among_devices(metadata, metadata.memory);
    }
    add_devices(metadata, config.kv_cache.block_size);
    check_device_stores(metadata.device, metadata.model.kv_groups, metadata.memory.kv_dtype);
    return metadata;
}

EngineMetadata of_replica(const EngineMetadata& metadata, const ReplicaPlace& place) {
    EngineMetadata own = metadata;
    own.place = place;
    if (place.is_alone()) return own;
    if (!metadata.devices.empty()) {
        const int64_t count = std::ssize(metadata.devices) / place.count;
        const auto first = metadata.devices.begin() + place.index * count;
        own.devices.assign(first, first + count);
        own.device = own.devices.front();
        own.options.device = own.device.choice;
    }
    own.placement = share_of(metadata.placement, place.index, place.count);
    own.options.num_threads = own.placement.num_threads();
    // The first one's sockets have the names that were asked for.
    if (place.index > 0 && !own.config.inspection.socket.empty()) {
        own.config.inspection.socket += fmt::format(".{}", place.index);
    }
    return own;
}

namespace {

CacheGroupKind cache_kind(CacheLayout::Kind kind) {
    switch (kind) {
        case CacheLayout::Kind::paged_kv:
            return CacheGroupKind::paged_kv;
        case CacheLayout::Kind::latent:
            return CacheGroupKind::latent;
        case CacheLayout::Kind::state:
            return CacheGroupKind::state;
    }
    return CacheGroupKind::paged_kv;
}

}  // namespace

CacheConfig cache_config(const EngineConfig& config, const MemoryPlan& plan) {
    CacheConfig cache = config.kv_cache.cache;
    cache.block_size = plan.block_size;
    cache.keeps_evicted = config.memory.offload_bytes > 0 || cache.disk_store != nullptr;
    for (size_t g = 0; g < plan.groups.size(); ++g) {
        cache.groups.push_back({plan.num_blocks[g], static_cast<int32_t>(plan.groups[g].window),
                                plan.num_host_blocks.empty() ? 0 : plan.num_host_blocks[g],
                                cache_kind(plan.groups[g].kind)});
    }
    return cache;
}

SchedulerConfig scheduler_config(const EngineConfig& config, const EngineMetadata& metadata,
                                 const MemoryPlan& plan) {
    const ModelConfig& model = metadata.model.config;
    SchedulerConfig scheduler = config.scheduling.scheduler;
    scheduler.speculation = metadata.drafts.speculation;
    // On a GPU a step of several rows a sequence is no graph, so it would have to be measured
    // first. States are kept for drafts where they are asked for.
    scheduler.speculation.proposes_forced =
        metadata.device.is_cpu() &&
        (metadata.drafts.num_states > 0 || !have_states(metadata.model.kv_groups));
    scheduler.speculation.free_rows =
        metadata.device.is_cpu() ? kCpuSteps.free_rows : kDeviceSteps.free_rows;
    scheduler.max_model_len = plan.max_model_len;
    scheduler.original_context =
        static_cast<int32_t>(original_context(model.rope, model.max_positions, plan.max_model_len));
    scheduler.block_bytes = plan.block_bytes();
    scheduler.adapters = {metadata.lora.limits.max_loras, metadata.lora.max_cpu_loras};
    if (metadata.parallel.sizes.pipeline > 1) {
        // States are put back behind a step with drafts before another one begins.
        const bool waits = metadata.drafts.num_states > 0;
        scheduler.pipeline_depth = waits ? 1 : metadata.parallel.sizes.pipeline;
        return scheduler;
    }
    if (!config.scheduling.async_scheduling) return scheduler;
    scheduler.pipeline_depth = 2;
    scheduler.may_plan_ahead = DeviceSampler::can_expect;
    return scheduler;
}

}  // namespace nvllm
