// The linears of a model that adapters may change, numbered in the order in which they were loaded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/weights/scheme.h"

namespace nvllm {

// One LinearWeight: linears over one input whose outputs lie side by side, as this rank has them.
struct LoraTarget {
    std::vector<LinearSpec> parts;
    std::vector<int64_t> first_columns;  // of each part in the outputs
    std::vector<Tensor> biases;          // of each part, in host memory; empty: it has none here
    size_t first_pair = 0;               // parts of the targets before it
    bool is_expert = false;
};

// A module's or tensor's name without the words before it that checkpoints and classes of
// transformers do not agree on.
std::string module_key(std::string_view name);

class LoraTargets {
  public:
    // The number of the new target.
    int32_t add(WeightSource& source, std::span<const LinearSpec> parts);
    // The same of linears of all experts, each with the same number of parts and expert by expert.
    int32_t add_experts(std::span<const std::vector<LinearSpec>> experts);
    // The same of the embeddings: [out, in] is [hidden, vocabulary].
    int32_t add_embedding(const std::string& name, int64_t vocabulary, int64_t hidden);
    // What is added while it lives is of experts. `targets` may be null.
    class Experts {
      public:
        explicit Experts(LoraTargets* targets) : targets_(targets) { set(true); }
        ~Experts() { set(false); }
        Experts(const Experts&) = delete;
        Experts& operator=(const Experts&) = delete;

      private:
        void set(bool is_expert) {
            if (targets_ != nullptr) targets_->adds_experts_ = is_expert;
        }
        LoraTargets* targets_;
    };
    // The target that was added last is the model's head.
    void note_head() { head_ = targets_.size() - 1; }

    struct Place {
        size_t target = 0;
        size_t part = 0;
    };
    // Of the linear of this name, as transformers or the checkpoint has it; nothing: the model has
    // none here, or it cannot be adapted.
    std::optional<Place> find(const std::string& name) const;
    const std::vector<LoraTarget>& targets() const { return targets_; }
    std::optional<size_t> embedding() const { return embedding_; }
    std::optional<size_t> head() const { return head_; }
    // Of the model's products.
    DType compute_type() const { return compute_type_; }
    // Of all targets.
    size_t num_parts() const { return num_parts_; }

  private:
    // Parts whose outputs lie side by side, without biases.
    void append(LoraTarget& target, std::span<const LinearSpec> parts);
    // Its number.
    int32_t keep(LoraTarget target);

    std::vector<LoraTarget> targets_;
    std::map<std::string, Place> places_;  // by module_key()
    DType compute_type_ = DType::f32;
    size_t num_parts_ = 0;
    std::optional<size_t> embedding_;
    std::optional<size_t> head_;
    bool adds_experts_ = false;
};

}  // namespace nvllm
