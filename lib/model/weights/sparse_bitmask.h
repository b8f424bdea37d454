// Matrices of which two of four neighbours are zero, as compressed-tensors' sparse-24-bitmask keeps
// them: the others in their order, and a bit for each column.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "lib/model/weights/quantized_matrix.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

struct SparseMatrix {
    Tensor kept;  // [out, in / 2]: two of each four neighbours in a row, in their order
    // uint8 [out, ceil(in / 8)]: bit k % 8 of byte k / 8 says whether column k is kept.
    Tensor places;

    int64_t out() const { return kept.view().dim(0); }
    int64_t in() const { return kept.view().dim(1) * 2; }
};

// Whether a linear's matrix is kept so; where there are no files, whether the config says it.
bool stores_sparse(const WeightSource& source, const LinearSpec& linear);

// As it is stored, in one of `types`; made up where there are no files. Throws bad_data where it
// keeps another number than two of four.
SparseMatrix read_sparse(WeightSource& source, const LinearSpec& linear,
                         std::initializer_list<DType> types);
// The matrix [out, in] with its zeros; without values where the source has none.
Tensor with_zeros(const WeightSource& source, const SparseMatrix& matrix);

// A matrix of floats of any size, as the format's tensors. Throws bad_data when a row has
// more than two values that are not zero among four neighbours.
std::vector<NamedTensor> pack_sparse(const Tensor& matrix, const std::string& linear);

}  // namespace nvllm
