// How much scratch the steps of a model take, found out by dry runs (kernels/host/dry_run.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/device.h"
#include "kernels/ops/lora.h"
#include "lib/model/model.h"

namespace nvllm {

// The largest step, and where it is computed.
struct LargestStep {
    int64_t tokens = 0;
    int64_t rows = 0;  // that get logits, or go through last_hidden(), at one time
    int num_threads = 1;
    ComputeDevice device = {};
    DType activations = DType::f32;
    std::vector<ops::LoraLinear> lora = {};  // largest_linears(), where there are adapters
};

// What is done with rows while they are in scratch.
struct RowsUse {
    std::function<void(const Context&, const ConstTensorView& hidden)> hidden = {};
    std::function<void(const Context&, const ConstTensorView& logits)> logits = {};
};

// Bytes of scratch for any step up to the largest. The model's weights may have no values; no
// device is used.
size_t step_scratch_bytes(Model& model, const LargestStep& step, const RowsUse& use = {});

}  // namespace nvllm
