// Linears that a model's authors apply to its pooled vectors, as sentence-transformers stores them:
// each in a folder of its own beside the model.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/context.h"
#include "lib/checkpoint/pooling_config.h"
#include "lib/model/loader.h"
#include "lib/model/weights/scheme.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

class DenseModules {
  public:
    // linear.weight [out, in] and linear.bias [out] of the source.
    void add(const DenseModule& module, WeightSource& source);

    // In float32 on the CPU, wherever the model computes. vector: [in of the first], then [out of
    // the last]; without modules it stays as it is.
    void apply(const Context& context, std::vector<float>& vector) const;

    size_t bytes() const;

  private:
    struct Part {
        LinearWeight linear;
        DenseModule::Function function;
    };

    std::vector<Part> parts_;
};

// Those of the options' directory; none where its files ask for vectors that are not supported.
// Throws not_found or bad_data. REQUIRES: options.threads.
DenseModules load_dense_modules(const ModelLoadOptions& options, int64_t hidden_size);
// What they will take. Only headers are read.
size_t dense_module_bytes(const ModelLoadOptions& options, int64_t hidden_size);

}  // namespace nvllm
