// Four float32 lanes in plain C++: what runs where no instruction set of ours does, and the pattern
// for the others.
//
// Each simd_*.h defines one struct with the same names. Templates over it (vector_math.h,
// *_kernels.h) hold every algorithm once, and because the struct is part of their type, code for
// one instruction set is never linked into another's.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/types.h"

namespace nvllm::cpu {

struct Scalar {
    static constexpr int lanes = 4;
    static constexpr bool fma_rounds_once = false;
    static constexpr int tile_rows = 2;                   // rows of matmul's register tile
    static constexpr bool multiplies_by_columns = false;  // many rows, by matmul_by_columns.h
    static constexpr int outer_rows = 2;  // rows and vectors of attention's register tile
    static constexpr int outer_vectors = 2;

    using F = float __attribute__((vector_size(16)));
    using Int = int32_t __attribute__((vector_size(16)));
    using Four = F;  // four float32 lanes, whatever `lanes` is

    static F zero() { return F{}; }
    static F set(float x) { return F{x, x, x, x}; }
    static F lane_indices() { return F{0, 1, 2, 3}; }

    static F load(const float* p) {
        F result;
        std::memcpy(&result, p, sizeof(result));
        return result;
    }
    static F load(const BFloat16* p) {
        return F{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]),
                 static_cast<float>(p[3])};
    }
    static F load(const Float16* p) {
        return F{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]),
                 static_cast<float>(p[3])};
    }
    static F load(const Float8E4M3* p) { return load(p, lanes); }
    static F load(const int8_t* p) { return load(p, lanes); }
    // The first `count` values, zeros after them; reads nothing beyond.
    template <typename T>
    static F load(const T* p, int64_t count) {
        F result{};
        for (int64_t i = 0; i < count; ++i) result[i] = static_cast<float>(p[i]);
        return result;
    }
    // Of 2 * lanes values, those with an even or an odd index.
    static F load_even(const BFloat16* p) {
        return F{static_cast<float>(p[0]), static_cast<float>(p[2]), static_cast<float>(p[4]),
                 static_cast<float>(p[6])};
    }
    static F load_odd(const BFloat16* p) { return load_even(p + 1); }
    static F load_even(const float* p) { return F{p[0], p[2], p[4], p[6]}; }
    static F load_odd(const float* p) { return F{p[1], p[3], p[5], p[7]}; }
    // The first `count` of 2 * lanes values, zeros after them; out holds 2 * lanes.
    static void load_pairs(const BFloat16* p, int64_t count, BFloat16* out) {
        for (int64_t i = 0; i < 2 * lanes; ++i) out[i].bits = i < count ? p[i].bits : uint16_t{0};
    }

    template <typename T>
    static void store(T* p, F x) {
        store(p, x, lanes);
    }
    // Stores the first `count` lanes, rounded to nearest even; whole numbers as int8.
    template <typename T>
    static void store(T* p, F x, int64_t count) {
        for (int64_t i = 0; i < count; ++i) p[i] = static_cast<T>(x[i]);
    }
    static F round_to(const float*, F x) { return x; }
    // x rounded to the type that the first argument names.
    template <typename T>
    static F round_to(const T*, F x) {
        for (int i = 0; i < lanes; ++i) x[i] = static_cast<float>(static_cast<T>(x[i]));
        return x;
    }

    // Keeps the compiler from loading x again for each of its uses.
    static void hold_in_register(F&) {}

    static F add(F a, F b) { return a + b; }
    static F sub(F a, F b) { return a - b; }
    static F mul(F a, F b) { return a * b; }
    static F div(F a, F b) { return a / b; }
    // a * b + c
    static F fma(F a, F b, F c) { return a * b + c; }
    static F max(F a, F b) { return a > b ? a : b; }
    static F min(F a, F b) { return a < b ? a : b; }
    // a < b ? yes : no, lane by lane.
    static F select_less(F a, F b, F yes, F no) { return a < b ? yes : no; }
    static F abs(F x) { return reinterpret_cast<F>(reinterpret_cast<Int>(x) & 0x7fffffff); }
    // |x| with the sign of y.
    static F copy_sign(F x, F y) {
        return reinterpret_cast<F>((reinterpret_cast<Int>(x) & 0x7fffffff) |
                                   (reinterpret_cast<Int>(y) & static_cast<int32_t>(0x80000000)));
    }
    static F round(F x) {
        for (int i = 0; i < lanes; ++i) x[i] = __builtin_rintf(x[i]);
        return x;
    }
    // x times two to the whole number in the lowest bits of n; the product is a normal number.
    static F add_to_exponent(F x, F n) {
        using Bits = uint32_t __attribute__((vector_size(16)));
        return reinterpret_cast<F>(reinterpret_cast<Bits>(x) + (reinterpret_cast<Bits>(n) << 23));
    }
    // 2^n for whole n in [-126, 127].
    static F power_of_two(F n) {
        const Int whole = __builtin_convertvector(n, Int);
        return reinterpret_cast<F>((whole + 127) << 23);
    }

    // Sums as a balanced tree: lane l with l + lanes / 2, and so on.
    static float reduce_add(F x) { return (x[0] + x[2]) + (x[1] + x[3]); }
    static float reduce_max(F x) {
        const float even = x[0] > x[2] ? x[0] : x[2];
        const float odd = x[1] > x[3] ? x[1] : x[3];
        return even > odd ? even : odd;
    }
    // Four such sums at once.
    static Four reduce_add4(F a, F b, F c, F d) {
        return Four{reduce_add(a), reduce_add(b), reduce_add(c), reduce_add(d)};
    }
};

}  // namespace nvllm::cpu
