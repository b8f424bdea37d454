// How much memory this process could still take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace nvllm {

// The smaller of what the system reports as available and what is left below the limits of the
// control groups this process is in (versions 1 and 2).
uint64_t available_memory_bytes();

// Gives the whole pages of [memory, memory + bytes) back to the system; they read as zero when they
// are used again. REQUIRES: private memory that no file lies behind.
void release_pages(void* memory, size_t bytes);

// Gives back the whole pages of a mapped file within `bytes`: they are read again when they are
// touched. REQUIRES: a mapping that is not written to, or one that its file shares.
void release_mapped_pages(std::span<const std::byte> bytes);

// Resident memory of this process now, and at its highest.
uint64_t resident_memory_bytes();
uint64_t peak_resident_memory_bytes();

}  // namespace nvllm
