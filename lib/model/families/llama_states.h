// Layers with states of Llama's descendants, loaded by their names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/checkpoint/model_config.h"
#include "lib/model/families/llama_blocks.h"
#include "lib/model/weights/module_sharding.h"
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
    // The linears of a layer, whole; ranks share out its heads, or its channels.
    struct Linears {
        std::vector<LinearSpec> in;
        std::vector<LinearSpec> of_gates;  // of the vectors that some of `in` give (Kimi Linear)
        LinearSpec out;
    };

    bool is(StateLayerKind kind) const { return config_.linear_attention->kind == kind; }
    // Of the whole layer, and of a rank's share.
    LinearAttentionSizes sizes() const;
    LinearAttentionSizes sizes(const ModuleSharding& cut) const;
    // Behind the convolution.
    ops::Activation activation() const;
    GatedDeltaNet delta_net(const std::string& name, const Linears& linears,
                            const ModuleSharding& cut) const;
    GatedDeltaNet kimi_delta(const std::string& name, const Linears& linears,
                             const ModuleSharding& cut) const;
    Mamba2 mamba(const std::string& name, const Linears& linears, const ModuleSharding& cut) const;
    ShortConv short_conv(const std::string& name, const Linears& linears,
                         const ModuleSharding& cut) const;
    // Values of all heads, or of all groups of heads.
    ShardPiece of_heads(int64_t size) const;
    ShardPiece of_key_heads(int64_t size) const;
    Linears linears(const std::string& name, int64_t in) const;
    // What is convolved together.
    std::vector<ShardPiece> channels() const;
    // The rank's of what is stored of these pieces: float32 [channels, taps], and as the op takes
    // it.
    Tensor stored_taps(const std::string& name, std::span<const ShardPiece> pieces,
                       const ModuleSharding& cut) const;
    Tensor convolution(const std::string& name, const ModuleSharding& cut) const;
    Tensor convolution_of_parts(const std::string& name, const ModuleSharding& cut) const;
    // Stored as [size], or with axes of 1 around it.
    Tensor vector(const std::string& name, std::span<const ShardPiece> pieces,
                  const ModuleSharding& cut) const;
    std::vector<Norm> norms_of_groups(const std::string& name, const ModuleSharding& cut) const;

    const ModelConfig& config_;
    WeightSource& source_;
    const LlamaTraits& traits_;
};

}  // namespace nvllm
