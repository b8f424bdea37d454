// Atomics as plain operations: threads give way only at known places, and none lies within these.
#include "kernels/cuda_emulation/atomics.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include "kernels/cuda_emulation/accesses.h"
#include "kernels/cuda_emulation/races.h"
#include "kernels/cuda_emulation/scheduler.h"

namespace nvllm::gpu {

namespace {

using emulation::Scheduler;
using emulation::Site;

template <typename T>
void check_aligned(const T* address, const Site& where) {
    if (reinterpret_cast<uintptr_t>(address) % sizeof(T) == 0) return;
    Scheduler::instance().fail_at(where,
                                  "an atomic operation on an address that is not aligned to " +
                                      std::to_string(sizeof(T)) + " bytes");
}

template <typename T, typename Change>
T exchange_with(T* address, const Site& where, emulation::Origin origin, Change change) {
    check_aligned(address, where);
    emulation::note_access(*emulation::current, address, sizeof(T), emulation::Access::atomic,
                           origin);
    const T before = *address;
    *address = change(before);
    return before;
}

}  // namespace

template <typename T>
T atomic_add(T* address, T value, Site where) {
    if constexpr (std::is_integral_v<T>) {
        using Wrapping = std::make_unsigned_t<T>;
        return exchange_with(address, where, NVLLM_CALLER, [&](T before) {
            return static_cast<T>(static_cast<Wrapping>(before) + static_cast<Wrapping>(value));
        });
    } else {
        return exchange_with(address, where, NVLLM_CALLER,
                             [&](T before) { return before + value; });
    }
}

template <typename T>
T atomic_max(T* address, T value, Site where) {
    return exchange_with(address, where, NVLLM_CALLER,
                         [&](T before) { return std::max(before, value); });
}

template <typename T>
T atomic_min(T* address, T value, Site where) {
    return exchange_with(address, where, NVLLM_CALLER,
                         [&](T before) { return std::min(before, value); });
}

template <typename T>
T atomic_or(T* address, T value, Site where) {
    return exchange_with(address, where, NVLLM_CALLER,
                         [&](T before) { return static_cast<T>(before | value); });
}

template <typename T>
T atomic_exchange(T* address, T value, Site where) {
    return exchange_with(address, where, NVLLM_CALLER, [&](T) { return value; });
}

template <typename T>
T atomic_cas(T* address, T expected, T value, Site where) {
    const T before = exchange_with(address, where, NVLLM_CALLER, [&](T present) {
        return present == expected ? value : present;
    });
    if (before != expected) Scheduler::instance().give_way();
    return before;
}

template <typename T>
T load_volatile(const T* address, Site where) {
    check_aligned(address, where);
    Scheduler::instance().give_way();
    emulation::note_access(*emulation::current, address, sizeof(T), emulation::Access::atomic,
                           NVLLM_CALLER);
    return *address;
}

void thread_fence() { emulation::races::note_fence(); }
void thread_fence_block() {}

#define NVLLM_ATOMICS(T)                     \
    template T atomic_add(T*, T, Site);      \
    template T atomic_max(T*, T, Site);      \
    template T atomic_min(T*, T, Site);      \
    template T atomic_exchange(T*, T, Site); \
    template T load_volatile(const T*, Site);
#define NVLLM_INTEGER_ATOMICS(T)       \
    NVLLM_ATOMICS(T)                   \
    template T atomic_or(T*, T, Site); \
    template T atomic_cas(T*, T, T, Site);

NVLLM_INTEGER_ATOMICS(int)
NVLLM_INTEGER_ATOMICS(unsigned)
NVLLM_INTEGER_ATOMICS(unsigned long long)
NVLLM_ATOMICS(float)

}  // namespace nvllm::gpu
