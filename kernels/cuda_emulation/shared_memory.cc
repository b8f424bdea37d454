// The arena of shared memory.
#include "kernels/cuda_emulation/shared_memory.h"

#include <sys/mman.h>

#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "kernels/cuda/primitives/extent.h"
#include "kernels/cuda_emulation/scheduler.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define NVLLM_FORBID(address, bytes) ASAN_POISON_MEMORY_REGION(address, bytes)
#define NVLLM_ALLOW(address, bytes) ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#else
#define NVLLM_FORBID(address, bytes) ((void)(address), (void)(bytes))
#define NVLLM_ALLOW(address, bytes) ((void)(address), (void)(bytes))
#endif

namespace nvllm::gpu::emulation {

namespace {

// Room for gaps besides what a block may use.
constexpr size_t kArenaBytes = 2 * kMaxSharedBytes;
constexpr size_t kGapBytes = 64;
constexpr int kPoison = 0xff;
constexpr int kGapPattern = 0xa5;

struct Array {
    const void* key = nullptr;
    const char* name = nullptr;
    size_t begin = 0;
    size_t bytes = 0;
};

struct Arena {
    std::byte* memory = nullptr;
    size_t max_bytes = kMaxSharedBytes;  // of this launch
    size_t used = 0;                     // with gaps
    size_t payload_bytes = 0;
    std::vector<Array> arrays;
};

Arena& arena() {
    static Arena instance = [] {
        void* memory =
            mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        Arena fresh;
        fresh.memory = static_cast<std::byte*>(memory);
        return fresh;
    }();
    return instance;
}

// Takes [used, used + bytes) at the alignment, poisons it, and closes it with a gap up to the next
// 16 bytes or more.
Array take(const void* key, const char* name, size_t bytes, size_t alignment) {
    Arena& own = arena();
    const size_t begin = (own.used + alignment - 1) / alignment * alignment;
    const size_t gap_end = (begin + bytes + kGapBytes + 15) / 16 * 16;
    NVLLM_ALLOW(own.memory + own.used, gap_end - own.used);
    std::memset(own.memory + begin, kPoison, bytes);
    std::memset(own.memory + begin + bytes, kGapPattern, gap_end - begin - bytes);
    NVLLM_FORBID(own.memory + begin + bytes, gap_end - begin - bytes);
    own.used = gap_end;
    own.payload_bytes += bytes;
    own.arrays.push_back({key, name, begin, bytes});
    return own.arrays.back();
}

void check_gap(const Array& array) {
    const Arena& own = arena();
    const size_t end = array.begin + array.bytes;
    NVLLM_ALLOW(own.memory + end, kGapBytes);
    for (size_t i = 0; i < kGapBytes; ++i) {
        if (own.memory[end + i] == std::byte{kGapPattern}) continue;
        throw Fault("a block has written " + std::to_string(i) +
                    " bytes past the end of shared memory '" + array.name + "' (" +
                    std::to_string(array.bytes) + " bytes)");
    }
    NVLLM_FORBID(own.memory + end, kGapBytes);
}

}  // namespace

bool has_address_sanitizer() {
#if defined(__SANITIZE_ADDRESS__)
    return true;
#else
    return false;
#endif
}

void begin_shared_memory(size_t dynamic_bytes) {
    Arena& own = arena();
    own.arrays.clear();
    own.used = 0;
    own.payload_bytes = 0;
    own.max_bytes = dynamic_bytes > kSharedWithoutAsking ? kMaxSharedBytes : kMaxStaticSharedBytes;
    if (dynamic_bytes > 0) take(nullptr, "dynamic", dynamic_bytes, 1024);
}

void check_shared_memory() {
    for (const Array& array : arena().arrays) check_gap(array);
}

void* static_shared(const void* key, const char* name, size_t bytes, size_t alignment) {
    Arena& own = arena();
    for (const Array& array : own.arrays) {
        if (array.key == key) return own.memory + array.begin;
    }
    Scheduler& scheduler = Scheduler::instance();
    if (bytes > kMaxStaticSharedBytes || own.payload_bytes + bytes > own.max_bytes) {
        scheduler.fail("shared memory '" + std::string(name) + "' of " + std::to_string(bytes) +
                       " bytes does not fit: a block may have 48 KiB of static and 227 KiB of all "
                       "shared memory, 48 KiB where gpu::launch() asks for no more");
    }
    return own.memory + take(key, name, bytes, alignment).begin;
}

void* dynamic_shared(const char* name) {
    Arena& own = arena();
    if (own.arrays.empty() || own.arrays.front().key != nullptr) {
        Scheduler::instance().fail("a kernel uses dynamic shared memory '" + std::string(name) +
                                   "', and its launch gave none (shared_bytes)");
    }
    return own.memory;
}

bool is_shared(const void* address) {
    const std::byte* begin = arena().memory;
    return address >= begin && address < begin + kArenaBytes;
}

uint32_t shared_offset(const void* address, const Site& where) {
    if (!is_shared(address))
        Scheduler::instance().fail_at(where, "the address is not in shared memory");
    return static_cast<uint32_t>(static_cast<const std::byte*>(address) - arena().memory);
}

std::byte* shared_at(uint32_t offset) { return arena().memory + offset; }

const char* shared_array_at(const void* address, size_t bytes) {
    const Arena& own = arena();
    const auto begin = static_cast<size_t>(static_cast<const std::byte*>(address) - own.memory);
    for (const Array& array : own.arrays) {
        if (begin >= array.begin && begin + bytes <= array.begin + array.bytes) return array.name;
    }
    return nullptr;
}

}  // namespace nvllm::gpu::emulation
