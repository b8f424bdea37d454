// An example of a backend: devices that are memory of their own and plain loops over it, all in the
// caller's thread. How a module is written is told in docs/backends.md.
//
// $NVLLM_EXAMPLE_BACKEND breaks it in one way, for tests: version, name, op, devices, device, lost,
// slow, heads.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>

#include "memory.h"
#include "ops.h"

namespace example {
namespace {

using namespace nvllm;

bool is_broken(std::string_view how) {
    const char* value = std::getenv("NVLLM_EXAMPLE_BACKEND");
    return value != nullptr && how == value;
}

BackendMachine look() {
    if (is_broken("devices")) return {{}, "", {}, "the example was told to have no devices"};
    BackendMachine machine;
    machine.driver = "1.0";
    machine.libraries = {"plain loops"};
    for (int i = 0; i < 2; ++i) {
        machine.devices.push_back({"Example " + std::to_string(i), kMemoryBytes, 1, i, ""});
    }
    if (is_broken("device")) machine.devices[0].unusable = "example:0 was told to be of no use";
    return machine;
}

void trim(int) {}

void* allocate_pinned(int, size_t bytes) {
    void* memory = std::malloc(bytes);
    if (memory == nullptr) throw Error(ErrorKind::does_not_fit, "no pinned memory");
    return memory;
}
void release_pinned(int, void* memory) { std::free(memory); }

void copy(int, DeviceStream, CopyDirection, void* to, const void* from, size_t bytes) {
    std::memmove(host(static_cast<std::byte*>(to)), host(static_cast<const std::byte*>(from)),
                 bytes);
}
void fill(int, DeviceStream, void* memory, uint8_t value, size_t bytes) {
    std::memset(host(static_cast<std::byte*>(memory)), value, bytes);
}

// Everything is done at once, so a stream is a name.
struct Stream {};
DeviceStream make_stream(int) { return new Stream(); }
void end_stream(int, DeviceStream stream) { delete static_cast<Stream*>(stream); }
void synchronize(int, DeviceStream) {
    static int num_calls = 0;
    if (is_broken("lost") && ++num_calls > 3) throw DeviceLost("example:0 fell off the bus");
}

struct Event {
    std::chrono::steady_clock::time_point at;
};
DeviceEvent make_event(int, bool) { return new Event(); }
void end_event(int, DeviceEvent event) { delete static_cast<Event*>(event); }
void record(int, DeviceEvent event, DeviceStream) {
    static_cast<Event*>(event)->at = std::chrono::steady_clock::now();
}
void wait(int, DeviceStream, DeviceEvent) {}
bool is_done(int, DeviceEvent) { return true; }
void await(int, DeviceEvent) {}
double elapsed_ms(int, DeviceEvent begin, DeviceEvent end) {
    return std::chrono::duration<double, std::milli>(static_cast<Event*>(end)->at -
                                                     static_cast<Event*>(begin)->at)
        .count();
}

// This example keeps no graphs, and says so when it is asked to.
void begin_capture(int, DeviceStream) {
    throw Error(ErrorKind::unavailable, "the example keeps no graphs");
}
DeviceGraph end_capture(int, DeviceStream) { return nullptr; }
void launch(int, DeviceGraph, DeviceStream) {}
void end_graph(int, DeviceGraph) {}

void set_batch_invariant(int, bool) {}

void set_warn(void (*warn)(const char*)) {
    if (is_broken("slow")) warn("the example was told to be slow");
}

BackendOps make_ops() {
    BackendOps ops;
#define NVLLM_BIND(name) ops.name = name;
    NVLLM_REQUIRED_DEVICE_OPS(NVLLM_BIND)
#undef NVLLM_BIND
    if (is_broken("op")) ops.rope = nullptr;
    return ops;
}

BackendTable make_table() {
    BackendTable table;
    if (is_broken("version")) table.version = kBackendVersion + 1;
    table.name = is_broken("name") ? nullptr : "example";
    table.kind = DeviceKind::other;
    table.look = look;
    table.memory = memory_stats;
    table.allocate = allocate;
    table.release = release;
    table.trim = trim;
    table.allocate_pinned = allocate_pinned;
    table.release_pinned = release_pinned;
    table.copy = copy;
    table.fill = fill;
    table.make_stream = make_stream;
    table.end_stream = end_stream;
    table.synchronize = synchronize;
    table.make_event = make_event;
    table.end_event = end_event;
    table.record = record;
    table.wait = wait;
    table.is_done = is_done;
    table.await = await;
    table.elapsed_ms = elapsed_ms;
    table.begin_capture = begin_capture;
    table.end_capture = end_capture;
    table.launch = launch;
    table.end_graph = end_graph;
    table.set_batch_invariant = set_batch_invariant;
    table.max_head_dim = is_broken("heads") ? 4 : 0;
    table.set_warn = set_warn;
    static BackendOps ops;
    ops = make_ops();
    table.ops = &ops;
    return table;
}

}  // namespace
}  // namespace example

NVLLM_BACKEND_ENTRY() {
    static nvllm::BackendTable table;
    table = example::make_table();
    return &table;
}
