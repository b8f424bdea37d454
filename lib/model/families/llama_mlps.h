// Feed-forward layers of Llama's descendants, loaded by their names.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "lib/checkpoint/model_config.h"
#include "lib/model/channel_flow.h"
#include "lib/model/families/llama_blocks.h"
#include "lib/model/weights/module_sharding.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

// The linears of one MLP, whole: what reads the hidden states, then what gives them.
struct MlpLinears {
    std::vector<LinearSpec> in;
    LinearSpec down;

    std::vector<LinearSpec> all() const {
        std::vector<LinearSpec> linears = in;
        linears.push_back(down);
        return linears;
    }
};

// What it refers to must outlive it. All functions throw bad_data that names a tensor.
class LlamaMlps {
  public:
    LlamaMlps(const ModelConfig& config, WeightSource& source, const LlamaTraits& traits)
        : config_(config), source_(source), traits_(traits) {}

    // That of block `index`, whose tensors begin with `block`: "model.layers.3".
    std::variant<Mlp, MoeMlp> load(const std::string& block, size_t index) const;
    // The experts beside the MLP of a block.
    MoeMlp experts(const std::string& block) const { return sparse(block); }
    // All linears of it that read what it reads.
    std::vector<std::string> readers(const std::string& block, size_t index) const;
    // The flows within it.
    std::vector<ChannelFlow> flows(const std::string& block, size_t index) const;

  private:
    bool is_sparse(size_t index) const {
        return config_.num_experts > 0 && !config_.experts_beside_mlp &&
               config_.sparse_layers[index];
    }
    int64_t width(size_t index) const {
        return config_.intermediate_size *
               (config_.shared_layer(index) ? config_.sharing_mlp_factor : 1);
    }
    std::string sparse_name(const std::string& block) const;
    // The name of the MLP for all tokens beside experts; empty: there is none.
    std::string shared_name(const std::string& block) const;
    // Reads and gives `channels`.
    Mlp mlp(const std::string& name, const MlpNames& names, int64_t channels, int64_t inner,
            bool bias) const;
    // A rank's slice of it. `is_partial`: the sum over ranks is left to the caller.
    Mlp mlp(const MlpLinears& linears, const ModuleSharding& cut, bool is_partial) const;
    std::vector<std::string> mlp_readers(const std::string& name) const;
    ChannelFlow mlp_flow(const std::string& name, int64_t inner) const;
    MoeMlp sparse(const std::string& block) const;
    Routing routing(const std::string& layer) const;
    Norm router_norm(const std::string& name) const;
    std::vector<MlpLinears> expert_linears(const std::string& layer) const;
    void load_experts(const std::string& block, MoeMlp& moe) const;
    // Whether clamped experts have gate and up each by itself: in the file, or for a hook.
    bool are_apart(const std::string& layer) const;
    MlpLinears clamped_linears(const std::string& layer, int64_t expert) const;
    void name_fused_experts(const std::string& layer) const;
    void name_clamped_experts(const std::string& layer) const;
    // `rows`: what the linear of any expert is of a matrix of the stack.
    void name_stack(const std::string& layer, const char* stack, const char* linear,
                    StoredPart rows) const;
    void load_latent(const std::string& layer, MoeMlp& moe) const;
    bool is_turned(const std::string& stack, int64_t out, int64_t in) const;

    const ModelConfig& config_;
    WeightSource& source_;
    const LlamaTraits& traits_;
};

// The flow of a linear's rows, from `first_row` on, into the columns of a reader.
ChannelFlow flow_from_linear(const std::string& name, int64_t first_row, int64_t channels,
                             const std::string& reader);

}  // namespace nvllm
