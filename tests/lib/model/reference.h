// Reference data of the model tests: tensors of a safetensors file as plain vectors, and
// comparisons.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lib/checkpoint/safetensors.h"

namespace nvllm::test {

// The values of tensor `name`; empty when there is no such tensor.
template <typename T>
std::vector<T> values_of(const SafetensorsFile& file, const std::string& name) {
    const SafetensorsEntry* entry = file.find(name);
    if (entry == nullptr) return {};
    const ConstTensorView view = file.view(*entry);
    REQUIRE(dtype_bytes(view.dtype) == sizeof(T));
    return {view.as<T>(), view.as<T>() + view.numel()};
}

// The largest absolute difference; infinite when the sizes differ.
inline double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size()) return INFINITY;
    double largest = 0.0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
        largest = std::isnan(difference) ? INFINITY : std::max(largest, difference);
    }
    return largest;
}

}  // namespace nvllm::test
