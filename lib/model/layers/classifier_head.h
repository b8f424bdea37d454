// A head of classes: from the hidden state of one position to a value for each class.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/model/layers/mlp_function.h"
#include "lib/model/layers/norm.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

// Of most encoders a linear and a function come before the classes' own; of decoders none does.
struct ClassifierHead {
    LinearWeight dense;                   // [hidden] -> [hidden]; empty: none
    std::optional<MlpFunction> function;  // behind it; empty: tanh
    std::optional<Norm> norm;             // behind that
    LinearWeight classes;  // [hidden] -> [classes]; empty: the model has no such head
    int64_t num_classes = 0;

    // hidden [rows, hidden] as Model::last_hidden() returns it -> float32 [rows, classes] in
    // scratch.
    TensorView apply(const Context& context, const ConstTensorView& hidden) const;
    size_t bytes() const { return dense.bytes() + classes.bytes() + (norm ? norm->bytes() : 0); }
};

// A linear of a head, NAME.weight [out, in] and, with `bias`, NAME.bias. It stays as it is stored:
// no hook of the source sees it, since a head is not quantized.
LinearWeight load_head_linear(WeightSource& source, const std::string& name, int64_t in,
                              int64_t out, bool bias);

}  // namespace nvllm
