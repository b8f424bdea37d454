// The functions that code compiled with -fsanitize=thread calls at every load and store. Here they
// tell the emulation; the sanitizer itself is not linked. Part of no program but the race tests.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/cuda_emulation/accesses.h"
#include "kernels/cuda_emulation/scheduler.h"

namespace {

using namespace nvllm::gpu::emulation;

// Neither the stacks of fibers nor the scheduler's own memory.
void hook(const void* address, size_t bytes, Access access, Origin origin) {
    if (current == nullptr) return;
    Scheduler& scheduler = Scheduler::instance();
    if (current->fiber->contains(address) || scheduler.owns(address)) return;
    scheduler.maybe_preempt();
    std::string report;
    try {
        note_access(*current, address, bytes, access, origin);
        return;
    } catch (const Fault& fault) {
        report = fault.what();
    }
    scheduler.stop(std::move(report));  // compilers take hooks for functions that do not throw
}

}  // namespace

#define NVLLM_HOOKS(bytes)                                                                         \
    void __tsan_read##bytes(void* address) { hook(address, bytes, Access::read, NVLLM_CALLER); }   \
    void __tsan_write##bytes(void* address) { hook(address, bytes, Access::write, NVLLM_CALLER); } \
    void __tsan_unaligned_read##bytes(void* address) {                                             \
        hook(address, bytes, Access::read, NVLLM_CALLER);                                          \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(void* address) {                                            \
        hook(address, bytes, Access::write, NVLLM_CALLER);                                         \
    }                                                                                              \
    void __tsan_volatile_read##bytes(void* address) {                                              \
        hook(address, bytes, Access::read, NVLLM_CALLER);                                          \
    }                                                                                              \
    void __tsan_volatile_write##bytes(void* address) {                                             \
        hook(address, bytes, Access::write, NVLLM_CALLER);                                         \
    }

extern "C" {

void __tsan_init() { announce_access_hooks(); }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

NVLLM_HOOKS(1)
NVLLM_HOOKS(2)
NVLLM_HOOKS(4)
NVLLM_HOOKS(8)
NVLLM_HOOKS(16)

void __tsan_read_range(void* address, size_t bytes) {
    hook(address, bytes, Access::read, NVLLM_CALLER);
}
void __tsan_write_range(void* address, size_t bytes) {
    hook(address, bytes, Access::write, NVLLM_CALLER);
}

}  // extern "C"
