// The device layer in host memory: everything is done at once, and a graph is a list of what was
// put into its stream.
//
// With NVLLM_EMULATED_CUDA=late in the environment work is put off until a thread waits for it, as
// on a slow GPU: memory that is changed or read too early gives other results. Work of all threads
// is in one list then, and the thread that waits does it in that order.
//
// Memory of the device has a size, so that too little of it can be tested. NVLLM_EMULATED_DEVICES
// in the environment says how many devices there are: 1.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/cuda/runtime/allocator.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda_emulation/launch.h"

namespace nvllm::cuda::device {
namespace {

constexpr uint64_t kMemoryBytes = uint64_t{2} << 30;
constexpr size_t kAlignment = 256;
constexpr int kMaxDevices = 16;

using Work = std::function<void()>;

struct Graph {
    std::vector<Work> work;
};

struct Stream {
    Graph* captured = nullptr;  // of whom capturing; null: work is done
};

struct Event {
    std::chrono::steady_clock::time_point at;
    int num_awaited = 0;  // recordings that are put off
    bool timed = false;
};

bool is_late() {
    static const bool late = [] {
        const char* const wanted = std::getenv("NVLLM_EMULATED_CUDA");
        return wanted != nullptr && std::string_view(wanted) == "late";
    }();
    return late;
}

// Of what is put off, of the recordings of events that are, and of pinned memory.
std::mutex& late_mutex() {
    static std::mutex mutex;
    return mutex;
}

// Of all streams, in order.
std::deque<Work>& put_off() {
    static std::deque<Work> work;
    return work;
}

// REQUIRES: late_mutex is held, so that no thread goes on while the work it waits for is being
// done.
void do_next() {
    const Work next = std::move(put_off().front());
    put_off().pop_front();
    next();
}

void catch_up() {
    const std::lock_guard lock(late_mutex());
    while (!put_off().empty()) do_next();
}

// No farther than to the event.
void catch_up(const Event& event) {
    const std::lock_guard lock(late_mutex());
    while (event.num_awaited > 0 && !put_off().empty()) do_next();
}

void submit(void* stream, Work work) {
    auto* const target = static_cast<Stream*>(stream);
    if (target != nullptr && target->captured != nullptr) {
        target->captured->work.push_back(std::move(work));
    } else if (is_late()) {
        const std::lock_guard lock(late_mutex());
        put_off().push_back(std::move(work));
    } else {
        work();
    }
}

// Pinned memory: where it begins, and its bytes.
std::map<const std::byte*, size_t> pinned;

bool is_pinned(const void* memory) {
    const std::lock_guard lock(late_mutex());
    const auto* const place = static_cast<const std::byte*>(memory);
    auto block = pinned.upper_bound(place);
    if (block == pinned.begin()) return false;
    --block;
    return place < block->first + block->second;
}

// Copies that may read or write their host memory after they were asked for need it pinned.
void copy_late(DeviceStream stream, CopyDirection direction, void* to, const void* from,
               size_t bytes) {
    if (direction == CopyDirection::to_device && !is_pinned(from)) {
        const auto* const values = static_cast<const std::byte*>(from);
        submit(stream, [to, kept = std::vector<std::byte>(values, values + bytes)] {
            std::memcpy(to, kept.data(), kept.size());
        });
        return;
    }
    submit(stream, [=] { std::memmove(to, from, bytes); });
    if (direction == CopyDirection::to_host && !is_pinned(to)) catch_up();
}

// Of each device, whose allocators may ask at the same time.
std::mutex memory_mutex;
std::array<uint64_t, kMaxDevices> taken_bytes{};
std::unordered_map<void*, size_t> sizes;

// Writes how often kernels of each type ran to the file that this variable names, when the process
// ends.
struct LaunchReport {
    // The numbers are made before it, so that they are still there at its end.
    LaunchReport() { gpu::emulation::grids_by_type(); }
    ~LaunchReport() {
        const char* const path = std::getenv("NVLLM_EMULATED_LAUNCHES");
        if (path == nullptr) return;
        std::ofstream report(path);
        for (const auto& [type, count] : gpu::emulation::grids_by_type()) {
            report << count << ' ' << type << '\n';
        }
    }
} launch_report;

// Kernels' launches go the way of copies.
const bool launches_are_submitted = [] {
    gpu::emulation::set_launch_recorder(submit);
    return true;
}();

}  // namespace

BackendMachine look() {
    BackendMachine machine;
    machine.driver = "none: kernels run on the host";
    machine.libraries = {"emulation of the CUDA execution model"};
    const char* const wanted = std::getenv("NVLLM_EMULATED_DEVICES");
    const int devices = wanted == nullptr ? 1 : std::clamp(std::atoi(wanted), 1, kMaxDevices);
    for (int i = 0; i < devices; ++i) {
        machine.devices.push_back({"Emulated GPU", kMemoryBytes, 9, 0, ""});
    }
    return machine;
}

void make_current(int) {
    NVLLM_CHECK(launches_are_submitted, "launches are submitted from the start");
}

DeviceMemoryStats memory(int device) {
    const AllocatorStats taken = allocator_stats(device);
    return {kMemoryBytes, kMemoryBytes - taken.in_use_bytes, taken.in_use_bytes, taken.peak_bytes};
}

// The allocator asks here.
void* take(int device, size_t bytes) {
    const std::lock_guard lock(memory_mutex);
    uint64_t& taken = taken_bytes[static_cast<size_t>(device)];
    if (taken + bytes > kMemoryBytes) return nullptr;
    void* const memory =
        std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (memory == nullptr) return nullptr;
    sizes[memory] = bytes;
    taken += bytes;
    return memory;
}

void give_back(int device, void* memory) {
    const std::lock_guard lock(memory_mutex);
    taken_bytes[static_cast<size_t>(device)] -= sizes.at(memory);
    sizes.erase(memory);
    std::free(memory);
}

void* allocate_pinned(int, size_t bytes) {
    void* const memory = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
    if (memory == nullptr) throw Error(ErrorKind::does_not_fit, "no pinned host memory");
    if (!is_late()) return memory;
    const std::lock_guard lock(late_mutex());
    pinned[static_cast<const std::byte*>(memory)] = bytes;
    return memory;
}

void release_pinned(int, void* memory) {
    if (is_late()) {
        const std::lock_guard lock(late_mutex());
        pinned.erase(static_cast<const std::byte*>(memory));
    }
    std::free(memory);
}

void copy(int, DeviceStream stream, CopyDirection direction, void* to, const void* from,
          size_t bytes) {
    if (is_late()) return copy_late(stream, direction, to, from, bytes);
    submit(stream, [=] { std::memmove(to, from, bytes); });
}

void fill(int, DeviceStream stream, void* memory, uint8_t value, size_t bytes) {
    submit(stream, [=] { std::memset(memory, value, bytes); });
}

DeviceStream make_stream(int) { return new Stream(); }
void end_stream(int, DeviceStream stream) { delete static_cast<Stream*>(stream); }
void synchronize(int, DeviceStream) { catch_up(); }

DeviceEvent make_event(int, bool timed) { return new Event{.at = {}, .timed = timed}; }
void end_event(int, DeviceEvent event) { delete static_cast<Event*>(event); }
void record(int, DeviceEvent event, DeviceStream stream) {
    auto* const recorded = static_cast<Event*>(event);
    {
        const std::lock_guard lock(late_mutex());
        ++recorded->num_awaited;
    }
    submit(stream, [recorded] {
        recorded->at = std::chrono::steady_clock::now();
        --recorded->num_awaited;
    });
}
void wait(int, DeviceStream, DeviceEvent) {}
bool is_done(int, DeviceEvent event) {
    catch_up(*static_cast<Event*>(event));
    return true;
}
void await(int, DeviceEvent event) { catch_up(*static_cast<Event*>(event)); }
double elapsed_ms(int, DeviceEvent begin, DeviceEvent end) {
    NVLLM_CHECK(static_cast<Event*>(begin)->timed && static_cast<Event*>(end)->timed,
                "events that were made without a time have none");
    const std::chrono::duration<double, std::milli> passed =
        static_cast<Event*>(end)->at - static_cast<Event*>(begin)->at;
    return passed.count();
}

void begin_capture(int, DeviceStream stream) {
    static_cast<Stream*>(stream)->captured = new Graph();
}

DeviceGraph end_capture(int, DeviceStream stream) {
    return std::exchange(static_cast<Stream*>(stream)->captured, nullptr);
}

void launch(int, DeviceGraph graph, DeviceStream stream) {
    for (const Work& work : static_cast<Graph*>(graph)->work) submit(stream, work);
}

void end_graph(int, DeviceGraph graph) { delete static_cast<Graph*>(graph); }

}  // namespace nvllm::cuda::device
