// Kernels over one row of values: conversions, sums, norms, activations, rotations.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/vector_math.h"
#include "kernels/types.h"

namespace nvllm::cpu {

template <class S>
struct RowKernels {
    using F = typename S::F;
    static constexpr int64_t L = S::lanes;

    // Calls body(i, whole) for each vector of a row and body(i, partial count) for what is left.
    struct Whole {};
    template <typename T>
    static F load(const T* p, Whole) {
        return S::load(p);
    }
    template <typename T>
    static F load(const T* p, int64_t count) {
        return S::load(p, count);
    }
    template <typename T>
    static void store(T* p, F x, Whole) {
        S::store(p, x);
    }
    template <typename T>
    static void store(T* p, F x, int64_t count) {
        S::store(p, x, count);
    }
    template <typename Body>
    static void for_each_vector(int64_t count, Body body) {
        int64_t i = 0;
        for (; i + L <= count; i += L) body(i, Whole{});
        if (i < count) body(i, count - i);
    }

    template <typename T>
    static void upcast(const void* x, float scale, float* out, int64_t count) {
        const T* source = static_cast<const T*>(x);
        const F factor = S::set(scale);
        for_each_vector(count, [=](int64_t i, auto n) {
            store(out + i, S::mul(load(source + i, n), factor), n);
        });
    }

    template <typename T>
    static void narrow(const float* x, void* out, int64_t count) {
        T* target = static_cast<T*>(out);
        for_each_vector(count, [=](int64_t i, auto n) { store(target + i, load(x + i, n), n); });
    }

    template <typename T>
    static void narrow_scaled(const float* x, float factor, void* out, int64_t count) {
        T* target = static_cast<T*>(out);
        const F by = S::set(factor);
        for_each_vector(count, [=](int64_t i, auto n) {
            F value = S::mul(load(x + i, n), by);
            if constexpr (std::is_integral_v<T>) value = S::round(value);
            store(target + i, value, n);
        });
    }

    static void round_i8(const float* x, float divisor, float low, float high, int8_t* out,
                         int64_t count) {
        if (VectorMath<S>::can_multiply_by_reciprocal(divisor)) {
            const auto quotient = VectorMath<S>::quotient_by(divisor, 2 * low, 2 * high);
            round_quotients(x, quotient, low, high, out, count);
        } else {
            const F by = S::set(divisor);
            round_quotients(
                x, [=](F value) { return S::div(value, by); }, low, high, out, count);
        }
    }

    static float magnitude(const float* x, int64_t count) {
        constexpr int accumulators = 4;  // each waits for itself
        F most[accumulators] = {S::zero(), S::zero(), S::zero(), S::zero()};
        F not_numbers[accumulators] = {S::zero(), S::zero(), S::zero(), S::zero()};
        const auto take = [&](int accumulator, F value) {
            most[accumulator] = S::max(most[accumulator], S::abs(value));
            // 0 times what is no number is none
            not_numbers[accumulator] = S::fma(value, S::zero(), not_numbers[accumulator]);
        };
        int64_t i = 0;
        for (; i + accumulators * L <= count; i += accumulators * L) {
#pragma GCC unroll 4
            for (int accumulator = 0; accumulator < accumulators; ++accumulator)
                take(accumulator, S::load(x + i + accumulator * L));
        }
        for_each_vector(count - i, [&](int64_t k, auto n) { take(0, load(x + i + k, n)); });
        for (int accumulator = 1; accumulator < accumulators; ++accumulator) {
            most[0] = S::max(most[0], most[accumulator]);
            not_numbers[0] = S::add(not_numbers[0], not_numbers[accumulator]);
        }
        return S::reduce_add(not_numbers[0]) == 0.0f ? S::reduce_max(most[0]) : __builtin_nanf("");
    }

    static void add(const float* x, float* y, int64_t count) {
        for_each_vector(count, [=](int64_t i, auto n) {
            store(y + i, S::add(load(y + i, n), load(x + i, n)), n);
        });
    }

    static void scale(const float* x, float factor, float* out, int64_t count) {
        upcast<float>(x, factor, out, count);
    }

    static void soft_cap(float cap, float* x, int64_t count) {
        const F limit = S::set(cap);
        for_each_vector(count, [=](int64_t i, auto n) {
            store(x + i, S::mul(limit, VectorMath<S>::tanh(S::div(load(x + i, n), limit))), n);
        });
    }

    template <ActivationKind kind>
    static F activate(F x) {
        if constexpr (kind == ActivationKind::silu) {
            return S::mul(x, VectorMath<S>::sigmoid(x));
        } else if constexpr (kind == ActivationKind::gelu) {
            return S::mul(x, VectorMath<S>::normal_cdf(x));
        } else if constexpr (kind == ActivationKind::gelu_tanh) {
            // (1 + tanh u) / 2 is the logistic function of 2 u, which loses no digits for negative
            // u.
            const F cube = S::mul(S::mul(x, x), x);
            const F inner = S::fma(cube, S::set(0.044715f), x);
            return S::mul(x, VectorMath<S>::sigmoid(S::mul(inner, S::set(1.5957691216f))));
        } else if constexpr (kind == ActivationKind::sigmoid) {
            return VectorMath<S>::sigmoid(x);
        } else {
            return S::max(S::zero(), x);
        }
    }

    template <ActivationKind kind>
    static void activation(const float* x, float* out, int64_t count) {
        for_each_vector(
            count, [=](int64_t i, auto n) { store(out + i, activate<kind>(load(x + i, n)), n); });
    }

    template <ActivationKind kind>
    static void gated_activation(const float* gate, const float* up, float* out, int64_t count) {
        for_each_vector(count, [=](int64_t i, auto n) {
            store(out + i, S::mul(activate<kind>(load(gate + i, n)), load(up + i, n)), n);
        });
    }

    static float mean(const float* x, int64_t count) {
        F sum = S::zero();
        for_each_vector(count, [&](int64_t i, auto n) { sum = S::add(sum, load(x + i, n)); });
        return S::reduce_add(sum) / static_cast<float>(count);
    }

    // Mean of squares of the deviations from `center`.
    static float mean_square(const float* x, float center, int64_t count) {
        F sum = S::zero();
        const F middle = S::set(center);
        int64_t i = 0;
        for (; i + L <= count; i += L) {
            const F deviation = S::sub(S::load(x + i), middle);
            sum = S::fma(deviation, deviation, sum);
        }
        if (i < count) {
            // The padding of the tail must not deviate.
            const F deviation =
                S::select_less(S::lane_indices(), S::set(static_cast<float>(count - i)),
                               S::sub(S::load(x + i, count - i), middle), S::zero());
            sum = S::fma(deviation, deviation, sum);
        }
        return S::reduce_add(sum) / static_cast<float>(count);
    }

    static float inverse_root(float x) { return 1.0f / __builtin_sqrtf(x); }

    template <typename W>
    static void rms_norm(const float* x, const void* weight, float epsilon, float weight_offset,
                         float* out, int64_t count) {
        const W* weights = static_cast<const W*>(weight);
        const F factor = S::set(inverse_root(mean_square(x, 0.0f, count) + epsilon));
        const F offset = S::set(weight_offset);
        for_each_vector(count, [=](int64_t i, auto n) {
            const F gain = S::add(load(weights + i, n), offset);
            store(out + i, S::mul(S::mul(load(x + i, n), factor), gain), n);
        });
    }

    template <typename W>
    static void layer_norm(const float* x, const void* weight, const void* bias, float epsilon,
                           float* out, int64_t count) {
        const W* weights = static_cast<const W*>(weight);
        const W* biases = static_cast<const W*>(bias);
        const float center = mean(x, count);
        const F middle = S::set(center);
        const F factor = S::set(inverse_root(mean_square(x, center, count) + epsilon));
        for_each_vector(count, [=](int64_t i, auto n) {
            F value = S::mul(S::sub(load(x + i, n), middle), factor);
            value = S::mul(value, load(weights + i, n));
            if (biases != nullptr) value = S::add(value, load(biases + i, n));
            store(out + i, value, n);
        });
    }

    // Products and sums are rounded one by one, as transformers does.
    static void rope(const float* cosines, const float* sines, float* x, int64_t half) {
        for_each_vector(half, [=](int64_t i, auto n) {
            const F cosine = load(cosines + i, n);
            const F sine = load(sines + i, n);
            const F low = load(x + i, n);
            const F high = load(x + half + i, n);
            store(x + i, S::sub(S::mul(low, cosine), S::mul(high, sine)), n);
            store(x + half + i, S::add(S::mul(high, cosine), S::mul(low, sine)), n);
        });
    }

  private:
    template <typename Quotient>
    static void round_quotients(const float* x, Quotient quotient, float low, float high,
                                int8_t* out, int64_t count) {
        const F least = S::set(low);
        const F most = S::set(high);
        for_each_vector(count, [=](int64_t i, auto n) {
            const F value = quotient(load(x + i, n));
            store(out + i, S::round(S::min(S::max(value, least), most)), n);
        });
    }
};

}  // namespace nvllm::cpu
