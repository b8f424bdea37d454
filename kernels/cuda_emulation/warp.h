// Shuffles, votes and synchronisation of a warp's lanes.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda_emulation/site.h"
#include "kernels/cuda_emulation/thread.h"

namespace nvllm::gpu {

namespace emulation {

// The value of `source_lane`, which faults where it is not in the mask.
uint64_t shuffle_bits(uint32_t mask, uint64_t bits, int source_lane, const char* operation,
                      const Site& where);
uint32_t vote(uint32_t mask, bool yes, const char* operation, const Site& where);
void sync_lanes(uint32_t mask, const Site& where);

template <typename T>
T shuffle_value(uint32_t mask, T value, int source_lane, const char* operation, const Site& where) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    bits = shuffle_bits(mask, bits, source_lane, operation, where);
    std::memcpy(static_cast<void*>(&value), &bits, sizeof(T));
    return value;
}

}  // namespace emulation

constexpr uint32_t full_mask = emulation::kFullMask;
constexpr int warp_size = emulation::kWarpSize;

// By the flat number of the thread in its block.
inline int lane_id() { return emulation::current->lane; }
inline int warp_id() { return emulation::current->warp; }

// The value of lane `lane` of the whole warp.
template <typename T>
T shuffle(T value, int lane, uint32_t mask = full_mask,
          emulation::Site where = emulation::Site::here()) {
    return emulation::shuffle_value(mask, value, lane & 31, "shuffle", where);
}
template <typename T>
T shuffle_xor(T value, int lane_mask, uint32_t mask = full_mask,
              emulation::Site where = emulation::Site::here()) {
    return emulation::shuffle_value(mask, value, (emulation::current->lane ^ lane_mask) & 31,
                                    "shuffle_xor", where);
}
// The value of the lane `count` further up; beyond the warp's end the lane's own.
template <typename T>
T shuffle_down(T value, int count, uint32_t mask = full_mask,
               emulation::Site where = emulation::Site::here()) {
    const int source = emulation::current->lane + count;
    return emulation::shuffle_value(mask, value, source < 32 ? source : emulation::current->lane,
                                    "shuffle_down", where);
}
template <typename T>
T shuffle_up(T value, int count, uint32_t mask = full_mask,
             emulation::Site where = emulation::Site::here()) {
    const int source = emulation::current->lane - count;
    return emulation::shuffle_value(mask, value, source >= 0 ? source : emulation::current->lane,
                                    "shuffle_up", where);
}

inline void sync_warp(uint32_t mask = full_mask, emulation::Site where = emulation::Site::here()) {
    emulation::sync_lanes(mask, where);
}
// Bit i: the predicate of lane i.
inline uint32_t ballot(bool predicate, uint32_t mask = full_mask,
                       emulation::Site where = emulation::Site::here()) {
    return emulation::vote(mask, predicate, "ballot", where);
}
inline bool any(bool predicate, uint32_t mask = full_mask,
                emulation::Site where = emulation::Site::here()) {
    return emulation::vote(mask, predicate, "any", where) != 0;
}
inline bool all(bool predicate, uint32_t mask = full_mask,
                emulation::Site where = emulation::Site::here()) {
    return emulation::vote(mask, predicate, "all", where) == mask;
}
// The lanes that are here now. The emulation knows no convergence: only the lane itself is sure to
// be.
inline uint32_t active_mask() { return 1u << emulation::current->lane; }

}  // namespace nvllm::gpu
