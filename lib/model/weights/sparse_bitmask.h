// Matrices of which two of four neighbours are zero, as compressed-tensors' sparse-24-bitmask keeps
// them: the others in their order, and a bit for each place.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "lib/model/weights/quantized_matrix.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

// Whether a linear's matrix is kept so.
bool stores_sparse(const WeightSource& source, const LinearName& linear);

// The matrix [out, in] with its zeros, in its stored type, one of `types`. Throws bad_data.
Tensor read_sparse(WeightSource& source, const LinearName& linear,
                   std::initializer_list<DType> types);

// A matrix of floats of any size, as the format's tensors. Throws bad_data when a row has
// more than two values that are not zero among four neighbours.
std::vector<NamedTensor> pack_sparse(const Tensor& matrix, const std::string& linear);

}  // namespace nvllm
