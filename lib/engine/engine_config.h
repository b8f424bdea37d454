// Every option of an engine, typed and defaulted, by part. Where a part of the engine has an
// options struct of its own, that struct is contained here; options/ has the list of each part's
// flags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/host/cpu_placement.h"
#include "lib/cache/block_size.h"
#include "lib/cache/cache_manager.h"
#include "lib/engine/adapters/lora_settings.h"
#include "lib/execute/memory_budget.h"
#include "lib/execute/worker_config.h"
#include "lib/model/loader.h"
#include "lib/schedule/scheduler_config.h"

namespace nvllm {

// A load format without a model.
inline constexpr const char* kMetronome = "metronome";

// Which model runs, and which files it is read from.
struct ModelChoice {
    std::string name;          // directory, or org/name[@revision] in the Hugging Face cache
    std::string revision;      // of a name without one: branch, tag or commit
    std::string download_dir;  // the cache's folder; empty: as the environment says
    std::string tokenizer;     // like name; empty: the model's own
    std::string generation_config = "auto";  // auto: the model's own; vllm: none; or a folder
    std::string generation_overrides;        // a JSON object: members that replace the file's
    std::string dtype = "auto";  // auto, float32, bfloat16, float16, or shorter: fp32, bf16, fp16
    // auto: as the checkpoint says; none: refuse quantized ones; else the method it must have.
    std::string quantization = "auto";
    // auto, safetensors, dummy (random weights for any config.json); for tests of an engine without
    // a model also metronome (lib/execute/mock_executor.h), which the help does not show.
    std::string load_format = "auto";
    std::string chat_template;          // a file, or the template itself; empty: the model's own
    std::string classifier_from_token;  // TextScoring's token_names
    // The members above decide directory, dtype, load_format and refuses_quantized.
    ModelLoadOptions load;
};

// Where the worker computes.
enum class Isolation : uint8_t {
    thread,   // on the engine thread, in this process
    process,  // in a process of its own, which is started again when it is lost
};

// Logical processors to which the compute threads are bound, one to each.
struct CpuMask {
    CpuList cpus;

    auto operator<=>(const CpuMask&) const = default;
};

// What ranks are and what carries their data.
enum class RankBackend : uint8_t {
    automatic,  // threads
    threads,    // of one process, that read each other's memory
    mpi,        // processes that rank_launcher starts, whose data MPI carries
    external,   // processes that someone else's launcher starts
};

// Which replica of a model takes a request.
enum class ReplicaRouting : uint8_t {
    prefix_aware,  // the one that has the least to compute before its first token
    least_loaded,  // the one with the fewest answers under way
    round_robin,   // one after another
};

// One model computed by several ranks, and by several replicas of those.
struct ParallelOptions {
    int32_t tensor = 1;    // ranks that share out each layer
    int32_t pipeline = 1;  // stages, each with its own layers
    int32_t data = 1;      // replicas, each with a scheduler and a cache of its own
    ReplicaRouting routing = ReplicaRouting::prefix_aware;
    double expert_capacity_factor = 0.0;  // 0: experts take all tokens that choose them
    std::string expert_load;              // a file that record_expert_load wrote; empty: none
    int32_t redundant_experts = 0;        // copies of experts, of each layer
    std::string record_expert_load;       // a file; empty: none
    bool experts = false;                 // ranks have experts of their own instead of parts of all
    RankBackend backend = RankBackend::automatic;
    std::string rank_launcher = "mpirun";  // words between spaces
    std::string rank_address;  // HOST:PORT to which ranks come; empty: of this machine alone
};

struct ComputeOptions {
    std::string device = "auto";  // auto, cpu, cuda, cuda:1: choose_device()
    bool cuda_graph = true;       // steps that only decode run as graphs, on a device with graphs
    bool enforce_eager = false;   // vLLM's name for no graphs
    int32_t max_cuda_graph_size = 256;  // sequences in a step that runs as a graph
    WorkerConfig worker;                // sizes: from the memory plan and the scheduler's options
    ParallelOptions parallel;
    PlacementOptions placement;       // mask: from cpu_mask
    std::optional<CpuMask> cpu_mask;  // empty: threads are not bound to a processor
    Isolation isolation = Isolation::thread;
    // Seconds that a step may take. After that a worker process is killed and started again; an
    // engine without a worker process is reported as stalled. 0: no limit.
    double watchdog_timeout_s = 0.0;
};

struct KvCacheOptions {
    BlockSize block_size;
    std::string dtype = "auto";  // kv_cache_type() has the names
    // Sizes and groups: from the memory plan. Few tokens are computed again where a state is kept
    // every 128, and a copy of one costs little beside so many steps.
    CacheConfig cache = {.checkpoint_interval = 128};
    std::string prefix_cache_dir;  // where blocks outlive the process; empty: nowhere
    uint64_t prefix_cache_bytes = uint64_t{16} << 30;  // of those
};

// Tokens of a step, and prefill tokens of a step that also decodes for clients that read a stream.
// Used where no option says otherwise: a GPU computes hundreds of tokens in the time of a few.
struct StepDefaults {
    int32_t batched_tokens;
    int32_t mixed_prefill_tokens;
    int32_t free_rows;  // SpeculationConfig
};
constexpr StepDefaults kCpuSteps{512, 64, 4};
constexpr StepDefaults kDeviceSteps{8192, 512, 64};

struct SchedulingOptions {
    // Tokens computed in one step; empty: StepDefaults, or the minimum of the model.
    std::optional<int32_t> max_num_batched_tokens;
    // Prefill tokens in a step that also decodes; 0: any number; empty: StepDefaults if answers are
    // streamed, else any number.
    std::optional<int32_t> mixed_prefill_tokens;
    bool answers_are_streamed = false;
    bool async_scheduling = false;  // plan a step while a device computes the step before
    // fitted_to() fills in the members above; lengths and block sizes come from the memory plan.
    SchedulerConfig scheduler;
};

// Tokens that are proposed and verified several in a step; speculation_settings() reads it.
struct SpeculationOptions {
    std::string config;  // a JSON object; empty: none
    // The same as these keys of it.
    std::string method = "auto";
    std::string draft_model;
    std::optional<int32_t> num_speculative_tokens;

    bool is_asked_for() const {
        return !config.empty() || method != "auto" || !draft_model.empty() ||
               num_speculative_tokens.has_value();
    }
};

struct InspectionOptions {
    std::string socket;  // Unix socket that serves snapshots; empty: none
};

struct EngineConfig {
    ModelChoice model;
    ComputeOptions compute;
    MemoryRequest memory;  // limits; engine_metadata() fills in the sizes of the model
    KvCacheOptions kv_cache;
    SchedulingOptions scheduling;
    SpeculationOptions speculation;
    LoraOptions lora;
    InspectionOptions inspection;
};

// The configuration with defaults filled in for a model, on the CPU or on another device. An
// encoder computes a prompt in one step: a step has space for its longest prompt, and prefixes are
// not cached.
EngineConfig fitted_to(const ModelConfig& model, bool on_device, EngineConfig config);

}  // namespace nvllm
