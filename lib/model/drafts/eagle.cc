// Tensors of EAGLE and EAGLE-3 by their published names.
#include "lib/model/drafts/eagle.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "kernels/error.h"
#include "lib/model/drafts/head_source.h"
#include "lib/model/families/decoder.h"
#include "lib/model/families/llama_blocks.h"
#include "lib/model/registry.h"

namespace nvllm {
namespace {

class EagleLoader {
  public:
    EagleLoader(const DraftHeadConfig& config, const DraftHeadLoadOptions& options,
                CheckpointSource& source)
        : config_(config),
          options_(options),
          source_(source),
          blocks_(config.block, source, traits_) {}

    DraftHeadParts load() {
        const int64_t hidden = config_.block.hidden_size;
        require_width();
        DraftHeadParts parts;
        load_shared(parts);
        parts.rotaries = blocks_.rotaries(
            {options_.max_model_len > 0 ? options_.max_model_len : config_.block.max_positions});
        if (config_.method == DraftMethod::eagle) {
            parts.join = load_linear(source_, {"fc", 2 * hidden, hidden, config_.fc_bias});
        } else {
            load_eagle3(parts);
        }
        load_blocks(parts);
        check_all_read();
        return parts;
    }

  private:
    // Whatever is joined without a matrix between must be as wide as the head.
    void require_width() const {
        const bool needs_same =
            config_.method == DraftMethod::eagle || !config_.fuses() || !config_.has_own_embedding;
        if (!needs_same || config_.target_hidden_size == config_.block.hidden_size) return;
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: a head of hidden size {} for a target of {} needs "
                                "embed_tokens.weight and fc.weight of its own",
                                options_.directory.string(), config_.block.hidden_size,
                                config_.target_hidden_size));
    }

    // The embedding and, of EAGLE, the output matrix that are the target's.
    void load_shared(DraftHeadParts& parts) {
        const bool is_eagle = config_.method == DraftMethod::eagle;
        const ModelConfig& block = config_.block;
        if (config_.has_own_embedding) {
            parts.token_embedding =
                load_table(source_, "embed_tokens.weight", block.vocab_size, block.hidden_size);
        }
        if (config_.has_own_embedding && !is_eagle) return;
        const ModelConfig target = read_model_config(options_.target_directory);
        const std::unique_ptr<CheckpointSource> shared = open_head_source(
            options_.target_directory, source_.compute_type(), *options_.threads, source_.device(),
            source_.has_values() ? CheckpointUse::values : CheckpointUse::headers);
        TargetVocabulary vocabulary = load_target_vocabulary(*shared, target);
        shared->finish();
        if (!config_.has_own_embedding) parts.token_embedding = std::move(vocabulary.embedding);
        if (!is_eagle) return;
        parts.head = std::move(vocabulary.head);
        parts.owns_head = false;
    }

    void load_eagle3(DraftHeadParts& parts) {
        const int64_t hidden = config_.block.hidden_size;
        const int64_t state = config_.target_hidden_size;
        const int64_t states = config_.num_aux_hidden_states;
        const std::string first = first_layer();
        if (config_.fuses()) {
            parts.fuse = load_linear(source_, {"fc", states * state, hidden, config_.fc_bias});
        }
        if (config_.norm_before_fc) parts.fused_norm = blocks_.norm("input_norm", states * state);
        for (int64_t index = 0; config_.fc_norm && index < states; ++index) {
            parts.state_norms.push_back(blocks_.norm(fmt::format("fc_norm.{}", index), state));
        }
        parts.embedding_norm = blocks_.norm(first + ".input_layernorm", hidden);
        parts.hidden_norm = blocks_.norm(first + ".hidden_norm", hidden);
        parts.final_norm = blocks_.norm("norm", hidden);
        parts.head = load_linear(source_, {"lm_head", hidden, config_.draft_vocab_size, false});
        parts.target_ids = read_target_ids();
    }

    std::string first_layer() const {
        return source_.has_matrix("midlayer.self_attn.q_proj") ? "midlayer" : "layers.0";
    }

    void load_blocks(DraftHeadParts& parts) {
        const int64_t hidden = config_.block.hidden_size;
        // Of EAGLE the matrix before it has joined embedding and state.
        const int64_t in = config_.method == DraftMethod::eagle ? hidden : 2 * hidden;
        parts.blocks.push_back(blocks_.block_behind(first_layer(), 0, in));
        for (int64_t index = 1; index < config_.block.num_layers; ++index) {
            const std::string name = fmt::format("layers.{}", index);
            parts.blocks.push_back(blocks_.block(name, static_cast<size_t>(index)));
        }
    }

    // The file has offsets: the target's id of draft id i is i + d2t[i].
    std::vector<int32_t> read_target_ids() {
        const int64_t count = config_.draft_vocab_size;
        const int64_t vocabulary = config_.block.vocab_size;
        if (!source_.has("d2t") && count == vocabulary) return {};
        const Tensor offsets = source_.read_stored("d2t", {count}, {DType::i64}, {});
        std::vector<int32_t> ids;
        for (int64_t id = 0; id < count; ++id) {
            const int64_t offset = offsets.view().as<int64_t>()[id];
            if (offset < -id || offset >= vocabulary - id) {
                throw Error(ErrorKind::bad_data,
                            fmt::format("{}: d2t[{}] is {}, which leads out of the target's "
                                        "vocabulary of {}",
                                        source_.place_of("d2t"), id, offset, vocabulary));
            }
            ids.push_back(static_cast<int32_t>(id + offset));
        }
        return ids;
    }

    // t2d says no more than d2t. Later layers are stored with a hidden_norm that has no use.
    bool may_be_left_over(const std::string& name) const {
        return name == "t2d" || name.ends_with(".rotary_emb.inv_freq") ||
               (name.starts_with("layers.") && name.ends_with(".hidden_norm.weight") &&
                !name.starts_with("layers.0."));
    }

    void check_all_read() const {
        for (const std::string& name : source_.unread()) {
            if (may_be_left_over(name)) continue;
            throw Error(ErrorKind::bad_data,
                        fmt::format("{}: tensor {} has no place in a draft head of the layout {}",
                                    source_.place_of(name), name, config_.layout.name));
        }
    }

    const DraftHeadConfig& config_;
    const DraftHeadLoadOptions& options_;
    CheckpointSource& source_;
    LlamaTraits traits_;
    LlamaBlocks blocks_;
};

}  // namespace

DraftHeadParts load_eagle(const DraftHeadConfig& config, const DraftHeadLoadOptions& options,
                          CheckpointSource& source) {
    return EagleLoader(config, options, source).load();
}

}  // namespace nvllm
