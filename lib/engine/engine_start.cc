// Options translated, part by part.
#include "lib/engine/engine_start.h"

#include <fmt/format.h>

#include "lib/base/file.h"
#include "lib/base/memory_info.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/engine/placement.h"
#include "lib/execute/local_executor.h"
#include "lib/execute/metronome.h"
#include "lib/execute/remote_executor.h"

namespace nvllm {
namespace {

constexpr uint64_t kLargestTemplate = uint64_t{4} << 20;

void check_device(const std::string& device) {
    if (device == "auto" || device == "cpu") return;
    throw Error(
        ErrorKind::unavailable,
        fmt::format("--device {}: this build has no such backend; use --device cpu", device));
}

bool is_metronome(const EngineConfig& config) { return config.load_format == "metronome"; }

ModelLoadOptions load_options(const EngineConfig& config, int num_threads) {
    ModelLoadOptions options;
    options.directory = resolve_model_directory(config.model);
    options.dtype = dtype_from_name(config.dtype);  // empty for auto
    const bool has_no_weights = config.load_format == "dummy" || is_metronome(config);
    options.load_format = has_no_weights ? LoadFormat::dummy : LoadFormat::automatic;
    options.refuses_quantized = config.quantization == "none";
    options.seed = config.load_seed;
    options.num_threads = num_threads;
    return options;
}

// A size in bytes is counted in keys and values of all layers together.
int32_t block_tokens(const BlockSize& size, const ModelOutline& outline) {
    int64_t bytes_per_token = 0;
    for (const KvGroup& group : outline.kv_groups) {
        bytes_per_token += group.bytes_per_token(outline.product_type);
    }
    return size.in_tokens(std::max<int64_t>(bytes_per_token, 1));
}

MemoryRequest memory_request(const EngineConfig& config, const ModelOutline& outline) {
    MemoryRequest request;
    request.weight_bytes = outline.weight_bytes;
    request.scratch_bytes = outline.scratch(config.max_num_batched_tokens.value(),
                                            Worker::most_logit_rows(config.max_num_seqs));
    request.available_bytes = available_memory_bytes();
    request.kv_cache_bytes = config.kv_cache_memory_bytes;
    request.limit_bytes = config.memory_limit_bytes;
    request.utilization = config.memory_utilization;
    request.max_blocks = config.max_blocks;
    request.swap_bytes = config.swap_space_bytes;
    request.max_model_len = config.max_model_len;
    request.model_max_positions = outline.config.max_positions;
    request.max_num_seqs = config.max_num_seqs;
    request.max_num_batched_tokens = config.max_num_batched_tokens.value();
    request.whole_prompts = outline.config.encoder;
    request.block_size = block_tokens(config.block_size, outline);
    request.kv_dtype = outline.product_type;
    request.groups = outline.kv_groups;
    return request;
}

WorkerConfig worker_config(const EngineConfig& config, const MemoryPlan& plan) {
    WorkerConfig worker;
    worker.block_size = plan.block_size;
    worker.num_blocks = plan.num_blocks;
    worker.num_host_blocks = plan.num_host_blocks;
    worker.max_num_batched_tokens = config.max_num_batched_tokens.value();
    worker.max_num_seqs = config.max_num_seqs;
    worker.kv_dtype = plan.kv_dtype;
    return worker;
}

}  // namespace

EngineOutline outline_engine(const EngineConfig& config) {
    check_device(config.device);
    EngineOutline outline;
    outline.placement = engine_placement(config);
    outline.options = load_options(config, outline.placement.num_threads());
    outline.model = outline_model(outline.options);
    outline.config = fitted_to(outline.model.config, config);
    outline.memory = memory_request(outline.config, outline.model);
    return outline;
}

CacheConfig cache_config(const EngineConfig& config, const MemoryPlan& plan) {
    CacheConfig cache;
    cache.block_size = plan.block_size;
    cache.enable_prefix_caching = config.enable_prefix_caching;
    for (size_t g = 0; g < plan.groups.size(); ++g) {
        cache.groups.push_back({plan.num_blocks[g], static_cast<int32_t>(plan.groups[g].window),
                                plan.num_host_blocks.empty() ? 0 : plan.num_host_blocks[g]});
    }
    cache.eviction = config.eviction_policy;
    return cache;
}

SchedulerConfig scheduler_config(const EngineConfig& config, const MemoryPlan& plan) {
    SchedulerConfig scheduler;
    scheduler.max_num_seqs = config.max_num_seqs;
    scheduler.max_num_batched_tokens = config.max_num_batched_tokens.value();
    scheduler.max_model_len = plan.max_model_len;
    scheduler.enable_chunked_prefill = config.enable_chunked_prefill;
    scheduler.chunk_size = config.prefill_chunk_size;
    scheduler.mixed_prefill_tokens = config.mixed_prefill_tokens;
    scheduler.max_num_partial_prefills = config.max_num_partial_prefills;
    scheduler.step_time_target_ms = config.step_time_target_ms;
    scheduler.policy = config.scheduling_policy;
    scheduler.preemption_mode = config.preemption_mode;
    scheduler.block_bytes = plan.block_bytes();
    scheduler.defrag_threshold = config.defrag_threshold;
    return scheduler;
}

std::unique_ptr<StepExecutor> make_executor(const EngineConfig& config,
                                            const EngineOutline& outline, const MemoryPlan& plan) {
    if (is_metronome(config)) return std::make_unique<Metronome>(metronome_interval());
    WorkerSetup setup;
    setup.model = outline.options;
    setup.placement = outline.placement;
    setup.model.checkpoint = outline.model.checkpoint;
    setup.model.max_model_len = plan.max_model_len;
    setup.worker = worker_config(config, plan);
    setup.kv_groups = outline.model.kv_groups;
    setup.vocab_size = outline.model.config.vocab_size;
    if (config.isolation == Isolation::thread) return std::make_unique<LocalExecutor>(setup);
    return std::make_unique<RemoteExecutor>(setup, find_worker_program());
}

// What has no brace cannot be a template that says anything, so it must be a file.
std::string read_chat_template(const std::string& given) {
    if (given.empty() || given.find('{') != std::string::npos) return given;
    return read_file(given, kLargestTemplate);
}

}  // namespace nvllm
