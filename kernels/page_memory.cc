// Maps, trims to a huge page's border, and asks for huge pages.
#include "kernels/page_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

namespace nvllm {
namespace {

std::byte* map(size_t bytes) {
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// So that `bytes` begin at a border, one huge page more is mapped and what lies around is given
// back. REQUIRES: whole pages of the system.
std::byte* map_at_border(size_t bytes) {
    if (bytes > SIZE_MAX - kHugePageBytes) return nullptr;
    std::byte* all = map(bytes + kHugePageBytes);
    if (all == nullptr) return nullptr;
    const size_t before =
        (kHugePageBytes - reinterpret_cast<uintptr_t>(all) % kHugePageBytes) % kHugePageBytes;
    if (before > 0) ::munmap(all, before);
    ::munmap(all + before + bytes, kHugePageBytes - before);
#ifdef MADV_HUGEPAGE
    // Advice only: where huge pages are off, small ones do.
    ::madvise(all + before, bytes, MADV_HUGEPAGE);
#endif
    return all + before;
}

size_t whole_pages(size_t bytes) {
    constexpr size_t kPage = size_t{64} << 10;  // the largest that a system may have
    return bytes > SIZE_MAX - kPage ? bytes : (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

void PageDeleter::operator()(std::byte* memory) const { ::munmap(memory, bytes); }

PageMemory take_pages(size_t bytes) {
    const size_t mapped = whole_pages(std::max<size_t>(bytes, 1));
    std::byte* memory = mapped < kHugePageBytes ? map(mapped) : map_at_border(mapped);
    return {memory, PageDeleter{mapped}};
}

}  // namespace nvllm
