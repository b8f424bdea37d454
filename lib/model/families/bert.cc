// BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019), XLM-RoBERTa (Conneau et al. 2020),
// DistilBERT (Sanh et al. 2019) and MPNet (Song et al. 2020), whose blocks share a bias of scores
// by distance. Names come with or without the model's own in front, as the whole model or its body
// was saved.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "kernels/error.h"
#include "lib/model/families/decoder.h"
#include "lib/model/families/encoder.h"
#include "lib/model/families/family.h"
#include "lib/model/families/stored_names.h"
#include "lib/model/weights/module_sharding.h"

namespace nvllm {

extern const FamilyRow kBert;
extern const FamilyRow kDistilBert;

namespace {

constexpr std::array<FamilyDefaults, 1> kBertConfigs = {
    {{.model_type = "bert",
      .max_positions = 512,
      .epsilon = 1e-12,
      .activation = "gelu",
      .epsilon_key = "layer_norm_eps",
      .encoder = true,
      .learned_positions = true,
      .token_types = 2,
      .own_keys = "position_embedding_type is_decoder type_vocab_size"}}};

constexpr std::array<FamilyDefaults, 1> kRobertaConfigs = {
    {{.model_type = "roberta",
      .max_positions = 512,
      .epsilon = 1e-12,
      .activation = "gelu",
      .epsilon_key = "layer_norm_eps",
      .encoder = true,
      .learned_positions = true,
      .token_types = 2,
      .positions_after_pad = true,
      .own_keys = "position_embedding_type is_decoder type_vocab_size pad_token_id"}}};

constexpr std::array<FamilyDefaults, 1> kXlmRobertaConfigs = {
    {{.model_type = "xlm-roberta",
      .max_positions = 512,
      .epsilon = 1e-12,
      .activation = "gelu",
      .epsilon_key = "layer_norm_eps",
      .encoder = true,
      .learned_positions = true,
      .token_types = 2,
      .positions_after_pad = true,
      .own_keys = "position_embedding_type is_decoder type_vocab_size pad_token_id"}}};

constexpr std::array<FamilyDefaults, 1> kDistilBertConfigs = {
    {{.model_type = "distilbert",
      .max_positions = 512,
      .epsilon = 1e-12,
      .activation = "gelu",
      .activation_key = "activation",
      .epsilon_key = nullptr,
      .encoder = true,
      .learned_positions = true,
      .own_keys = "is_decoder",
      .idle_keys = "sinusoidal_pos_embds"}}};

constexpr std::array<FamilyDefaults, 1> kMpNetConfigs = {
    {{.model_type = "mpnet",
      .max_positions = 512,
      .epsilon = 1e-12,
      .activation = "gelu",
      .epsilon_key = "layer_norm_eps",
      .encoder = true,
      .learned_positions = true,
      .position_buckets = 32,
      // From token 1 on, whatever the padding token's id.
      .positions_after_pad = true,
      .own_keys = "is_decoder relative_attention_num_buckets"}}};

// What the parts of a block are called below the block's own name.
struct BlockNames {
    const char* blocks;
    const char* query;
    const char* key;
    const char* value;
    const char* attention_output;
    const char* attention_norm;
    const char* mlp_in;
    const char* mlp_down;
    const char* mlp_norm;
};

constexpr BlockNames kBertNames = {
    "encoder.layer",        "attention.self.query",   "attention.self.key",
    "attention.self.value", "attention.output.dense", "attention.output.LayerNorm",
    "intermediate.dense",   "output.dense",           "output.LayerNorm"};

constexpr BlockNames kDistilBertNames = {
    "transformer.layer", "attention.q_lin",   "attention.k_lin",
    "attention.v_lin",   "attention.out_lin", "sa_layer_norm",
    "ffn.lin1",          "ffn.lin2",          "output_layer_norm"};

constexpr BlockNames kMpNetNames = {"encoder.layer",      "attention.attn.q", "attention.attn.k",
                                    "attention.attn.v",   "attention.attn.o", "attention.LayerNorm",
                                    "intermediate.dense", "output.dense",     "output.LayerNorm"};

// Distances of MPNet's biases in either direction, the last of them for all that are further away.
constexpr int64_t kReach = 128;

// The bucket of a position that lies `distance` after the query's: one for each of the 8 nearest on
// either side, then 8 whose distances grow by the root of 2.
int64_t bucket_of(int64_t distance) {
    constexpr int64_t kBuckets = 16;  // of a side
    constexpr int64_t kNearest = 8;
    const int64_t side = distance > 0 ? kBuckets : 0;
    const int64_t steps = std::abs(distance);
    if (steps < kNearest) return side + steps;
    // From 8 * 2^(n / 2) on, in whole numbers.
    int64_t n = 0;
    while (n < kBuckets - kNearest - 1 && steps * steps >= (int64_t{64} << (n + 1))) ++n;
    return side + kNearest + n;
}

struct BertLoader {
    const ModelConfig& config;
    WeightSource& source;
    const BlockNames& names;

    // The first checkpoints call weight and bias gamma and beta.
    Norm norm(const std::string& name) const {
        const bool old = source.has(name + ".gamma");
        Norm norm;
        norm.kind = Norm::Kind::layer;
        norm.epsilon = static_cast<float>(config.norm_epsilon);
        norm.weight = source.read_placed(name + (old ? ".gamma" : ".weight"), {config.hidden_size},
                                         WeightRole::norm);
        norm.bias = source.read_placed(name + (old ? ".beta" : ".bias"), {config.hidden_size},
                                       WeightRole::bias);
        return norm;
    }

    // [heads, distances] out of the stored [buckets, heads].
    Tensor position_bias(const std::string& name) const {
        const int64_t heads = config.num_heads;
        const Tensor stored = as_float32(
            source, source.read(name, {config.position_buckets, heads}, WeightRole::matrix));
        constexpr int64_t kColumns = 2 * kReach + 1;
        Tensor bias = Tensor::allocate(DType::f32, {heads, kColumns});
        float* to = bias.mutable_view().as<float>();
        for (int64_t head = 0; head < heads && source.has_values(); ++head) {
            for (int64_t distance = -kReach; distance <= kReach; ++distance) {
                *to++ = stored.view().as<float>()[bucket_of(distance) * heads + head];
            }
        }
        return source.placed(bias);
    }

    // Of the heads that a layer has here.
    static Tensor rows_of_heads(const Tensor& bias, const Attention& layer) {
        if (bias.empty() || layer.shard.is_whole()) return bias;
        return Tensor::borrow(bias.view().rows(layer.shard.rank * layer.heads, layer.heads),
                              std::make_shared<const Tensor>(bias));
    }

    Attention attention(const std::string& block) const {
        const int64_t hidden = config.hidden_size;
        const std::vector<ShardPiece> of_heads = {{hidden, config.num_heads}};
        const std::vector<LinearSpec> projections = {
            {block + names.query, hidden, hidden, true, ShardAxis::output, of_heads},
            {block + names.key, hidden, hidden, true, ShardAxis::output, of_heads},
            {block + names.value, hidden, hidden, true, ShardAxis::output, of_heads}};
        const LinearSpec output = {block + names.attention_output, hidden, hidden, true,
                                   ShardAxis::input};
        std::vector<LinearSpec> linears = projections;
        linears.push_back(output);
        const ModuleSharding cut(source, linears);
        Attention layer;
        layer.shard = cut.shard();
        layer.heads = cut.share(config.num_heads);
        layer.kv_heads = layer.heads;
        layer.head_dim = config.head_dim;
        layer.options.scale =
            static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)));
        layer.options.causal = false;
        layer.query_key_value = load_linear(source, cut.of(projections));
        layer.output = load_linear(source, cut.of(output));
        return layer;
    }

    Mlp mlp(const std::string& block) const {
        Mlp layer;
        layer.gated = false;
        layer.activation = mlp_function_named(config.activation);
        const int64_t inner = config.intermediate_size;
        const std::vector<LinearSpec> linears = {
            {block + names.mlp_in, config.hidden_size, inner, true, ShardAxis::output},
            {block + names.mlp_down, inner, config.hidden_size, true, ShardAxis::input}};
        const ModuleSharding cut(source, linears);
        layer.in = load_linear(source, cut.of(linears.front()));
        layer.down = load_linear(source, cut.of(linears.back()));
        return layer;
    }

    EncoderBlock block(const std::string& prefix, int64_t index) const {
        const std::string name = fmt::format("{}{}.{}.", prefix, names.blocks, index);
        return {.attention = attention(name),
                .attention_norm = norm(name + names.attention_norm),
                .mlp = mlp(name),
                .mlp_norm = norm(name + names.mlp_norm)};
    }

    EncoderParts parts() const {
        const int64_t hidden = config.hidden_size;
        const std::string prefix = name_prefix();
        const std::string embeddings = prefix + "embeddings.";
        EncoderParts parts;
        parts.token_embedding =
            load_table(source, embeddings + "word_embeddings.weight", config.vocab_size, hidden);
        parts.position_offset = config.position_offset;
        parts.position_embedding =
            load_table(source, embeddings + "position_embeddings.weight",
                       config.position_offset + config.max_positions, hidden);
        if (config.num_token_types > 0) {
            parts.type_embedding = load_table(source, embeddings + "token_type_embeddings.weight",
                                              config.num_token_types, hidden);
        }
        parts.embedding_norm = norm(embeddings + "LayerNorm");
        if (config.position_buckets > 0) {
            parts.position_bias = position_bias(prefix + "encoder.relative_attention_bias.weight");
        }
        for (const int64_t index : blocks_of(source, config)) {
            parts.blocks.push_back(block(prefix, index));
            Attention& attention = parts.blocks.back().attention;
            attention.position_bias = rows_of_heads(parts.position_bias, attention);
        }
        if (!config.labels.empty()) parts.classifier = classifier(prefix);
        return parts;
    }

    // Of BERT the body's pooler comes first, of the others a linear that is the head's own.
    ClassifierHead classifier(const std::string& prefix) const {
        const bool is_bert = config.text_architecture == kBert.architecture;
        const bool is_distilbert = config.text_architecture == kDistilBert.architecture;
        const std::string dense = is_bert         ? prefix + "pooler.dense"
                                  : is_distilbert ? "pre_classifier"
                                                  : "classifier.dense";
        const std::string classes = is_bert || is_distilbert ? "classifier" : "classifier.out_proj";
        const int64_t hidden = config.hidden_size;
        ClassifierHead head;
        head.num_classes = static_cast<int64_t>(config.labels.size());
        if (is_distilbert) head.function = MlpFunction{ops::Activation::relu};
        head.dense = load_head_linear(source, dense, hidden, hidden, true);
        head.classes = load_head_linear(source, classes, hidden, head.num_classes, true);
        return head;
    }

    // The first checkpoints call a norm's weight gamma.
    std::string name_prefix() const {
        for (const char* norm : {"embeddings.LayerNorm.weight", "embeddings.LayerNorm.gamma"}) {
            const BodyMarks marks{norm, "embeddings.word_embeddings.weight", ""};
            const std::string prefix = body_prefix(source, marks, config.hidden_size);
            if (!prefix.empty()) return prefix;
        }
        return "";
    }
};

void check_length(const ModelConfig& config, const ModelSettings& settings) {
    if (settings.max_model_len <= config.max_positions) return;
    throw Error(ErrorKind::bad_config,
                fmt::format("a maximum length of {} was asked for, but this {} learned only {} "
                            "positions; ask for at most that",
                            settings.max_model_len, config.architecture, config.max_positions));
}

std::unique_ptr<Model> make(const ModelConfig& config, WeightSource& source,
                            const ModelSettings& settings, const BlockNames& names) {
    check_length(config, settings);
    return make_encoder(config, settings, BertLoader{config, source, names}.parts());
}

std::unique_ptr<Model> make_bert(const ModelConfig& config, WeightSource& source,
                                 const ModelSettings& settings) {
    return make(config, source, settings, kBertNames);
}

std::unique_ptr<Model> make_distilbert(const ModelConfig& config, WeightSource& source,
                                       const ModelSettings& settings) {
    return make(config, source, settings, kDistilBertNames);
}

std::unique_ptr<Model> make_mpnet(const ModelConfig& config, WeightSource& source,
                                  const ModelSettings& settings) {
    return make(config, source, settings, kMpNetNames);
}

// Of other tasks than embedding: its pooler, and heads that predict words or classes.
bool is_of_other_task(const std::string& name, const ModelConfig&) {
    constexpr std::array<std::string_view, 8> kPrefixes = {
        "pooler.", "bert.pooler.", "roberta.pooler.", "mpnet.pooler.",
        "cls.",    "lm_head.",     "vocab_",          "classifier."};
    return name.ends_with("embeddings.position_ids") ||
           std::ranges::any_of(kPrefixes,
                               [&](std::string_view prefix) { return name.starts_with(prefix); });
}

}  // namespace

extern const FamilyRow kBert = {"BertModel", make_bert, kBertConfigs, is_of_other_task};
extern const FamilyRow kRoberta = {"RobertaModel", make_bert, kRobertaConfigs, is_of_other_task};
extern const FamilyRow kXlmRoberta = {"XLMRobertaModel", make_bert, kXlmRobertaConfigs,
                                      is_of_other_task};
extern const FamilyRow kDistilBert = {"DistilBertModel", make_distilbert, kDistilBertConfigs,
                                      is_of_other_task};
extern const FamilyRow kMpNet = {"MPNetModel", make_mpnet, kMpNetConfigs, is_of_other_task};

}  // namespace nvllm
