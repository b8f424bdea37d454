// Layers with states of Llama's descendants, loaded by their names.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lib/checkpoint/model_config.h"
#include "lib/model/families/llama_blocks.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

// What it refers to must outlive it. All functions throw bad_data that names a tensor.
class LlamaStates {
  public:
    LlamaStates(const ModelConfig& config, WeightSource& source, const LlamaTraits& traits)
        : config_(config), source_(source), traits_(traits) {}

    // That of a block whose tensors begin with `block`: "model.layers.3". Reads x [tokens, in].
    StateLayer load(const std::string& block, int64_t in) const;
    // All linears of it that read what it reads.
    std::vector<std::string> readers(const std::string& block) const;

  private:
    bool is(StateLayerKind kind) const { return config_.linear_attention->kind == kind; }
    LinearAttentionSizes sizes() const;
    // Behind the convolution.
    ops::Activation activation() const;
    GatedDeltaNet delta_net(const std::string& name, int64_t in) const;
    GatedDeltaNet kimi_delta(const std::string& name, int64_t in) const;
    Mamba2 mamba(const std::string& name, int64_t in) const;
    ShortConv short_conv(const std::string& name, int64_t in) const;
    // Below the layer, and their rows.
    std::vector<std::pair<const char*, int64_t>> inputs() const;
    LinearWeight load_inputs(const std::string& name, int64_t in) const;
    // As it is stored, float32 [channels, taps], and as the op takes it.
    Tensor stored_taps(const std::string& name, int64_t channels) const;
    Tensor convolution(const std::string& name, int64_t channels) const;
    Tensor convolution_of_parts(const std::string& name) const;
    // Stored as [size], or with axes of 1 around it.
    Tensor vector(const std::string& name, int64_t size) const;
    std::vector<Norm> norms_of_groups(const std::string& name) const;

    const ModelConfig& config_;
    WeightSource& source_;
    const LlamaTraits& traits_;
};

}  // namespace nvllm
