// All memory of this test program is pinned memory of the host, which kernels read and write where
// it lies: the tests hand them what they would hand the emulation.
//
// Blocks come from one region in sizes of powers of two and go back to a list of their size; a test
// program needs no more.
#include <cuda_runtime.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

#include "../../testing.h"
#include "kernels/backend.h"

namespace {

constexpr size_t kRegionBytes = size_t{4} << 30;
constexpr size_t kAlignment = 256;

struct Header {
    size_t size_class;
    Header* next;
};

class PinnedHeap {
  public:
    void* take(size_t bytes) {
        const size_t size_class = std::bit_width(bytes + kAlignment - 1);
        const std::lock_guard lock(mutex_);
        Header* header = free_[size_class];
        if (header != nullptr) {
            free_[size_class] = header->next;
        } else {
            header = reinterpret_cast<Header*>(fresh(size_t{1} << size_class));
            header->size_class = size_class;
        }
        return reinterpret_cast<std::byte*>(header) + kAlignment;
    }
    void release(void* memory) {
        auto* header = reinterpret_cast<Header*>(static_cast<std::byte*>(memory) - kAlignment);
        const std::lock_guard lock(mutex_);
        header->next = free_[header->size_class];
        free_[header->size_class] = header;
    }

  private:
    std::byte* fresh(size_t bytes) {
        if (next_ == nullptr) {
            void* region = nullptr;
            const cudaError_t status =
                cudaHostAlloc(&region, kRegionBytes, cudaHostAllocPortable | cudaHostAllocMapped);
            if (status != cudaSuccess) {
                std::fprintf(stderr, "no pinned memory: %s\n", cudaGetErrorString(status));
                std::abort();
            }
            next_ = static_cast<std::byte*>(region);
            end_ = next_ + kRegionBytes;
        }
        bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
        if (next_ + bytes + kAlignment > end_) {
            std::fprintf(stderr, "the tests need more pinned memory than %zu bytes\n",
                         kRegionBytes);
            std::abort();
        }
        std::byte* block = next_;
        next_ += bytes + kAlignment;
        return block;
    }

    std::mutex mutex_;
    std::byte* next_ = nullptr;
    std::byte* end_ = nullptr;
    Header* free_[64] = {};
};

PinnedHeap& heap() {
    static PinnedHeap* const only =
        ::new (std::malloc(sizeof(PinnedHeap))) PinnedHeap;  // never destroyed
    return *only;
}

nvllm::BackendTable table_of_pinned_memory() {
    nvllm::BackendTable table;
    table.allocate = [](int, size_t bytes) { return heap().take(bytes); };
    table.release = [](int, void* memory) { heap().release(memory); };
    return table;
}

}  // namespace

const nvllm::ComputeDevice& testing::memory_of_tests() {
    static const nvllm::BackendTable table = table_of_pinned_memory();
    static const nvllm::ComputeDevice device(table, 0);
    return device;
}

void* operator new(size_t bytes) { return heap().take(bytes); }
void* operator new[](size_t bytes) { return heap().take(bytes); }
void* operator new(size_t bytes, std::align_val_t) { return heap().take(bytes); }
void* operator new[](size_t bytes, std::align_val_t) { return heap().take(bytes); }
void operator delete(void* memory) noexcept {
    if (memory != nullptr) heap().release(memory);
}
void operator delete[](void* memory) noexcept { operator delete(memory); }
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
void operator delete[](void* memory, size_t) noexcept { operator delete(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { operator delete(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { operator delete(memory); }
