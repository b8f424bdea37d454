// All memory of this test program is pinned memory of the host, which kernels read and write where
// it lies: the tests hand them what they would hand the emulation.
//
// Blocks come from regions in sizes of powers of two and go back to a list of their size; a test
// program needs no more. What the CUDA runtime itself allocates while it makes a region is the C
// library's.
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>

#include "../../testing.h"
#include "kernels/backend.h"

namespace {

constexpr size_t kRegionBytes = size_t{256} << 20;
constexpr size_t kAlignment = 256;
constexpr size_t kOfTheCLibrary = 0;  // in place of a size class

struct Header {
    size_t size_class;
    Header* next;
};

class PinnedHeap {
  public:
    void* take(size_t bytes) {
        const size_t size_class = std::bit_width(bytes + kAlignment - 1);
        if (is_making_region) {
            return payload_of(std::aligned_alloc(kAlignment, size_t{1} << (size_class + 1)),
                              kOfTheCLibrary);
        }
        const std::lock_guard lock(mutex_);
        Header* const header = free_[size_class];
        if (header == nullptr) return payload_of(fresh(size_t{1} << size_class), size_class);
        free_[size_class] = header->next;
        return payload_of(header, size_class);
    }
    void release(void* memory) {
        auto* header = reinterpret_cast<Header*>(static_cast<std::byte*>(memory) - kAlignment);
        if (header->size_class == kOfTheCLibrary) {
            std::free(header);
            return;
        }
        const std::lock_guard lock(mutex_);
        header->next = free_[header->size_class];
        free_[header->size_class] = header;
    }

  private:
    static void* payload_of(void* block, size_t size_class) {
        static_cast<Header*>(block)->size_class = size_class;
        return static_cast<std::byte*>(block) + kAlignment;
    }

    std::byte* fresh(size_t bytes) {
        bytes += kAlignment;
        if (bytes > left_) {
            left_ = std::max(bytes, kRegionBytes);
            next_ = make_region(left_);
        }
        std::byte* const block = next_;
        next_ += bytes;
        left_ -= bytes;
        return block;
    }

    static std::byte* make_region(size_t bytes) {
        void* region = nullptr;
        is_making_region = true;
        const cudaError_t status =
            cudaHostAlloc(&region, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
        is_making_region = false;
        if (status != cudaSuccess) {
            std::fprintf(stderr, "no pinned memory: %s\n", cudaGetErrorString(status));
            std::abort();
        }
        return static_cast<std::byte*>(region);
    }

    static thread_local bool is_making_region;

    std::mutex mutex_;
    std::byte* next_ = nullptr;
    size_t left_ = 0;
    Header* free_[64] = {};
};

thread_local bool PinnedHeap::is_making_region = false;

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
