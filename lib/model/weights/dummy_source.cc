// A counter-based generator: mixed counters choose among the quantiles of a normal distribution.
#include "lib/model/weights/dummy_source.h"

#include <algorithm>
#include <cmath>

#include "lib/model/weights/float_type.h"

namespace nvllm {
namespace {

constexpr int64_t kQuantiles = 4096;  // a power of two, small enough for the first-level cache
constexpr double kDeviation = 0.02;
constexpr int64_t kGrain = int64_t{1} << 16;

// The finaliser of SplitMix64 (Steele et al. 2014).
uint64_t mixed(uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t key_of(uint64_t seed, const std::string& name) {
    uint64_t key = mixed(seed);
    for (const char c : name) key = mixed(key ^ static_cast<unsigned char>(c));
    return key;
}

// The z with P(normal < z) = probability, by bisection.
double normal_quantile(double probability) {
    double low = -8.0;
    double high = 8.0;
    for (int step = 0; step < 60; ++step) {
        const double middle = 0.5 * (low + high);
        const double below = 0.5 * std::erfc(-middle / std::sqrt(2.0));
        (below < probability ? low : high) = middle;
    }
    return 0.5 * (low + high);
}

template <typename T>
Tensor make_quantiles(DType dtype) {
    Tensor table = Tensor::allocate(dtype, {kQuantiles});
    T* values = table.mutable_view().as<T>();
    for (int64_t i = 0; i < kQuantiles; ++i) {
        const double probability = (static_cast<double>(i) + 0.5) / static_cast<double>(kQuantiles);
        values[i] = T(static_cast<float>(kDeviation * normal_quantile(probability)));
    }
    return table;
}

// Elements [begin, end), begin a multiple of 4: one counter makes four values.
template <typename T>
void fill_range(uint64_t key, const T* quantiles, T* out, int64_t begin, int64_t end) {
    constexpr uint64_t kMask = kQuantiles - 1;
    int64_t i = begin;
    for (; i + 4 <= end; i += 4) {
        const uint64_t bits = mixed(key + static_cast<uint64_t>(i));
        out[i] = quantiles[bits & kMask];
        out[i + 1] = quantiles[(bits >> 16) & kMask];
        out[i + 2] = quantiles[(bits >> 32) & kMask];
        out[i + 3] = quantiles[(bits >> 48) & kMask];
    }
    const uint64_t bits = mixed(key + static_cast<uint64_t>(i));
    for (int shift = 0; i < end; ++i, shift += 16) out[i] = quantiles[(bits >> shift) & kMask];
}

}  // namespace

DummySource::DummySource(uint64_t seed, DType product_type, ThreadPool& threads,
                         const ComputeDevice& device)
    : WeightSource(product_type, threads, device), seed_(seed) {
    with_float_type(product_type,
                    [&](auto zero) { quantiles_ = make_quantiles<decltype(zero)>(product_type); });
}

Tensor DummySource::read(const std::string& name, std::initializer_list<int64_t> shape,
                         WeightRole role) {
    Tensor tensor = Tensor::allocate(product_type(), shape);
    const TensorView out = tensor.mutable_view();
    const uint64_t key = key_of(seed_, name);
    with_float_type(product_type(), [&](auto zero) {
        using T = decltype(zero);
        T* values = out.as<T>();
        if (role == WeightRole::norm) {
            std::fill_n(values, out.numel(), T(1.0f));
            return;
        }
        const T* quantiles = quantiles_.view().as<T>();
        threads().parallel_for(out.numel(), kGrain, [&](int64_t begin, int64_t end, int) {
            fill_range(key, quantiles, values, begin, end);
        });
    });
    return tensor;
}

}  // namespace nvllm
