// Sleeping until a word changes, with two kinds of sleepers at one word.
//
// std::atomic::wait knows one kind, and a notification wakes all of it.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace nvllm {

// Sleeps while the word is `value`, until futex_wake() with a bit in common; may return earlier.
inline void futex_wait(const std::atomic<uint32_t>& word, uint32_t value, uint32_t bits) {
    ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value, nullptr, nullptr, bits);
}

// Wakes all that sleep with a bit in common.
inline void futex_wake(const std::atomic<uint32_t>& word, uint32_t bits) {
    ::syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, INT_MAX, nullptr, nullptr, bits);
}

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));

}  // namespace nvllm
