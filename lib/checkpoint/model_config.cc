// config.json of the families that are read: their key names, and the limits every value must keep.
#include "lib/checkpoint/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/family_defaults.h"
#include "lib/checkpoint/quantization_config.h"
#include "lib/checkpoint/quoted.h"
#include "lib/checkpoint/rope_config.h"

namespace nvllm {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{4} << 20;
constexpr int64_t kMaxVocab = int64_t{4} << 20;
constexpr int64_t kMaxHidden = 262144;
constexpr int64_t kMaxIntermediate = int64_t{1} << 20;
constexpr int64_t kMaxLayers = 1024;
constexpr int64_t kMaxHeads = 8192;
constexpr int64_t kMaxHeadDim = 8192;
constexpr int64_t kMaxPositions = int64_t{1} << 30;
constexpr int64_t kMaxExperts = 4096;

// The value under the first of several names that is there.
std::optional<int64_t> any_integer(const ConfigFields& fields,
                                   std::initializer_list<const char*> keys, int64_t low,
                                   int64_t high) {
    for (const char* key : keys) {
        if (const auto value = fields.integer(key, low, high)) return value;
    }
    return std::nullopt;
}

// A size that must be there: by its key, else the family's default. Unknown families may lack it.
int64_t required(const ConfigFields& fields, const FamilyDefaults& family, int64_t fallback,
                 std::initializer_list<const char*> keys, int64_t high) {
    if (const auto value = any_integer(fields, keys, 1, high)) return *value;
    if (fallback == 0 && !family.model_type.empty()) {
        fields.refuse(*keys.begin(), fmt::format("a {} model needs it", family.model_type));
    }
    return fallback;
}

void read_sizes(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    config.vocab_size = required(fields, family, family.vocab_size, {"vocab_size"}, kMaxVocab);
    config.hidden_size = required(fields, family, 0, {"hidden_size", "n_embd", "dim"}, kMaxHidden);
    config.num_layers =
        required(fields, family, 0, {"num_hidden_layers", "n_layer", "n_layers"}, kMaxLayers);
    config.num_heads = required(fields, family, family.num_heads,
                                {"num_attention_heads", "n_head", "n_heads"}, kMaxHeads);
    config.max_positions =
        any_integer(fields, {"max_position_embeddings", "n_positions"}, 1, kMaxPositions)
            .value_or(family.max_positions);
    // GPT-2 says nothing and means four times its width.
    const bool gpt2 = config.model_type == "gpt2";
    config.intermediate_size =
        required(fields, family, gpt2 ? 4 * config.hidden_size : 0,
                 {"intermediate_size", "n_inner", "hidden_dim"}, kMaxIntermediate);
}

void read_heads(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    if (config.num_heads == 0) return;
    config.num_kv_heads =
        any_integer(fields, {"num_key_value_heads"}, 1, kMaxHeads)
            .value_or(family.num_kv_heads == 0 ? config.num_heads : family.num_kv_heads);
    if (config.num_heads % config.num_kv_heads != 0) {
        fields.refuse("num_key_value_heads",
                      fmt::format("it must divide the {} attention heads", config.num_heads));
    }
    config.head_dim = any_integer(fields, {"head_dim"}, 1, kMaxHeadDim).value_or(family.head_dim);
    if (config.head_dim == 0) {
        if (config.hidden_size % config.num_heads != 0) {
            fields.refuse(fields.has("n_embd") ? "n_embd" : "hidden_size",
                          fmt::format("it must be a multiple of the {} attention heads, or "
                                      "head_dim must be given",
                                      config.num_heads));
        }
        config.head_dim = config.hidden_size / config.num_heads;
    }
    if (config.num_heads * config.head_dim > kMaxIntermediate) {
        fields.refuse("head_dim", fmt::format("{} heads of it are wider than {}", config.num_heads,
                                              kMaxIntermediate));
    }
    if (!config.learned_positions && config.head_dim % 2 != 0) {
        fields.refuse("head_dim", "rotary embeddings need an even one");
    }
}

void read_switches(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    for (const char* key : {"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps"}) {
        if (const auto epsilon = fields.number(key, 0.0, 1.0)) config.norm_epsilon = *epsilon;
    }
    for (const char* key : {"hidden_act", "activation_function", "hidden_activation"}) {
        if (const auto name = fields.text(key)) config.activation = *name;
    }
    if (config.model_type == "distilbert") {
        config.activation = fields.text("activation").value_or(family.activation);
    }
    // The first Gemma was published as "gelu" and computed with the approximation by tanh.
    if (config.model_type == "gemma") config.activation = family.activation;
    config.tie_word_embeddings = fields.boolean("tie_word_embeddings").value_or(family.tied);
    const bool gpt2 = config.model_type == "gpt2";
    const bool bias = fields.boolean("attention_bias").value_or(gpt2);
    config.attention_bias = bias || config.model_type == "qwen2";
    config.attention_output_bias = config.model_type != "qwen2" && bias;
    config.mlp_bias = fields.boolean("mlp_bias").value_or(gpt2);
}

void read_attention_scale(const ConfigFields& fields, ModelConfig& config) {
    if (const auto scalar = fields.number("query_pre_attn_scalar", 1e-6, 1e6)) {
        config.attention_scale = 1.0 / std::sqrt(*scalar);
    }
    if (!fields.boolean("scale_attn_weights").value_or(true)) config.attention_scale = 1.0;
    config.attention_scale_by_layer =
        fields.boolean("scale_attn_by_inverse_layer_idx").value_or(false);
    config.attention_soft_cap = fields.number("attn_logit_softcapping", 0.0, 1e6).value_or(0.0);
    config.logit_soft_cap = fields.number("final_logit_softcapping", 0.0, 1e6).value_or(0.0);
}

bool window_by_rule(const ConfigFields& fields, const FamilyDefaults& family, int64_t layer) {
    switch (family.windows) {
        case Windows::none:
            return false;
        case Windows::all:
            return true;
        case Windows::switched:
            // Qwen3-MoE knows no layers without the window.
            return family.model_type == "qwen3_moe" ||
                   layer >= fields.integer("max_window_layers", 0, kMaxLayers).value_or(28);
        case Windows::alternating:
            return layer % 2 == 0;
        case Windows::five_of_six:
            return (layer + 1) %
                       fields.integer("sliding_window_pattern", 1, kMaxLayers).value_or(6) !=
                   0;
    }
    return false;
}

// One answer a layer from layer_types; empty when the file does not say.
std::vector<bool> windowed_layers(const ConfigFields& fields, const ModelConfig& config) {
    std::vector<bool> windowed;
    const auto types = fields.texts("layer_types");
    if (!types) return windowed;
    for (const std::string& type : *types) {
        if (type != "sliding_attention" && type != "full_attention") {
            fields.refuse("layer_types", fmt::format("layers of type {} are not supported",
                                                     quoted_for_message(type)));
        }
        windowed.push_back(type == "sliding_attention");
    }
    if (static_cast<int64_t>(windowed.size()) != config.num_layers) {
        fields.refuse("layer_types", fmt::format("{} layers are expected", config.num_layers));
    }
    return windowed;
}

void read_windows(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    config.layer_windows.assign(static_cast<size_t>(config.num_layers), 0);
    const bool said = fields.json().contains("sliding_window");
    const bool off =
        family.windows == Windows::none || (family.windows == Windows::switched &&
                                            !fields.boolean("use_sliding_window").value_or(false));
    if (off) return;
    config.sliding_window =
        fields.integer("sliding_window", 1, kMaxPositions).value_or(said ? 0 : family.window);
    // A window that no position can leave is none.
    if (config.sliding_window >= config.max_positions) config.sliding_window = 0;
    const std::vector<bool> windowed = windowed_layers(fields, config);
    for (size_t layer = 0; layer < config.layer_windows.size(); ++layer) {
        const bool sees_window = windowed.empty()
                                     ? window_by_rule(fields, family, static_cast<int64_t>(layer))
                                     : windowed[layer];
        if (sees_window) config.layer_windows[layer] = config.sliding_window;
    }
}

void read_rope(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    if (config.head_dim == 0 || config.learned_positions) return;
    config.rope = read_rope_config(fields, "full_attention", family.theta, config.max_positions,
                                   config.head_dim);
    if (family.windows != Windows::five_of_six) return;
    const auto parameters = fields.object("rope_parameters");
    if (parameters && parameters->has("sliding_attention")) {
        config.sliding_rope = read_rope_config(fields, "sliding_attention", 10000.0,
                                               config.max_positions, config.head_dim);
    } else {
        config.sliding_rope.emplace();
        config.sliding_rope->theta =
            fields.number("rope_local_base_freq", 1.0, 1e15).value_or(10000.0);
    }
}

void read_experts(const ConfigFields& fields, ModelConfig& config) {
    config.num_experts =
        any_integer(fields, {"num_local_experts", "num_experts"}, 0, kMaxExperts).value_or(0);
    if (config.num_experts == 0) return;
    config.experts_per_token =
        any_integer(fields, {"num_experts_per_tok"}, 1, config.num_experts).value_or(0);
    if (config.experts_per_token == 0) {
        fields.refuse("num_experts_per_tok", "a model with experts needs it");
    }
    config.expert_intermediate_size =
        any_integer(fields, {"moe_intermediate_size"}, 1, kMaxIntermediate)
            .value_or(config.intermediate_size);
    config.normalize_expert_weights =
        fields.boolean("norm_topk_prob").value_or(config.model_type == "mixtral");
    const int64_t step = fields.integer("decoder_sparse_step", 1, kMaxLayers).value_or(1);
    for (int64_t layer = 0; layer < config.num_layers; ++layer) {
        config.sparse_layers.push_back((layer + 1) % step == 0);
    }
    for (const int64_t layer : fields.integers("mlp_only_layers")) {
        if (layer < 0 || layer >= config.num_layers) {
            fields.refuse("mlp_only_layers", "it names a layer that is not there");
        }
        config.sparse_layers[static_cast<size_t>(layer)] = false;
    }
}

void read_dtype(const ConfigFields& fields, ModelConfig& config) {
    for (const char* key : {"torch_dtype", "dtype"}) {
        const auto name = fields.text(key);
        if (!name) continue;
        const bool prefixed = name->starts_with("torch.");
        const auto dtype = dtype_from_name(prefixed ? std::string_view(*name).substr(6) : *name);
        if (!dtype || (*dtype != DType::f32 && *dtype != DType::bf16 && *dtype != DType::f16)) {
            fields.refuse(key, "float32, bfloat16 or float16 is expected");
        }
        config.dtype = *dtype;
    }
}

// Ids that no vocabulary of this size has cannot be generated; old GPT-2 files name some all the
// same.
void read_special_tokens(const ConfigFields& fields, ModelConfig& config) {
    const auto known = [&](const char* key, int64_t id) {
        if (id >= 0 && (config.vocab_size == 0 || id < config.vocab_size)) return true;
        config.notes.push_back(fmt::format("{}: {} {} is outside the vocabulary of {}; ignored",
                                           fields.file_name(), key, id, config.vocab_size));
        return false;
    };
    for (const int64_t id : fields.integers("eos_token_id")) {
        if (known("eos_token_id", id)) config.eos_token_ids.push_back(static_cast<int32_t>(id));
    }
    const std::vector<int64_t> bos = fields.integers("bos_token_id");
    if (!bos.empty() && known("bos_token_id", bos.front())) {
        config.bos_token_id = static_cast<int32_t>(bos.front());
    }
}

// What only encoders say. The rows of positions before the first one's belong to no position.
void read_encoder(const ConfigFields& fields, const FamilyDefaults& family, ModelConfig& config) {
    const auto positions = fields.text("position_embedding_type");
    if (positions && *positions != "absolute") {
        fields.refuse("position_embedding_type", "only absolute positions are supported");
    }
    if (fields.boolean("is_decoder").value_or(false)) {
        fields.refuse("is_decoder",
                      fmt::format("a {} that generates is not supported", family.model_type));
    }
    config.num_token_types =
        family.token_types == 0
            ? 0
            : fields.integer("type_vocab_size", 1, kMaxVocab).value_or(family.token_types);
    if (!family.positions_after_pad) return;
    config.position_offset = 1 + fields.integer("pad_token_id", 0, kMaxVocab).value_or(1);
    if (config.position_offset >= config.max_positions) {
        fields.refuse(
            "max_position_embeddings",
            fmt::format("{} of them stand before the first position", config.position_offset));
    }
    config.max_positions -= config.position_offset;
}

// The text model's settings of a model with several parts, over those they share.
nlohmann::json text_settings(const nlohmann::json& document) {
    nlohmann::json merged = document;
    const auto text = document.find("text_config");
    if (text == document.end() || !text->is_object()) return merged;
    merged.erase("text_config");
    merged.erase("vision_config");
    for (const auto& [key, value] : text->items()) {
        if (key != "architectures" && !value.is_null()) merged[key] = value;
    }
    return merged;
}

std::string read_architecture(const ConfigFields& fields, const char* fallback) {
    const auto names = fields.texts("architectures");
    return names && !names->empty() ? names->front() : std::string(fallback);
}

}  // namespace

ModelConfig parse_model_config(const std::string& json, const std::string& file_name) {
    const nlohmann::json document = parse_json(json, file_name);
    if (!document.is_object()) {
        throw Error(ErrorKind::bad_data, file_name + ": is not a JSON object");
    }
    const nlohmann::json settings = text_settings(document);
    const ConfigFields fields(settings, file_name);
    ModelConfig config;
    config.raw_json = json;
    config.model_type = fields.text("model_type").value_or("");
    const FamilyDefaults& family =
        family_defaults(config.model_type, read_architecture(fields, ""));
    config.architecture = read_architecture(fields, family.architecture);
    config.encoder = family.encoder;
    config.generates = !family.encoder && !is_body_of_decoder(config.architecture);
    config.learned_positions = family.encoder || config.model_type == "gpt2";
    config.norm_epsilon = family.epsilon;
    config.activation = family.activation;
    read_sizes(fields, family, config);
    read_heads(fields, family, config);
    read_switches(fields, family, config);
    read_attention_scale(fields, config);
    read_windows(fields, family, config);
    read_rope(fields, family, config);
    read_experts(fields, config);
    if (config.encoder) read_encoder(fields, family, config);
    read_dtype(fields, config);
    read_special_tokens(fields, config);
    config.quantized = fields.has("quantization_config");
    if (fields.has("auto_map")) {
        config.notes.push_back(file_name +
                               ": auto_map names code of the checkpoint's own, which is "
                               "never run; the built-in model is used");
    }
    return config;
}

ModelConfig read_model_config(const std::filesystem::path& directory) {
    const std::filesystem::path path = directory / "config.json";
    ModelConfig config = parse_model_config(read_file(path, kMaxConfigBytes), path.string());
    for (std::string& note : quantization_notes(directory)) config.notes.push_back(std::move(note));
    return config;
}

int64_t ModelConfig::estimated_parameters() const {
    const int64_t query = num_heads * head_dim;
    const int64_t key_value = num_kv_heads * head_dim;
    const int64_t attention = hidden_size * (query + 2 * key_value) + query * hidden_size;
    const int64_t matrices = model_type == "gpt2" ? 2 : 3;
    int64_t total = vocab_size * hidden_size * (tie_word_embeddings ? 1 : 2);
    for (int64_t layer = 0; layer < num_layers; ++layer) {
        const bool sparse = !sparse_layers.empty() && sparse_layers[static_cast<size_t>(layer)];
        const int64_t width = sparse ? num_experts * expert_intermediate_size : intermediate_size;
        total += attention + matrices * hidden_size * width + 2 * hidden_size;
    }
    return total + hidden_size;
}

}  // namespace nvllm
