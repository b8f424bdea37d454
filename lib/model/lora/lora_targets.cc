// By name.
#include "lib/model/lora/lora_targets.h"

#include <array>
#include <string_view>

namespace nvllm {
namespace {

// What one and the same module has before its name in a checkpoint, or in a class of transformers,
// and not in another one.
constexpr std::array<std::string_view, 5> kPrefixes = {"model.", "transformer.", "language_model.",
                                                       "text_model.", "backbone."};

// Where ranks' results are summed, one of them adds the bias.
Tensor bias_of(WeightSource& source, const LinearSpec& part) {
    if (!part.bias || (part.axis == ShardAxis::input && part.shard.rank != 0)) return {};
    const TensorSlice slice = part.axis == ShardAxis::output ? part.slice() : TensorSlice();
    return source.read_slice(part.name + ".bias", {part.out}, WeightRole::bias, slice);
}

}  // namespace

std::string module_key(std::string_view name) {
    for (bool found = true; found;) {
        found = false;
        for (const std::string_view prefix : kPrefixes) {
            if (!name.starts_with(prefix)) continue;
            name.remove_prefix(prefix.size());
            found = true;
        }
    }
    return std::string(name);
}

int32_t LoraTargets::add(WeightSource& source, std::span<const LinearSpec> parts) {
    compute_type_ = source.compute_type();
    LoraTarget target;
    target.is_expert = adds_experts_;
    append(target, parts);
    for (size_t i = 0; i < parts.size(); ++i) target.biases[i] = bias_of(source, parts[i]);
    return keep(std::move(target));
}

int32_t LoraTargets::add_experts(std::span<const std::vector<LinearSpec>> experts) {
    LoraTarget target;
    target.is_expert = true;
    for (const std::vector<LinearSpec>& expert : experts) append(target, expert);
    return keep(std::move(target));
}

int32_t LoraTargets::add_embedding(const std::string& name, int64_t vocabulary, int64_t hidden) {
    embedding_ = targets_.size();
    LoraTarget target;
    const LinearSpec linear{name, vocabulary, hidden};
    append(target, {&linear, 1});
    return keep(std::move(target));
}

void LoraTargets::append(LoraTarget& target, std::span<const LinearSpec> parts) {
    int64_t column = 0;
    for (const LinearSpec& part : parts) {
        places_[module_key(part.name)] = {targets_.size(), target.parts.size()};
        target.parts.push_back(part);
        target.first_columns.push_back(column);
        target.biases.emplace_back();
        column += part.out;
    }
}

int32_t LoraTargets::keep(LoraTarget target) {
    target.first_pair = num_parts_;
    num_parts_ += target.parts.size();
    targets_.push_back(std::move(target));
    return static_cast<int32_t>(targets_.size()) - 1;
}

std::optional<LoraTargets::Place> LoraTargets::find(const std::string& name) const {
    const auto found = places_.find(module_key(name));
    if (found == places_.end()) return std::nullopt;
    return found->second;
}

}  // namespace nvllm
