// A counter-based generator: mixed counters choose among the quantiles of a normal distribution.
#include "lib/model/weights/dummy_source.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/backend_ops.h"
#include "kernels/ops/elementwise.h"
#include "kernels/random.h"
#include "lib/model/weights/float_type.h"

namespace nvllm {
namespace {

constexpr int64_t kQuantiles = 4096;  // a power of two, small enough for the first-level cache
constexpr double kDeviation = 0.02;

uint64_t key_of(uint64_t seed, const std::string& name) {
    uint64_t key = mixed_bits(seed);
    for (const char c : name) key = mixed_bits(key ^ static_cast<unsigned char>(c));
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

}  // namespace

DummySource::DummySource(uint64_t seed, DType compute_type, ThreadPool& threads,
                         const ComputeDevice& device)
    : WeightSource(compute_type, threads, device), seed_(seed) {
    with_float_type(compute_type,
                    [&](auto zero) { quantiles_ = make_quantiles<decltype(zero)>(compute_type); });
}

Tensor DummySource::read_slice(const std::string& name, std::initializer_list<int64_t> shape,
                               WeightRole role, const TensorSlice& slice) {
    ViewLayout layout = ViewLayout::dense(compute_type(), shape);
    if (slice.shard.is_whole()) return make(name, layout, role);
    std::vector<int64_t> sizes(shape);
    int64_t& of_axis = sizes[static_cast<size_t>(slice.axis)];
    of_axis = slice.whole_size(of_axis);
    layout = sizes.size() == 1 ? ViewLayout::dense(compute_type(), {sizes[0]})
                               : ViewLayout::dense(compute_type(), {sizes[0], sizes[1]});
    return cut(make(name, layout, role), slice);
}

Tensor DummySource::make(const std::string& name, const ViewLayout& layout, WeightRole role) const {
    Tensor tensor = Tensor::allocate(layout, ComputeDevice());
    const TensorView out = tensor.mutable_view();
    if (role == WeightRole::norm) {
        with_float_type(compute_type(), [&](auto zero) {
            std::fill_n(out.as<decltype(zero)>(), out.numel(), decltype(zero)(1.0f));
        });
        return tensor;
    }
    fill(ComputeDevice(), name, quantiles_, out);
    return tensor;
}

bool DummySource::fills_on_device() const {
    return !device().is_cpu() && device().backend()->ops->fill_random != nullptr;
}

Tensor DummySource::read_placed_matrix(const std::string& name,
                                       std::initializer_list<int64_t> shape,
                                       const TensorSlice& slice) {
    if (!fills_on_device() || !slice.shard.is_whole()) {
        return WeightSource::read_placed_matrix(name, shape, slice);
    }
    Tensor tensor = allocate_placed(shape);
    read_matrix_into(name, shape, slice, tensor.mutable_view());
    return tensor;
}

void DummySource::read_matrix_into(const std::string& name, std::initializer_list<int64_t> shape,
                                   const TensorSlice& slice, const TensorView& to) {
    if (!fills_on_device() || !slice.shard.is_whole()) {
        return WeightSource::read_matrix_into(name, shape, slice, to);
    }
    if (placed_quantiles_.empty()) {
        placed_quantiles_ = placed(quantiles_);
        finish();
    }
    fill(device(), name, placed_quantiles_, to);
}

void DummySource::fill(const ComputeDevice& where, const std::string& name, const Tensor& quantiles,
                       const TensorView& out) const {
    ScratchArena scratch(0, where);
    ops::fill_random(make_context(where, scratch), key_of(seed_, name), quantiles.view(), out);
}

}  // namespace nvllm
