// Quantized linears, and those that store two of each four values: multiplied as they are where an
// op of the device can, else dequantized when they are loaded.
#pragma once

#include "lib/model/weights/quantized_matrix.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

// Linears of this format as a source keeps them, or makes them up: one part for all whose outputs
// lie side by side where a product can take them so, else one for each. Counts them in the source's
// values. Throws bad_data.
std::vector<std::unique_ptr<LinearPart>> load_quantized(WeightSource& source,
                                                        std::span<const LinearSpec> linears,
                                                        const QuantizationScheme& scheme,
                                                        const WeightScheme& format);

// One that is not quantized, without its zeros. REQUIRES: stores_sparse().
std::unique_ptr<LinearPart> load_sparse(WeightSource& source, const LinearSpec& linear);

}  // namespace nvllm
