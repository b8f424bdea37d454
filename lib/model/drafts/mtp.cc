// Layouts of next-token layers, told apart by what their tensors' names begin with.
#include "lib/model/drafts/mtp.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/foreign_models.h"
#include "lib/checkpoint/text_part.h"
#include "lib/model/drafts/head_source.h"
#include "lib/model/families/decoder.h"
#include "lib/model/families/family.h"
#include "lib/model/families/llama_blocks.h"
#include "lib/model/registry.h"

namespace nvllm {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{4} << 20;
constexpr int64_t kMaxLayers = 1024;

// How a layout names the parts of a next-token layer; all names but the block's are linears and
// norms below the prefix.
struct MtpLayout {
    const char* name;
    const char* prefix;  // of all its tensors; {}: the number of the layer behind the last
    const char* block;   // of its block's, below the prefix
    const char* embedding_norm;
    const char* hidden_norm;
    const char* join;
    const char* final_norm;
    bool hidden_first = false;  // the state stands before the embedding
    // Copies of the target's embedding and output matrix, below the prefix; files may leave them
    // out. Null: there are none.
    const char* embedding = nullptr;
    const char* head = nullptr;

    std::string prefix_in(const ModelConfig& block_config) const {
        return fmt::format(fmt::runtime(prefix), block_config.num_layers - 1);
    }
};

constexpr MtpLayout kMiMo = {.name = "MTP in MiMo's layout",
                             .prefix = "model.mtp_layers.0.",
                             .block = "",
                             .embedding_norm = "token_layernorm",
                             .hidden_norm = "hidden_layernorm",
                             .join = "input_proj",
                             .final_norm = "final_layernorm",
                             .hidden_first = true};

constexpr MtpLayout kQwen = {.name = "MTP in Qwen's layout",
                             .prefix = "mtp.",
                             .block = "layers.0",
                             .embedding_norm = "pre_fc_norm_embedding",
                             .hidden_norm = "pre_fc_norm_hidden",
                             .join = "fc",
                             .final_norm = "norm"};

constexpr MtpLayout kDeepSeek = {.name = "MTP in DeepSeek's layout",
                                 .prefix = "model.layers.{}.",
                                 .block = "",
                                 .embedding_norm = "enorm",
                                 .hidden_norm = "hnorm",
                                 .join = "eh_proj",
                                 .final_norm = "shared_head.norm",
                                 .embedding = "embed_tokens",
                                 .head = "shared_head.head"};

constexpr std::array<const MtpLayout*, 3> kLayouts = {&kMiMo, &kQwen, &kDeepSeek};

const MtpLayout& layout_named(const std::string& name) {
    for (const MtpLayout* const layout : kLayouts) {
        if (layout->name == name) return *layout;
    }
    NVLLM_CHECK(false, "no layout " + name);
}

std::string weight_of(const std::string& module) { return module + ".weight"; }

// The model's settings with its next-token layer as one more behind its own.
nlohmann::json layer_settings(const nlohmann::json& document, const ModelConfig& model,
                              const std::string& file_name) {
    nlohmann::json settings = text_settings(document);
    const ConfigFields fields(settings, file_name);
    int64_t count = 1;
    for (const char* key : {"num_nextn_predict_layers", "mtp_num_hidden_layers"}) {
        count = fields.integer(key, 0, kMaxLayers).value_or(count);
        if (count == 1) continue;
        fields.refuse(key, "drafts of one next-token layer are read, and no others");
    }
    const auto num_layers = static_cast<size_t>(model.num_layers) + 1;
    settings["num_hidden_layers"] = num_layers;
    // It attends to everything, whatever the model's last layer does.
    if (settings.contains("layer_types") || model.linear_attention) {
        settings["layer_types"] = std::vector<std::string>(num_layers, "full_attention");
    }
    if (const auto types = settings.find("mlp_layer_types");
        types != settings.end() && types->is_array() && !types->empty()) {
        types->push_back(types->back());
    }
    return settings;
}

ModelConfig block_config(const nlohmann::json& document, const std::string& file_name) {
    const auto parse = [&](const nlohmann::json& settings) {
        ModelConfig config = parse_model_config(write_json(settings), file_name, known_families());
        if (config.refusal.empty()) return config;
        throw Error(ErrorKind::bad_data, file_name + ": " + config.refusal);
    };
    return parse(layer_settings(document, parse(document), file_name));
}

const MtpLayout& layout_of(const std::filesystem::path& directory, const Checkpoint& checkpoint,
                           const ModelConfig& block) {
    const std::vector<std::string_view> tensors = checkpoint.names();
    std::vector<const char*> known;
    for (const MtpLayout* const layout : kLayouts) {
        const std::string prefix = layout->prefix_in(block);
        for (const char* part : {layout->embedding_norm, layout->hidden_norm, layout->join}) {
            const std::string name = weight_of(prefix + part);
            if (std::ranges::find(tensors, name) != tensors.end()) return *layout;
        }
        known.push_back(layout->name);
    }
    throw Error(ErrorKind::bad_data,
                fmt::format("{}: holds no next-token layers ({} are looked for)",
                            directory.string(), fmt::join(known, ", ")));
}

}  // namespace

DraftHeadConfig read_mtp_config(const std::filesystem::path& directory) {
    require_config(directory);
    const std::string file_name = (directory / "config.json").string();
    const nlohmann::json document = parse_json(read_file(file_name, kMaxConfigBytes), file_name);
    DraftHeadConfig config;
    config.block = block_config(document, file_name);
    const Checkpoint checkpoint = Checkpoint::open(directory);
    const MtpLayout& layout = layout_of(directory, checkpoint, config.block);
    config.layout = {layout.name, DraftMethod::mtp};
    config.method = DraftMethod::mtp;
    if (family_of(config.block).next_token_traits == nullptr) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: the next-token layer of {} is not read", directory.string(),
                                config.block.architecture));
    }
    if (layout.embedding != nullptr) {
        const std::string name = layout.prefix_in(config.block) + layout.embedding;
        config.has_own_embedding = checkpoint.find(weight_of(name)).has_value();
    }
    config.target_hidden_size = config.block.hidden_size;
    config.draft_vocab_size = config.block.vocab_size;
    config.norm_output = true;
    return config;
}

namespace {

// The target's, but for copies of the layer's own.
void load_vocabulary(const DraftHeadConfig& config, const MtpLayout& layout,
                     CheckpointSource& source, DraftHeadParts& parts) {
    TargetVocabulary vocabulary = load_target_vocabulary(source, config.block);
    parts.token_embedding = std::move(vocabulary.embedding);
    parts.head = std::move(vocabulary.head);
    parts.owns_head = false;
    const std::string prefix = layout.prefix_in(config.block);
    if (config.has_own_embedding) {
        parts.token_embedding = load_table(source, weight_of(prefix + layout.embedding),
                                           config.block.vocab_size, config.block.hidden_size);
    }
    if (layout.head == nullptr || !source.has(weight_of(prefix + layout.head))) return;
    parts.head = load_linear(source, {prefix + layout.head, config.block.hidden_size,
                                      config.block.vocab_size, false, ShardAxis::output});
    parts.owns_head = true;
}

}  // namespace

DraftHeadParts load_mtp(const DraftHeadConfig& config, const DraftHeadLoadOptions& options,
                        CheckpointSource& source) {
    const MtpLayout& layout = layout_named(config.layout.name);
    const std::string prefix = layout.prefix_in(config.block);
    const int64_t hidden = config.block.hidden_size;
    const LlamaTraits traits = family_of(config.block).next_token_traits(config.block);
    const LlamaBlocks blocks(config.block, source, traits);
    DraftHeadParts parts;
    load_vocabulary(config, layout, source, parts);
    parts.embedding_norm = blocks.norm(prefix + layout.embedding_norm, hidden);
    parts.hidden_norm = blocks.norm(prefix + layout.hidden_norm, hidden);
    parts.join = load_linear(source, {prefix + layout.join, 2 * hidden, hidden, false});
    parts.hidden_first = layout.hidden_first;
    parts.rotaries = blocks.rotaries(
        {options.max_model_len > 0 ? options.max_model_len : config.block.max_positions});
    std::string block = prefix + layout.block;
    if (block.ends_with('.')) block.pop_back();
    parts.blocks.push_back(blocks.block(block, static_cast<size_t>(config.block.num_layers) - 1));
    parts.has_first_norm = true;
    parts.final_norm = blocks.norm(prefix + layout.final_norm, hidden);
    for (const std::string& name : source.unread()) {
        if (!name.starts_with(prefix) || name.ends_with(".rotary_emb.inv_freq")) continue;
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: tensor {} has no place in a next-token layer of the layout {}",
                                source.place_of(name), name, layout.name));
    }
    return parts;
}

}  // namespace nvllm
