// The scratch arena: a list of chunks used as one stack.
//
// Invariant: chunks after current_ are empty, so giving back is a matter of lowering two numbers.
#include "kernels/context.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "kernels/error.h"

namespace nvllm {
namespace {

constexpr size_t kAlignment = 64;
// Addresses that no process of a 64-bit system has.
constexpr uintptr_t kNowhere = uintptr_t{1} << 60;
constexpr size_t kBytesOfNowhere = size_t{1} << 60;

size_t rounded_up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

void ScratchArena::FreeDeleter::operator()(std::byte* memory) const { std::free(memory); }

ScratchArena::ScratchArena(size_t reserved_bytes, const ComputeDevice& device) : device_(device) {
    if (reserved_bytes > 0) add_chunk(rounded_up(reserved_bytes));
}

ScratchArena ScratchArena::of_dry_run() {
    ScratchArena arena;
    Chunk chunk;
    chunk.begin = reinterpret_cast<std::byte*>(kNowhere);
    chunk.bytes = kBytesOfNowhere;
    arena.chunks_.push_back(std::move(chunk));
    arena.is_of_dry_run_ = true;
    return arena;
}

void ScratchArena::add_chunk(size_t bytes) {
    Chunk chunk;
    chunk.bytes = bytes;
    if (!device_.is_cpu()) {
        chunk.of_device = device_.allocate(bytes);
        chunk.begin = chunk.of_device.get();
    } else if (bytes >= kHugePageBytes) {
        chunk.large = take_pages(bytes);
        chunk.begin = chunk.large.get();
    } else {
        chunk.small.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes)));
        chunk.begin = chunk.small.get();
    }
    if (chunk.begin == nullptr) {
        throw Error(ErrorKind::does_not_fit, "cannot allocate " + std::to_string(bytes) +
                                                 " bytes of scratch memory: use smaller batches");
    }
    chunks_.push_back(std::move(chunk));
}

void* ScratchArena::take(size_t bytes) {
    const size_t needed = std::max(rounded_up(bytes), kAlignment);
    while (current_ < chunks_.size() && chunks_[current_].bytes - chunks_[current_].used < needed) {
        ++current_;
    }
    if (current_ == chunks_.size()) {
        add_chunk(needed);
        ++num_growths_;
    }
    Chunk& chunk = chunks_[current_];
    void* memory = chunk.begin + chunk.used;
    chunk.used += needed;
    peak_bytes_ = std::max(peak_bytes_, bytes_in_use());
    return memory;
}

void ScratchArena::reset() {
    current_ = 0;
    if (chunks_.size() > 1) {
        // One chunk as large as all of them, so that the next step finds its memory without
        // growing.
        const size_t total = reserved_bytes();
        chunks_.clear();
        add_chunk(total);
    }
    for (Chunk& chunk : chunks_) chunk.used = 0;
}

size_t ScratchArena::reserved_bytes() const {
    size_t total = 0;
    for (const Chunk& chunk : chunks_) total += chunk.bytes;
    return total;
}

size_t ScratchArena::bytes_in_use() const {
    size_t total = 0;
    for (const Chunk& chunk : chunks_) total += chunk.used;
    return total;
}

ScratchArena::Scope::Scope(ScratchArena& arena)
    : arena_(arena),
      chunk_(arena.current_),
      used_(arena.current_ < arena.chunks_.size() ? arena.chunks_[arena.current_].used : 0) {}

ScratchArena::Scope::~Scope() {
    for (size_t i = chunk_; i < arena_.chunks_.size(); ++i) {
        arena_.chunks_[i].used = i == chunk_ ? used_ : 0;
    }
    arena_.current_ = chunk_;
}

}  // namespace nvllm
