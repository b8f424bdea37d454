// Loads and stores of 16 bytes and their like, with the alignment that a device demands.
#pragma once

#include <vector_types.h>

#include <bit>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda_emulation/site.h"

namespace nvllm::gpu {

namespace emulation {

// Faults unless `address` is a multiple of `alignment`.
void check_alignment(const void* address, size_t alignment, const char* operation,
                     const Site& where);

// One access of this many bytes, also to those who watch: compilers take structures apart, but not
// these.
template <size_t bytes>
struct Whole;
template <>
struct Whole<4> {
    typedef uint32_t Type __attribute__((may_alias));
};
template <>
struct Whole<8> {
    typedef uint64_t Type __attribute__((may_alias));
};
template <>
struct Whole<16> {
    typedef uint32_t Type __attribute__((vector_size(16), may_alias));
};

template <typename Word>
Word load_word(const void* address, const Site& where) {
    check_alignment(address, sizeof(Word), "a load", where);
    return std::bit_cast<Word>(*static_cast<const typename Whole<sizeof(Word)>::Type*>(address));
}

template <typename Word>
void store_word(void* address, Word value, const Site& where) {
    check_alignment(address, sizeof(Word), "a store", where);
    *static_cast<typename Whole<sizeof(Word)>::Type*>(address) =
        std::bit_cast<typename Whole<sizeof(Word)>::Type>(value);
}

}  // namespace emulation

inline uint4 load16(const void* address, emulation::Site where = emulation::Site::here()) {
    return emulation::load_word<uint4>(address, where);
}
inline uint2 load8(const void* address, emulation::Site where = emulation::Site::here()) {
    return emulation::load_word<uint2>(address, where);
}
inline uint32_t load4(const void* address, emulation::Site where = emulation::Site::here()) {
    return emulation::load_word<uint32_t>(address, where);
}
inline void store16(void* address, uint4 value, emulation::Site where = emulation::Site::here()) {
    emulation::store_word(address, value, where);
}
inline void store8(void* address, uint2 value, emulation::Site where = emulation::Site::here()) {
    emulation::store_word(address, value, where);
}
inline void store4(void* address, uint32_t value, emulation::Site where = emulation::Site::here()) {
    emulation::store_word(address, value, where);
}
// Of global memory that nothing writes during the launch and that is read once: kept out of the
// first cache.
inline uint4 load_streaming16(const void* address,
                              emulation::Site where = emulation::Site::here()) {
    return emulation::load_word<uint4>(address, where);
}
// Of global memory that nothing writes during the launch.
template <typename T>
T load_read_only(const T* address, emulation::Site where = emulation::Site::here()) {
    emulation::check_alignment(address, sizeof(T), "a load", where);
    return *address;
}

}  // namespace nvllm::gpu
