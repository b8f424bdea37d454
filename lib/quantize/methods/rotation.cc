// Fast Walsh-Hadamard transforms, and the names of what they are folded into.
#include "lib/quantize/methods/rotation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/error.h"
#include "kernels/host/thread_pool.h"
#include "lib/base/random.h"
#include "lib/quantize/block_solution.h"

namespace nvllm::quantize {
namespace {

constexpr int64_t kTurnedRowGrain = 8;
constexpr int64_t kColumnGrain = 64;
constexpr uint32_t kSignStream = 0x686164;

bool ends_with_any(std::string_view name, std::initializer_list<const char*> endings) {
    return std::any_of(endings.begin(), endings.end(),
                       [&](const char* ending) { return name.ends_with(ending); });
}

bool reads_before_attention(std::string_view name) {
    return ends_with_any(name, {".q_proj", ".k_proj", ".v_proj", ".qkv_proj"});
}

// H / sqrt(count) times `count` values that lie `stride` apart.
void transform(float* values, int64_t count, int64_t stride) {
    for (int64_t half = 1; half < count; half *= 2) {
        for (int64_t first = 0; first < count; first += 2 * half) {
            for (int64_t i = first; i < first + half; ++i) {
                const float a = values[i * stride];
                const float b = values[(i + half) * stride];
                values[i * stride] = a + b;
                values[(i + half) * stride] = a - b;
            }
        }
    }
    const float scale = 1.0f / std::sqrt(static_cast<float>(count));
    for (int64_t i = 0; i < count; ++i) values[i * stride] *= scale;
}

// The name up to its block, "model.layers.3."; of the head the model's prefix.
std::string above_layer(const std::string& linear) {
    const std::optional<int32_t> block = block_of_name(linear);
    if (!block) return "";
    const std::string number = fmt::format(".{}.", *block);
    return linear.substr(0, linear.find(number) + number.size());
}

Tensor stored_as(const HookedModel& model, const ConstTensorView& values, DType type) {
    ViewLayout layout = values;
    layout.dtype = type;
    Tensor tensor = Tensor::allocate(layout, {});
    const float* const from = values.as<float>();
    model.threads().parallel_for(values.numel(), 4096, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            if (type == DType::bf16) {
                tensor.mutable_view().as<BFloat16>()[i] = BFloat16(from[i]);
            } else if (type == DType::f16) {
                tensor.mutable_view().as<Float16>()[i] = Float16(from[i]);
            } else {
                tensor.mutable_view().as<float>()[i] = from[i];
            }
        }
    });
    return tensor;
}

// The one tensor outside of blocks whose name ends so; empty: there is none.
std::string outer_name(const HookedModel& model, const char* ending) {
    for (const std::string_view name : model.checkpoint().names()) {
        if (!block_of_name(name) && name.ends_with(ending)) return std::string(name);
    }
    return "";
}

std::string final_norm(const HookedModel& model) { return outer_name(model, "norm.weight"); }

}  // namespace

Rotation::Rotation(int64_t size, uint64_t seed)
    : signs_(static_cast<size_t>(size)), block_(size & -size) {
    for (size_t i = 0; i < signs_.size(); ++i) {
        const auto words = philox({static_cast<uint32_t>(i), 0, kSignStream, 0}, philox_key(seed));
        signs_[i] = (words[0] & 1u) != 0 ? 1.0f : -1.0f;
    }
}

void Rotation::turn_rows(ThreadPool& threads, const TensorView& matrix, bool back) const {
    NVLLM_CHECK(matrix.dim(1) == size(), "rows of the stream's size");
    threads.parallel_for(matrix.dim(0), kTurnedRowGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            float* const values = matrix.as<float>() + row * size();
            for (size_t i = 0; i < signs_.size() && !back; ++i) values[i] *= signs_[i];
            for (int64_t i = 0; i < size(); i += block_) transform(values + i, block_, 1);
            for (size_t i = 0; i < signs_.size() && back; ++i) values[i] *= signs_[i];
        }
    });
}

void Rotation::turn_columns(ThreadPool& threads, const TensorView& matrix, bool back) const {
    NVLLM_CHECK(matrix.dim(0) == size(), "columns of the stream's size");
    const int64_t columns = matrix.dim(1);
    threads.parallel_for(columns, kColumnGrain, [&](int64_t begin, int64_t end, int) {
        const auto sign = [&](int64_t column) {
            for (int64_t row = 0; row < size(); ++row) {
                matrix.as<float>()[row * columns + column] *= signs_[static_cast<size_t>(row)];
            }
        };
        for (int64_t column = begin; column < end; ++column) {
            if (!back) sign(column);
            for (int64_t row = 0; row < size(); row += block_) {
                transform(matrix.as<float>() + row * columns + column, block_, columns);
            }
            if (back) sign(column);
        }
    });
}

ResidualSide ModelRotation::side_of(const std::string& linear) {
    if (ends_with_any(linear, {".o_proj", ".down_proj", ".w2"})) return ResidualSide::writes;
    if (reads_before_attention(linear) || linear == "lm_head" ||
        ends_with_any(linear, {".gate_proj", ".up_proj", ".gate_up_proj", ".w1", ".w3", ".gate"})) {
        return ResidualSide::reads;
    }
    return ResidualSide::none;
}

ModelRotation::ModelRotation(const HookedModel& model, uint64_t seed)
    : rotation_(model.model().config().hidden_size, seed) {
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorKind::bad_data, fmt::format("a {} cannot be rotated: {}",
                                                     model.model().config().architecture, why));
    };
    for (const std::string_view name : model.checkpoint().names()) {
        if (name.ends_with("feedforward_layernorm.weight")) refuse("it has norms behind layers");
        if (name.ends_with("norm.bias") || name.ends_with("ln_1.bias")) {
            refuse("its norms take means off");
        }
    }
    const std::span<const ChannelFlow> flows = model.model().channel_flows(0);
    const bool has_offsets = std::any_of(flows.begin(), flows.end(), [](const ChannelFlow& flow) {
        return flow.weight_offset != 0.0f;
    });
    if (final_norm(model).empty() || outer_name(model, "embed_tokens.weight").empty() ||
        has_offsets) {
        refuse("it is not known where its stream begins and ends");
    }
    for (const ObservedLinear& linear : model.linears()) {
        const ResidualSide side = side_of(linear.name.name);
        if (side == ResidualSide::none) refuse("what does " + linear.name.name + " read?");
        if (side != ResidualSide::reads) continue;
        const std::vector<float> weights = norm_before(model, linear.name.name);
        if (std::find(weights.begin(), weights.end(), 0.0f) != weights.end()) {
            refuse("a weight of the norm before " + linear.name.name + " is 0");
        }
    }
}

std::vector<float> ModelRotation::norm_before(const HookedModel& model,
                                              const std::string& linear) const {
    const std::string above = above_layer(linear);
    const std::string name = above.empty() ? final_norm(model)
                                           : above + (reads_before_attention(linear)
                                                          ? "input_layernorm.weight"
                                                          : "post_attention_layernorm.weight");
    const auto weights = model.vector(name);
    if (weights && static_cast<int64_t>(weights->size()) == rotation_.size()) return *weights;
    throw Error(
        ErrorKind::bad_data,
        fmt::format("the model cannot be rotated: there is no norm {} before {}", name, linear));
}

std::vector<NamedTensor> ModelRotation::tensors(const HookedModel& model,
                                                std::optional<int32_t> block) const {
    std::vector<NamedTensor> tensors;
    const std::vector<float> ones(static_cast<size_t>(rotation_.size()), 1.0f);
    const ConstTensorView ones_view(ones.data(), DType::f32, {rotation_.size()});
    for (const std::string_view name : model.checkpoint().names()) {
        const bool is_norm = block ? name.ends_with("input_layernorm.weight") ||
                                         name.ends_with("post_attention_layernorm.weight")
                                   : name == final_norm(model);
        if (block_of_name(name) != block || !is_norm) continue;
        tensors.push_back(
            {std::string(name), stored_as(model, ones_view, model.checkpoint().find(name)->dtype)});
    }
    if (block) return tensors;
    const std::string embedding = outer_name(model, "embed_tokens.weight");
    const DType type = model.checkpoint().find(embedding)->dtype;
    const Tensor table = model.matrix(embedding);
    rotation_.turn_rows(model.threads(), table.mutable_view(), false);
    tensors.push_back({embedding, stored_as(model, table.view(), type)});
    return tensors;
}

}  // namespace nvllm::quantize
