// A seeded sequence of random numbers: the same on every machine and standard library.
#pragma once

#include <cmath>
#include <cstdint>

#include "lib/base/random.h"

namespace nvllm {

// Philox words taken in order; `stream` keeps sequences of one seed apart. Not thread-safe.
class RandomSource {
  public:
    explicit RandomSource(uint64_t seed, uint32_t stream = 0)
        : key_(philox_key(seed)), stream_(stream) {}

    // In [0, 1).
    double unit() {
        const PhiloxCounter words = philox(
            {static_cast<uint32_t>(count_), static_cast<uint32_t>(count_ >> 32), stream_, 0}, key_);
        ++count_;
        return unit_interval(words[0], words[1]);
    }
    // In [0, bound). REQUIRES: bound > 0. The bias below 2^-53 * bound does not matter here.
    uint64_t below(uint64_t bound) {
        return static_cast<uint64_t>(unit() * static_cast<double>(bound));
    }
    // In [low, high], both included. REQUIRES: low <= high.
    int64_t between(int64_t low, int64_t high) {
        return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low + 1)));
    }
    double exponential(double mean) { return -mean * std::log1p(-unit()); }
    // Box & Muller 1958.
    double normal() {
        const double radius = std::sqrt(exponential(2.0));
        return radius * std::cos(2.0 * 3.14159265358979323846 * unit());
    }
    // Mean shape * scale (Marsaglia & Tsang 2000). REQUIRES: shape > 0.
    double gamma(double shape, double scale) {
        if (shape < 1.0) {
            const double grown = gamma(shape + 1.0, scale);
            return grown * std::pow(1.0 - unit(), 1.0 / shape);
        }
        const double d = shape - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
        for (;;) {
            const double x = normal();
            const double cube = 1.0 + c * x;
            if (cube <= 0.0) continue;
            const double v = cube * cube * cube;
            if (std::log(1.0 - unit()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
                return d * v * scale;
            }
        }
    }

  private:
    PhiloxKey key_;
    uint32_t stream_;
    uint64_t count_ = 0;
};

}  // namespace nvllm
