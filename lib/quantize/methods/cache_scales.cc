// One number for a layer's keys, one for its values.
#include "lib/quantize/methods/cache_scales.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/error.h"
#include "lib/model/weights/quantized_reader.h"

namespace nvllm::quantize {
namespace {

// The block's linear that gives values: alone, or as the last rows of one matrix.
size_t linear_of_values(const HookedModel& model, int32_t block) {
    for (const size_t index : model.linears_of(block)) {
        const std::string& name = model.linears()[index].name.name;
        if (name.ends_with(".self_attn.v_proj") || name.ends_with(".self_attn.qkv_proj")) {
            return index;
        }
    }
    throw Error(ErrorKind::bad_data,
                fmt::format("kv_cache_scheme: block {} of a {} has no self_attn with a v_proj or "
                            "qkv_proj, beside which k_scale and v_scale could lie",
                            block, model.model().config().architecture));
}

}  // namespace

std::string attention_name(const HookedModel& model, int32_t block) {
    const std::string& name = model.linears()[linear_of_values(model, block)].name.name;
    return name.substr(0, name.rfind('.'));
}

std::vector<NamedTensor> cache_scales(const BlockTask& task, int32_t block,
                                      const std::vector<SolvedLinear>& solved) {
    const HookedModel& model = task.model;
    const size_t linear = linear_of_values(model, block);
    const DType type = model.dense_type(linear);
    std::span<const float> divisors;
    for (const SolvedLinear& other : solved) {
        if (other.linear != linear || other.row_divisors.empty()) continue;
        divisors = std::span(other.row_divisors).last(task.cached->values.channels());
    }
    const QuantizationArguments scheme = *task.plan.kv_cache_scheme();
    const auto scale = [&](const char* name, const ValueRange& range) {
        const float largest = range.largest_magnitude();
        Tensor number = Tensor::allocate(DType::f32, {1});
        *number.mutable_view().as<float>() =
            choose_scale(scheme, -largest, largest, std::nullopt, type).scale;
        return NamedTensor{attention_name(model, block) + name, in_type(number, type, {1})};
    };
    return {scale(".k_scale", task.cached->keys.range(scheme.range_share, {})),
            scale(".v_scale", task.cached->values.range(scheme.range_share, divisors))};
}

}  // namespace nvllm::quantize
