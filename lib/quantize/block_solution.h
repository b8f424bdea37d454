// What was decided for the linears of one block, as it is kept until the output is written.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/quantize/block_forward.h"
#include "lib/quantize/linear_plan.h"
#include "lib/quantize/statistics.h"

namespace nvllm::quantize {

// What a report says of one linear.
struct LinearRecord {
    std::string name;
    std::string method;  // "gptq", "awq+rtn"
    std::string format;  // "pack-quantized", "dense"
    int64_t in = 0;
    int64_t out = 0;
    double bits_per_weight = 0.0;  // scales included
    double sparsity = 0.0;         // share of zeros among the values
    double dampening = 0.0;        // 0: none was needed
    // |error of the output|^2 / |output|^2 on the calibration data; without data, of the weights.
    double relative_error = 0.0;
    bool error_is_of_output = false;
};
nlohmann::ordered_json record_json(const LinearRecord& record);
LinearRecord parse_record(const nlohmann::ordered_json& object);

struct SolvedLinear {
    size_t linear = 0;  // index in HookedModel::linears()
    std::optional<QuantizedMatrix> matrix;
    // [out, in] in the checkpoint's type, where there is no matrix; in its order only when it is
    // stored.
    Tensor dense;
    // The stored weight is that of the model with each column multiplied, and each row divided, by
    // these; empty: by 1.
    std::vector<float> column_factors;
    std::vector<float> row_divisors;
    // After that its rows, or its columns, are turned with the residual stream.
    ResidualSide turned = ResidualSide::none;
    LinearRecord record;
};

struct SolvedBlock {
    std::vector<SolvedLinear> linears;
    std::vector<NamedTensor>
        others;  // norms and biases that changed with them, scales of keys and values
};

struct BlockTask {
    const HookedModel& model;
    const ModelPlan& plan;
    const StatisticsCollector& statistics;
    const Context& context;
    const CacheRanges* cached = nullptr;  // of the block, where scales of them are wanted
    // Told after each linear; may throw.
    std::function<void(const LinearRecord&)> done;
};

// Decides all linears (indices of one block, or of what lies outside of blocks) that the plan
// changes.
SolvedBlock solve_block(const BlockTask& task, const std::vector<size_t>& linears,
                        std::optional<int32_t> block);

// What the running model multiplies with instead of its own weight: float32 [out, in].
Tensor effective_weight(const SolvedLinear& solved, const HookedModel& model,
                        const ModelPlan& plan);

// The tensors that stand in the output in place of LINEAR.weight and of the others.
std::vector<NamedTensor> stored_tensors(const SolvedBlock& block, const HookedModel& model,
                                        const ModelPlan& plan);

// One file, whole or not at all; and back. Throws as write_safetensors(); bad_data.
void save_block(const SolvedBlock& block, const std::filesystem::path& file);
// Throws bad_data when the file is no longer what was written.
void check_block(const std::filesystem::path& file);
SolvedBlock load_block(const std::filesystem::path& file, const HookedModel& model,
                       const ModelPlan& plan);

}  // namespace nvllm::quantize
