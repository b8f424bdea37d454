// Exponential, hyperbolic tangent and normal distribution on vectors.
//
// Polynomials are Chebyshev interpolants fitted for this project, with coefficients rounded to
// float32. Every lane is computed alike, so a value does not depend on its place in a row.
#pragma once

namespace nvllm::cpu {

template <class S>
struct VectorMath {
    using F = typename S::F;

    // e^x within 2e-7; 0 below -87.3 (where the result would leave the normal numbers), infinity
    // above 88.8.
    static F exp(F x) {
        const F highest = S::set(89.0f);
        const F lowest = S::set(-87.3f);
        const F inside = S::max(lowest, S::min(highest, x));  // this order lets NaN through
        const F n = S::round(S::mul(inside, S::set(1.44269504f)));
        const F p = times_power_of_two(exp_of_rest(inside, n), n);
        return S::select_less(x, lowest, S::zero(), p);
    }

    // 2^x of x of at most 0 within 2e-7; 0 below -126.
    static F exp2_of_negative(F x) {
        // Added to a small number, 1.5 * 2^23 leaves no room for a fraction, and the whole number
        // stands in the lowest bits.
        const F magic = S::set(12582912.0f);
        const F shifted = S::add(x, magic);
        const F r = S::sub(x, S::sub(shifted, magic));
        F p = S::set(0.001326472731307149f);
        p = S::fma(p, r, S::set(0.009671512991189957f));
        p = S::fma(p, r, S::set(0.05550733581185341f));
        p = S::fma(p, r, S::set(0.24022242426872253f));
        p = S::fma(p, r, S::set(0.6931470036506653f));
        p = S::fma(p, r, S::set(1.0f));
        return S::select_less(x, S::set(-126.0f), S::zero(), S::add_to_exponent(p, shifted));
    }

    // x / divisor, rounded as a division is, for quotients between `low` and `high`; `low` or
    // `high` beyond them. Divisions of many values by one take longer: a product with the
    // reciprocal, then what is left over from it, twice (Markstein, IBM Journal of Research and
    // Development 34, 1990, whose theorem asks for a quotient next to the exact one: the first time
    // is for that). Quotients that underflow may differ.
    static auto quotient_by(float divisor, float low, float high) {
        const F reciprocal = S::set(1.0f / divisor);
        const F negative = S::set(-divisor);
        const F least = S::set(low * divisor);
        const F most = S::set(high * divisor);
        return [=](F x) {
            const F inside = S::min(S::max(x, least), most);
            F quotient = S::mul(inside, reciprocal);
            for (int i = 0; i < 2; ++i) {
                quotient = S::fma(S::fma(quotient, negative, inside), reciprocal, quotient);
            }
            return quotient;
        };
    }
    // Nothing in it may leave the normal numbers, and fma has to round once.
    static bool can_multiply_by_reciprocal(float divisor) {
        return S::fma_rounds_once && divisor >= 0x1p-60f && divisor <= 0x1p60f;
    }

    // 1 / (1 + e^-x)
    static F sigmoid(F x) {
        return S::div(S::set(1.0f), S::add(S::set(1.0f), exp(S::sub(S::zero(), x))));
    }

    static F tanh(F x) {
        const F magnitude = S::abs(x);
        const F z = S::mul(x, x);
        F p = S::set(-0.006094641517847776f);
        p = S::fma(p, z, S::set(0.02099575474858284f));
        p = S::fma(p, z, S::set(-0.05385060980916023f));
        p = S::fma(p, z, S::set(0.1333276778459549f));
        p = S::fma(p, z, S::set(-0.333333283662796f));
        const F near_zero = S::fma(S::mul(p, z), x, x);
        const F e = exp(S::mul(magnitude, S::set(-2.0f)));
        const F ratio = S::div(S::sub(S::set(1.0f), e), S::add(S::set(1.0f), e));
        return S::select_less(magnitude, S::set(0.625f), near_zero, S::copy_sign(ratio, x));
    }

    // The standard normal distribution function, (1 + erf(x / sqrt 2)) / 2. The tail is e^(-x²/2)
    // times a polynomial in 1 / (1 + 0.26 |x|), so that it keeps its relative precision on both
    // sides.
    static F normal_cdf(F x) {
        const F magnitude = S::abs(x);
        const F t = S::div(S::set(1.0f), S::fma(magnitude, S::set(0.26f), S::set(1.0f)));
        F p = S::set(0.0336092971265316f);
        p = S::fma(p, t, S::set(-0.16887186467647552f));
        p = S::fma(p, t, S::set(0.28729331493377686f));
        p = S::fma(p, t, S::set(-0.19614844024181366f));
        p = S::fma(p, t, S::set(0.1964610069990158f));
        p = S::fma(p, t, S::set(0.03304833173751831f));
        p = S::fma(p, t, S::set(0.10888782143592834f));
        p = S::fma(p, t, S::set(0.10183362662792206f));
        p = S::fma(p, t, S::set(0.10389344394207001f));
        p = S::fma(p, t, S::set(-6.540572485391749e-06f));
        const F tail = S::mul(p, exp(S::mul(S::mul(magnitude, magnitude), S::set(-0.5f))));
        return S::select_less(x, S::zero(), tail, S::sub(S::set(1.0f), tail));
    }

  private:
    // x * 2^n for whole n in [-126, 128].
    static F times_power_of_two(F x, F n) {
        if constexpr (requires { S::scale_by_power_of_two(x, n); }) {
            return S::scale_by_power_of_two(x, n);
        } else {
            // In two factors, because 2^128 alone is not a float.
            const F half = S::round(S::mul(n, S::set(0.5f)));
            return S::mul(S::mul(x, S::power_of_two(half)), S::power_of_two(S::sub(n, half)));
        }
    }

    // e^r of x = n ln 2 + r, with ln 2 in two parts so that n * high is exact.
    static F exp_of_rest(F x, F n) {
        F r = S::fma(n, S::set(-0.693359375f), x);
        r = S::fma(n, S::set(2.12194440e-4f), r);
        F p = S::set(0.001392637612298131f);
        p = S::fma(p, r, S::set(0.008363333530724049f));
        p = S::fma(p, r, S::set(0.04166655242443085f));
        p = S::fma(p, r, S::set(0.16666576266288757f));
        p = S::fma(p, r, S::set(0.5f));
        return S::add(S::fma(S::mul(r, r), p, r), S::set(1.0f));
    }
};

}  // namespace nvllm::cpu
