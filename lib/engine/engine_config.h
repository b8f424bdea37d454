// Every option of an engine, typed and defaulted; the field list that makes its flags is
// engine_options.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/host/cpu_placement.h"
#include "lib/cache/block_size.h"
#include "lib/schedule/preemption_mode.h"

namespace nvllm {

struct ModelConfig;

// Where the worker computes.
enum class Isolation : uint8_t {
    thread,   // on the engine thread, in this process
    process,  // in a process of its own, which is started again when it is lost
};

// Logical processors by which the compute threads are bound, one to each.
struct CpuMask {
    CpuList cpus;

    auto operator<=>(const CpuMask&) const = default;
};

// Tokens of a step, and of prompts in a step in which somebody reads along, where nothing is said:
// a GPU computes hundreds in the time of a few.
struct StepDefaults {
    int32_t batched_tokens;
    int32_t mixed_prefill_tokens;
};
constexpr StepDefaults kCpuSteps{512, 64};
constexpr StepDefaults kDeviceSteps{8192, 512};

struct EngineConfig {
    // What to run.
    std::string model;         // directory, or org/name[@revision] in the Hugging Face cache
    std::string revision;      // of a name without one: branch, tag or commit
    std::string download_dir;  // the cache's folder; empty: as the environment says
    std::string tokenizer;     // like model; empty: the model's own
    std::string generation_config = "auto";  // auto: the model's own; vllm: none; or a folder
    std::string generation_overrides;        // a JSON object: members that replace the file's
    std::string dtype = "auto";  // auto, float32, bfloat16, float16, or shorter: fp32, bf16, fp16
    // auto: as the checkpoint says; none: refuse quantized ones; else the method it must have.
    std::string quantization = "auto";
    // auto, safetensors, dummy (random weights for any config.json); for tests of what is around a
    // model also metronome (lib/execute/mock_executor.h), which help does not show.
    std::string load_format = "auto";
    std::string device = "auto";   // auto, cpu, cuda, cuda:1: choose_device()
    bool batch_invariant = false;  // sums on a device never depend on the rows beside them
    bool cuda_graph = true;        // steps of answers alone run as graphs, where a device keeps any
    bool enforce_eager = false;    // what vLLM calls it when they do not
    int32_t max_cuda_graph_size = 256;  // sequences in such a step
    std::string chat_template;          // a file, or the template itself; empty: the model's own
    int32_t threads = 0;  // compute threads; 0: one for each physical core, or of cpu_mask
    std::optional<CpuMask> cpu_mask;  // empty: threads are not bound to a processor
    NumaMode numa = NumaMode::automatic;
    uint64_t load_seed = 0;    // of dummy weights
    std::string repack_cache;  // folder for quantized weights as the CPU wants them; empty: none
    Isolation isolation = Isolation::thread;
    // Seconds that a step may take: a worker process is killed and started again then, an engine
    // without one is called stalled. 0: no limit.
    double watchdog_timeout_s = 0.0;

    // Memory.
    BlockSize block_size;                           // of the key-value cache
    std::string kv_cache_dtype = "auto";            // kv_cache_type() has the names
    std::optional<uint64_t> kv_cache_memory_bytes;  // empty: planned from what is free
    std::optional<uint64_t> memory_limit_bytes;     // of weights, cache and scratch together
    std::optional<double> memory_utilization;       // share of free memory that may be used
    std::optional<int32_t> max_blocks;              // in each group of the cache
    std::optional<int32_t> max_model_len;           // empty: the model's own, or what fits
    bool enable_prefix_caching = true;
    std::string eviction_policy = "lru";  // which cached block is given up first
    uint64_t swap_space_bytes = 0;        // host memory for preempted sequences
    double defrag_threshold = 0.0;        // move blocks together above this fragmentation; 0: never

    // Scheduling.
    int32_t max_num_seqs = 128;  // sequences computed in one step
    // Tokens computed in one step; empty: StepDefaults, or what the model asks for.
    std::optional<int32_t> max_num_batched_tokens;
    bool enable_chunked_prefill = true;
    int32_t prefill_chunk_size =
        0;  // largest part of one prompt in a step; 0: the token budget alone
    // Of prompts, in a step in which answers go on; 0: any; empty: StepDefaults where somebody
    // reads answers as they come, else any.
    std::optional<int32_t> mixed_prefill_tokens;
    bool answers_are_streamed = false;
    int32_t max_num_partial_prefills = 0;
    double step_time_target_ms = 0.0;  // 0: none
    bool async_scheduling = false;     // plan a step while a device computes the one before
    std::string scheduling_policy = "fcfs";
    PreemptionMode preemption_mode = PreemptionMode::automatic;

    // Looking in.
    std::string inspect_socket;  // where snapshots are handed out; empty: nowhere
};

// The configuration with what was left open filled in for a model, on the CPU or on another device.
// An encoder computes a prompt in one step, so a step has room for its longest; nothing of a prompt
// can be used for another.
EngineConfig fitted_to(const ModelConfig& model, bool on_device, EngineConfig config);

}  // namespace nvllm
