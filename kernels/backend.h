// The written contract of a backend: what a module brings that computes on devices of its own.
//
// The CPU is not a backend. A module is a shared library that exports nvllm_backend(), which gives
// its BackendTable: functions for devices, memory, copies, streams, events and graphs, and the
// table of ops. It is opened when a device is asked for and stays open; a program that computes on
// the CPU opens none. The contract is C++: a module is compiled with these headers, for the same
// standard library, and brings its own copies of what it uses of kernels/ (docs/backends.md).
//
// Every function may throw Error. DeviceLost says that nothing this process computes on the device
// can succeed any more; does_not_fit, that memory is missing. Functions may be called from any
// thread, one call for a stream at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/error.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/attention_input.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/kv_cache.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/matmul_quantized.h"
#include "kernels/ops/moe.h"
#include "kernels/ops/norm.h"
#include "kernels/ops/rope.h"
#include "kernels/ops/sampling.h"
#include "kernels/types.h"

namespace nvllm {

// Changes whenever a table of before could not be used any more.
inline constexpr uint32_t kBackendVersion = 4;
// What a module exports: NVLLM_BACKEND_ENTRY() { return &table; }
inline constexpr const char* kBackendEntry = "nvllm_backend";
#define NVLLM_BACKEND_ENTRY \
    extern "C" __attribute__((visibility("default"))) const nvllm::BackendTable* nvllm_backend

// One device as its module sees it. Finding out takes no memory on it.
struct BackendDevice {
    std::string name;           // as its maker calls it
    uint64_t memory_bytes = 0;  // all there is
    int compute_major = 0;      // compute capability; 0.0 where devices have none
    int compute_minor = 0;
    std::string unusable;  // a sentence that says why it cannot be used; empty: it can
};

// What a module finds on this machine.
struct BackendMachine {
    std::vector<BackendDevice> devices;
    std::string driver;  // "13.0 (580.65.06)"; empty: none, or none needed
    // What the module opens at run time, with its version: "cuBLASLt 13.1".
    std::vector<std::string> libraries;
    std::string fault;  // a sentence that says why there are no devices; empty: there are
};

struct DeviceMemoryStats {
    uint64_t total_bytes = 0;
    uint64_t free_bytes = 0;    // for this process to take, what it keeps for reuse included
    uint64_t in_use_bytes = 0;  // allocated by this process through the module
    uint64_t peak_bytes = 0;    // the most of that at one time
};

enum class CopyDirection : uint8_t { to_device, to_host, on_device };

// The ops, with the signatures, contracts and checks of kernels/ops/*.h; checks were made when a
// table's function is called. All views lie in memory of the context's device.
struct BackendOps {
    decltype(&ops::activation) activation = nullptr;
    decltype(&ops::gated_activation) gated_activation = nullptr;
    decltype(&ops::attention_input) attention_input = nullptr;
    decltype(&ops::paged_attention) paged_attention = nullptr;
    // Scratch that paged_attention takes at most; the last argument means nothing on a device.
    size_t (*paged_attention_scratch_bytes)(int64_t sequences, int64_t heads, int64_t head_dim,
                                            int num_threads) = nullptr;
    decltype(&ops::add) add = nullptr;
    decltype(&ops::soft_cap) soft_cap = nullptr;
    decltype(&ops::gather_rows) gather_rows = nullptr;
    decltype(&ops::convert) convert = nullptr;
    decltype(&ops::embedding) embedding = nullptr;
    decltype(&ops::write_kv) write_kv = nullptr;
    decltype(&ops::copy_blocks) copy_blocks = nullptr;
    // Whether the three that touch storage take this KV type; null: float32, bfloat16 and float16.
    bool (*stores_kv)(DType dtype) = nullptr;
    decltype(&ops::matmul) matmul = nullptr;
    // Scratch that matmul takes at most; the last argument means nothing on a device.
    size_t (*matmul_scratch_bytes)(int64_t tokens, int64_t in, int num_threads) = nullptr;
    decltype(&ops::add_weighted_rows) add_weighted_rows = nullptr;
    decltype(&ops::rms_norm) rms_norm = nullptr;
    decltype(&ops::add_rms_norm) add_rms_norm = nullptr;
    decltype(&ops::layer_norm) layer_norm = nullptr;
    decltype(&ops::rope_cos_sin) rope_cos_sin = nullptr;
    decltype(&ops::rope) rope = nullptr;

    // What callers do without where it is null: they choose tokens and experts on the host.
    decltype(&ops::change_scores) change_scores = nullptr;
    decltype(&ops::sample) sample = nullptr;
    decltype(&ops::logprobs) logprobs = nullptr;
    decltype(&ops::route) route = nullptr;
    decltype(&ops::sort_by_expert) sort_by_expert = nullptr;
    decltype(&ops::grouped_matmul) grouped_matmul = nullptr;
    decltype(&ops::add_expert_outputs) add_expert_outputs = nullptr;
    size_t (*moe_scratch_bytes)(int64_t tokens, int64_t per_token, int64_t in,
                                int num_threads) = nullptr;
    // Where it is null, random weights are made on the host and copied.
    decltype(&ops::fill_random) fill_random = nullptr;

    // Products with quantized weights, all five or none; where they are null, or the first says no,
    // weights are widened when they are loaded.
    bool (*can_multiply_quantized)(const ops::QuantizedLayout& layout,
                                   const ops::ActivationRounding& rounding,
                                   DType activations) = nullptr;
    size_t (*quantized_weight_bytes)(const ops::QuantizedLayout& layout) = nullptr;
    decltype(&ops::pack_weight) pack_weight = nullptr;
    decltype(&ops::matmul_quantized) matmul_quantized = nullptr;
    // The last argument means nothing on a device.
    size_t (*matmul_quantized_scratch_bytes)(int64_t tokens, const ops::QuantizedLayout& layout,
                                             int num_threads) = nullptr;
};

// Whatever a module means by them: cudaStream_t, cudaEvent_t, cudaGraphExec_t. A null stream is the
// device's own, with which all others are in order.
using DeviceStream = void*;
using DeviceEvent = void*;
using DeviceGraph = void*;

struct BackendTable {
    // First, so that tables of other versions can be told.
    uint32_t version = kBackendVersion;
    uint32_t table_bytes = sizeof(BackendTable);
    const char* name = nullptr;           // "cuda": what --device calls it
    DeviceKind kind = DeviceKind::other;  // of its devices
    BackendMachine (*look)() = nullptr;   // never throws for what is missing
    DeviceMemoryStats (*memory)(int device) = nullptr;

    // Memory of the device, aligned to 256. Throws does_not_fit. Released memory may be kept for
    // the next allocation until trim().
    void* (*allocate)(int device, size_t bytes) = nullptr;
    // Neither fails. REQUIRES: no work that uses the memory is under way; not null.
    void (*release)(int device, void* memory) = nullptr;
    void (*trim)(int device) = nullptr;
    // Host memory that copies need not wait for. Throws does_not_fit.
    void* (*allocate_pinned)(int device, size_t bytes) = nullptr;
    void (*release_pinned)(int device, void* memory) = nullptr;

    // In the order of the stream. Host memory that is not pinned may be used again on return, that
    // of the other kind when the stream has come so far.
    void (*copy)(int device, DeviceStream stream, CopyDirection direction, void* to,
                 const void* from, size_t bytes) = nullptr;
    void (*fill)(int device, DeviceStream stream, void* memory, uint8_t value,
                 size_t bytes) = nullptr;

    DeviceStream (*make_stream)(int device) = nullptr;
    void (*end_stream)(int device, DeviceStream stream) = nullptr;
    // Waits for all that was put into the stream; what failed of it is thrown here at the latest.
    void (*synchronize)(int device, DeviceStream stream) = nullptr;

    // elapsed_ms() takes events that were made with `timed` alone.
    DeviceEvent (*make_event)(int device, bool timed) = nullptr;
    void (*end_event)(int device, DeviceEvent event) = nullptr;
    void (*record)(int device, DeviceEvent event, DeviceStream stream) = nullptr;
    // What comes later in the stream waits for the event.
    void (*wait)(int device, DeviceStream stream, DeviceEvent event) = nullptr;
    bool (*is_done)(int device, DeviceEvent event) = nullptr;
    // Returns when it is.
    void (*await)(int device, DeviceEvent event) = nullptr;
    // Between two recorded events that are done. REQUIRES: both timed.
    double (*elapsed_ms)(int device, DeviceEvent begin, DeviceEvent end) = nullptr;

    // What is put into the stream (not a null one) from begin_capture() to end_capture() is kept
    // instead of done; launch() does it, with the same addresses, as often as wanted. No memory may
    // be allocated meanwhile.
    void (*begin_capture)(int device, DeviceStream stream) = nullptr;
    DeviceGraph (*end_capture)(int device, DeviceStream stream) = nullptr;
    void (*launch)(int device, DeviceGraph graph, DeviceStream stream) = nullptr;
    void (*end_graph)(int device, DeviceGraph graph) = nullptr;

    // From now on sums do not depend on the rows beside them (--batch-invariant).
    void (*set_batch_invariant)(int device, bool on) = nullptr;

    // The largest head_dim that paged_attention takes; 0: any.
    int64_t max_head_dim = 0;
    // Takes what is called with a sentence for people, each once in a process, about what makes the
    // devices slower than they need be: right away for what is known, later for what comes up.
    // Null: there is no such thing.
    void (*set_warn)(void (*warn)(const char* sentence)) = nullptr;

    BackendOps ops;
};

// Calls visit(name, function) for every function that a table must have, so that none is forgotten.
template <typename Visit>
void visit_functions(const BackendOps& ops, Visit&& visit) {
    const auto& [activation, gated_activation, attention_input, paged_attention,
                 paged_attention_scratch_bytes, add, soft_cap, gather_rows, convert, embedding,
                 write_kv, copy_blocks, stores_kv, matmul, matmul_scratch_bytes, add_weighted_rows,
                 rms_norm, add_rms_norm, layer_norm, rope_cos_sin, rope, change_scores, sample,
                 logprobs, route, sort_by_expert, grouped_matmul, add_expert_outputs,
                 moe_scratch_bytes, fill_random, can_multiply_quantized, quantized_weight_bytes,
                 pack_weight, matmul_quantized, matmul_quantized_scratch_bytes] = ops;
    visit("activation", activation);
    visit("gated_activation", gated_activation);
    visit("attention_input", attention_input);
    visit("paged_attention", paged_attention);
    visit("paged_attention_scratch_bytes", paged_attention_scratch_bytes);
    visit("add", add);
    visit("soft_cap", soft_cap);
    visit("gather_rows", gather_rows);
    visit("convert", convert);
    visit("embedding", embedding);
    visit("write_kv", write_kv);
    visit("copy_blocks", copy_blocks);
    visit("matmul", matmul);
    visit("matmul_scratch_bytes", matmul_scratch_bytes);
    visit("add_weighted_rows", add_weighted_rows);
    visit("rms_norm", rms_norm);
    visit("add_rms_norm", add_rms_norm);
    visit("layer_norm", layer_norm);
    visit("rope_angles", rope_cos_sin);
    visit("rope", rope);
}

template <typename Visit>
void visit_functions(const BackendTable& table, Visit&& visit) {
    const auto& [version, table_bytes, name, kind, look, memory, allocate, release, trim,
                 allocate_pinned, release_pinned, copy, fill, make_stream, end_stream, synchronize,
                 make_event, end_event, record, wait, is_done, await, elapsed_ms, begin_capture,
                 end_capture, launch, end_graph, set_batch_invariant, max_head_dim, set_warn, ops] =
        table;
    visit("look", look);
    visit("memory", memory);
    visit("allocate", allocate);
    visit("release", release);
    visit("trim", trim);
    visit("allocate_pinned", allocate_pinned);
    visit("release_pinned", release_pinned);
    visit("copy", copy);
    visit("fill", fill);
    visit("make_stream", make_stream);
    visit("end_stream", end_stream);
    visit("synchronize", synchronize);
    visit("make_event", make_event);
    visit("end_event", end_event);
    visit("record", record);
    visit("wait", wait);
    visit("is_done", is_done);
    visit("await", await);
    visit("elapsed_ms", elapsed_ms);
    visit("begin_capture", begin_capture);
    visit("end_capture", end_capture);
    visit("launch", launch);
    visit("end_graph", end_graph);
    visit("set_batch_invariant", set_batch_invariant);
    visit_functions(ops, visit);
}

// The table of the module in a file; it stays open until the process ends. Throws unavailable when
// the file is no module, of another version, or lacks a function, saying which.
const BackendTable& open_backend(const std::string& path);

// Throws what open_backend() throws, and unavailable for a device that cannot be used.
ComputeDevice open_device(const DeviceChoice& choice);

// Where the module of this name lies: in a folder of $NVLLM_BACKEND_PATH, else beside this library
// or program. Nothing is opened. Empty: nowhere.
struct FoundBackend {
    std::string path;
    bool was_pointed_at = false;  // by $NVLLM_BACKEND_PATH
};
std::optional<FoundBackend> find_backend(const std::string& name);
// The places that find_backend() looks at, in order.
std::vector<std::string> backend_places(const std::string& name);

}  // namespace nvllm
