// Quantized linears, and those that keep two of each four values: multiplied as they are where the
// device can, else widened when they are loaded.
#pragma once

#include "lib/model/weights/quantized_matrix.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

// A linear of this format as a source keeps it, or makes it up. Counts it in the source's figures.
// Throws bad_data.
std::unique_ptr<LinearPart> load_quantized(WeightSource& source, const LinearName& linear,
                                           const QuantizationScheme& scheme,
                                           const WeightScheme& format);

// The same of a linear that is not quantized. REQUIRES: stores_sparse().
std::unique_ptr<LinearPart> load_sparse(WeightSource& source, const LinearName& linear);

}  // namespace nvllm
