// The tensors of a model as rows, and sums over them: by component and by element type.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/types.h"
#include "lib/checkpoint/checkpoint.h"

namespace nvllm::view {

struct ListedTensor {
    std::string name;
    DType dtype = DType::f32;
    std::vector<int64_t> shape;
    uint64_t bytes = 0;
    std::string file;  // name without folder; empty for tensors that no file has

    int64_t elements() const;
    // "bfloat16[32, 64]".
    std::string describe() const;
};

// By name.
std::vector<ListedTensor> list_tensors(const Checkpoint& checkpoint);
std::vector<ListedTensor> list_tensors(const SafetensorsFile& file);

enum class Component { embeddings, attention, mlp, experts, norms, head, other };
const char* component_name(Component component);
// By the names that checkpoints of all known families use.
Component component_of(std::string_view tensor_name);

struct TensorTotal {
    std::string name;  // of the component or the type
    int64_t tensors = 0;
    int64_t parameters = 0;
    uint64_t bytes = 0;
};

// How many weights a tensor stands for: its elements, but for quantized ones, where packed words
// count `bits` a weight and scales, zero points and orders are no weights.
int64_t parameters_of(const ListedTensor& tensor, std::optional<int64_t> bits);

// Components in the order of the enum, types by falling bytes; none that is empty.
std::vector<TensorTotal> totals_by_component(std::span<const ListedTensor> tensors,
                                             std::optional<int64_t> bits);
std::vector<TensorTotal> totals_by_dtype(std::span<const ListedTensor> tensors,
                                         std::optional<int64_t> bits);
TensorTotal total_of(std::span<const TensorTotal> totals);

}  // namespace nvllm::view
