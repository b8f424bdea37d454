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
    target.first_pair = num_parts_;
    target.is_expert = adds_experts_;
    int64_t column = 0;
    for (const LinearSpec& part : parts) {
        places_[module_key(part.name)] = {targets_.size(), target.parts.size()};
        target.parts.push_back(part);
        target.first_columns.push_back(column);
        target.biases.push_back(bias_of(source, part));
        column += part.out;
    }
    num_parts_ += target.parts.size();
    targets_.push_back(std::move(target));
    return static_cast<int32_t>(targets_.size()) - 1;
}

int32_t LoraTargets::add_experts(std::span<const std::vector<LinearSpec>> experts) {
    LoraTarget target;
    target.first_pair = num_parts_;
    target.is_expert = true;
    for (const std::vector<LinearSpec>& expert : experts) {
        int64_t column = 0;
        for (const LinearSpec& part : expert) {
            places_[module_key(part.name)] = {targets_.size(), target.parts.size()};
            target.parts.push_back(part);
            target.first_columns.push_back(column);
            target.biases.emplace_back();
            column += part.out;
        }
    }
    num_parts_ += target.parts.size();
    targets_.push_back(std::move(target));
    return static_cast<int32_t>(targets_.size()) - 1;
}

int32_t LoraTargets::add_embedding(const std::string& name, int64_t vocabulary, int64_t hidden) {
    embedding_ = targets_.size();
    LoraTarget target;
    target.parts.push_back({name, vocabulary, hidden});
    target.first_columns.push_back(0);
    target.biases.emplace_back();
    target.first_pair = num_parts_++;
    places_[module_key(name)] = {targets_.size(), 0};
    targets_.push_back(std::move(target));
    return static_cast<int32_t>(*embedding_);
}

std::optional<LoraTargets::Place> LoraTargets::find(const std::string& name) const {
    const auto found = places_.find(module_key(name));
    if (found == places_.end()) return std::nullopt;
    return found->second;
}

}  // namespace nvllm
