// Best fit among the released blocks, else the driver, and before giving up all that is cached.
#include "kernels/cuda/runtime/allocator.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "kernels/cuda/runtime/device.h"
#include "kernels/error.h"

namespace nvllm::cuda {
namespace {

constexpr size_t kSmallStep = 512;
constexpr size_t kLargeStep = size_t{2} << 20;
constexpr size_t kLarge = size_t{1} << 20;

size_t rounded_up(size_t bytes) {
    const size_t step = bytes >= kLarge ? kLargeStep : kSmallStep;
    return (std::max<size_t>(bytes, 1) + step - 1) / step * step;
}

class Allocator {
  public:
    explicit Allocator(int device) : device_(device) {}

    void* allocate(size_t asked) {
        const size_t bytes = rounded_up(asked);
        const std::lock_guard lock(mutex_);
        void* memory = reuse(bytes);
        if (memory == nullptr) memory = take(bytes);
        stats_.in_use_bytes += sizes_.at(memory);
        stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.in_use_bytes);
        return memory;
    }

    void release(void* memory) {
        const std::lock_guard lock(mutex_);
        const size_t bytes = sizes_.at(memory);
        stats_.in_use_bytes -= bytes;
        stats_.cached_bytes += bytes;
        cached_.emplace(bytes, memory);
    }

    void trim() {
        const std::lock_guard lock(mutex_);
        give_back_cached();
    }

    AllocatorStats stats() {
        const std::lock_guard lock(mutex_);
        return stats_;
    }

  private:
    // A cached block of at most an eighth more than is needed.
    void* reuse(size_t bytes) {
        const auto block = cached_.lower_bound(bytes);
        if (block == cached_.end() || block->first > bytes + bytes / 8) return nullptr;
        void* const memory = block->second;
        stats_.cached_bytes -= block->first;
        cached_.erase(block);
        return memory;
    }

    void* take(size_t bytes) {
        void* memory = device::take(device_, bytes);
        if (memory == nullptr && !cached_.empty()) {
            give_back_cached();
            memory = device::take(device_, bytes);
        }
        if (memory == nullptr) {
            throw Error(ErrorKind::does_not_fit,
                        "cuda:" + std::to_string(device_) + " has no " + std::to_string(bytes) +
                            " bytes left beside the " + std::to_string(stats_.in_use_bytes) +
                            " in use: lower --gpu-memory-utilization");
        }
        sizes_[memory] = bytes;
        return memory;
    }

    void give_back_cached() {
        for (const auto& [bytes, memory] : cached_) {
            device::give_back(device_, memory);
            sizes_.erase(memory);
        }
        cached_.clear();
        stats_.cached_bytes = 0;
    }

    int device_;
    std::mutex mutex_;
    std::unordered_map<void*, size_t> sizes_;
    std::multimap<size_t, void*> cached_;
    AllocatorStats stats_;
};

// Never destroyed: at the end of a process the driver may be gone before it.
Allocator& allocator_of(int device) {
    static std::mutex mutex;
    static auto& all = *new std::map<int, Allocator>();
    const std::lock_guard lock(mutex);
    return all.try_emplace(device, device).first->second;
}

}  // namespace

void* allocate(int device, size_t bytes) { return allocator_of(device).allocate(bytes); }
void release(int device, void* memory) { allocator_of(device).release(memory); }
void trim(int device) { allocator_of(device).trim(); }
AllocatorStats allocator_stats(int device) { return allocator_of(device).stats(); }

}  // namespace nvllm::cuda
