// How much memory this process could still take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/host/control_groups.h"

namespace nvllm {

// The least of: what the system reports as available; what is left below the limits of the control
// groups this process is in (left_in_control_groups); what is left of its address space (ulimit
// -v).
uint64_t available_memory_bytes();

// What these groups leave: the least of their limits without what is in use. Pages of files in the
// page cache count as free, as in the kernel's MemAvailable: the kernel takes them back before it
// refuses memory. UINT64_MAX without a limit; groups whose files are missing have none.
uint64_t left_in_control_groups(std::span<const ControlGroup> groups);

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
