// Reports what threads read and write to the race detector and the access counters.
//
// Kernels compiled with access hooks report every load and store by themselves (hooks.cc); the
// wrappers report here what the emulation does on a thread's behalf. Without hooks races are not
// detected, because only part of the accesses is seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/cuda_emulation/thread.h"

namespace nvllm::gpu::emulation {

enum class Access : uint8_t { read, write, atomic };

// Where an access comes from: an address within the kernel's code.
using Origin = const void*;

// The place in the kernel that called the function this stands in, which must not be inlined.
#define NVLLM_CALLER __builtin_return_address(0)

// A thread accesses bytes. Faults when another thread's access to one of them, or an asynchronous
// copy, is not ordered with it. Addresses on the stacks of fibers are ignored.
void note_access(const Thread& thread, const void* address, size_t bytes, Access access,
                 Origin origin);

// The program's kernels have access hooks; called once, by those.
void announce_access_hooks();

// "norm.cu:41", by the program's line tables; where these are missing the function's name or the
// bare address.
std::string describe_origin(Origin origin);

}  // namespace nvllm::gpu::emulation
