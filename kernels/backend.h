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
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/error.h"
#include "kernels/types.h"

namespace nvllm {

struct BackendOps;

// Changes whenever a table of before could not be used any more.
inline constexpr uint32_t kBackendVersion = 9;
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
    // The same of keys that are values too (latent attention); 0: it takes none.
    int64_t max_latent_dim = 0;
    // Takes what is called with a sentence for people, each once in a process, about what makes the
    // devices slower than they need be: right away for what is known, later for what comes up.
    // Null: there is no such thing.
    void (*set_warn)(void (*warn)(const char* sentence)) = nullptr;

    const BackendOps* ops = nullptr;  // kernels/ops/backend_ops.h; never null
};

// Calls visit(name, function) for every function of a device that a table must have.
template <typename Visit>
void visit_functions(const BackendTable& table, Visit&& visit) {
    const auto& [version, table_bytes, name, kind, look, memory, allocate, release, trim,
                 allocate_pinned, release_pinned, copy, fill, make_stream, end_stream, synchronize,
                 make_event, end_event, record, wait, is_done, await, elapsed_ms, begin_capture,
                 end_capture, launch, end_graph, set_batch_invariant, max_head_dim, max_latent_dim,
                 set_warn, ops] = table;
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
}

}  // namespace nvllm
