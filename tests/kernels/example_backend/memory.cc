// Counts what is taken, and keeps the sizes of blocks.
#include "memory.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace example {
namespace {

constexpr size_t kAlignment = 256;

struct Books {
    std::map<void*, size_t> blocks;
    uint64_t in_use = 0;
    uint64_t peak = 0;
};

std::mutex mutex;
std::array<Books, 2> books;

}  // namespace

void* allocate(int device, size_t bytes) {
    const size_t padded = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    const std::lock_guard lock(mutex);
    Books& of = books.at(static_cast<size_t>(device));
    void* memory =
        of.in_use + padded <= kMemoryBytes ? std::aligned_alloc(kAlignment, padded) : nullptr;
    if (memory == nullptr) {
        throw nvllm::Error(nvllm::ErrorKind::does_not_fit, "example:" + std::to_string(device) +
                                                               " has no " + std::to_string(bytes) +
                                                               " bytes left");
    }
    // Unwritten memory is no number.
    std::memset(memory, 0xff, padded);
    of.blocks[memory] = padded;
    of.in_use += padded;
    of.peak = std::max(of.peak, of.in_use);
    return reinterpret_cast<void*>(reinterpret_cast<uint64_t>(memory) | kDeviceBit);
}

void release(int device, void* memory) {
    const std::lock_guard lock(mutex);
    Books& of = books.at(static_cast<size_t>(device));
    const auto block = of.blocks.find(host(memory));
    if (block == of.blocks.end()) std::abort();
    of.in_use -= block->second;
    std::free(block->first);
    of.blocks.erase(block);
}

nvllm::DeviceMemoryStats memory_stats(int device) {
    const std::lock_guard lock(mutex);
    const Books& of = books.at(static_cast<size_t>(device));
    return {kMemoryBytes, kMemoryBytes - of.in_use, of.in_use, of.peak};
}

}  // namespace example
