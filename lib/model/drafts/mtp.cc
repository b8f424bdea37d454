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
    const char* prefix;  // of all its tensors
    const char* block;   // of its block's, below the prefix
    const char* embedding_norm;
    const char* hidden_norm;
    const char* join;
    const char* final_norm;
    bool hidden_first;  // the state stands before the embedding
    LlamaTraits traits;
};

const MtpLayout kMiMo = {"MTP in MiMo's layout",
                         "model.mtp_layers.0.",
                         "",
                         "token_layernorm",
                         "hidden_layernorm",
                         "input_proj",
                         "final_layernorm",
                         true,
                         {}};

const std::array<const MtpLayout*, 1> kLayouts = {&kMiMo};

bool begins_one(const std::vector<std::string_view>& tensors, const char* prefix) {
    return std::ranges::any_of(tensors,
                               [&](std::string_view name) { return name.starts_with(prefix); });
}

const MtpLayout& layout_of(const std::filesystem::path& directory) {
    const Checkpoint checkpoint = Checkpoint::open(directory);
    const std::vector<std::string_view> tensors = checkpoint.names();
    std::vector<const char*> known;
    for (const MtpLayout* const layout : kLayouts) {
        if (begins_one(tensors, layout->prefix)) return *layout;
        known.push_back(layout->name);
    }
    const bool is_deepseek = std::ranges::any_of(
        tensors, [](std::string_view name) { return name.ends_with(".eh_proj.weight"); });
    const char* found = is_deepseek                   ? "MTP in DeepSeek's layout"
                        : begins_one(tensors, "mtp.") ? "MTP in Qwen's layout"
                                                      : nullptr;
    throw Error(ErrorKind::bad_data,
                found == nullptr
                    ? fmt::format("{}: holds no next-token layers", directory.string())
                    : fmt::format("{}: its next-token layers are {}, which is not read; {} is",
                                  directory.string(), found, fmt::join(known, " or ")));
}

const MtpLayout& layout_named(const std::string& name) {
    for (const MtpLayout* const layout : kLayouts) {
        if (layout->name == name) return *layout;
    }
    NVLLM_CHECK(false, "no layout " + name);
}

// The model's settings with the next-token layer as its only one.
nlohmann::json layer_settings(const nlohmann::json& document, const std::string& file_name) {
    nlohmann::json settings = text_settings(document);
    const ConfigFields fields(settings, file_name);
    int64_t count = 1;
    for (const char* key : {"num_nextn_predict_layers", "mtp_num_hidden_layers"}) {
        count = fields.integer(key, 0, kMaxLayers).value_or(count);
        if (count == 1) continue;
        fields.refuse(key, "drafts of one next-token layer are read, and no others");
    }
    settings["num_hidden_layers"] = 1;
    settings.erase("layer_types");
    return settings;
}

}  // namespace

DraftHeadConfig read_mtp_config(const std::filesystem::path& directory) {
    require_config(directory);
    const MtpLayout& layout = layout_of(directory);
    const std::string file_name = (directory / "config.json").string();
    const nlohmann::json document = parse_json(read_file(file_name, kMaxConfigBytes), file_name);
    DraftHeadConfig config;
    config.layout = {layout.name, DraftMethod::mtp};
    config.method = DraftMethod::mtp;
    config.block = parse_model_config(write_json(layer_settings(document, file_name)), file_name,
                                      known_families());
    if (!config.block.refusal.empty()) {
        throw Error(ErrorKind::bad_data, file_name + ": " + config.block.refusal);
    }
    config.target_hidden_size = config.block.hidden_size;
    config.draft_vocab_size = config.block.vocab_size;
    config.norm_output = true;
    return config;
}

DraftHeadParts load_mtp(const DraftHeadConfig& config, const DraftHeadLoadOptions& options,
                        CheckpointSource& source) {
    const MtpLayout& layout = layout_named(config.layout.name);
    const std::string prefix = layout.prefix;
    const int64_t hidden = config.block.hidden_size;
    const LlamaBlocks blocks(config.block, source, layout.traits);
    DraftHeadParts parts;
    TargetVocabulary vocabulary = load_target_vocabulary(source, config.block);
    parts.token_embedding = std::move(vocabulary.embedding);
    parts.head = std::move(vocabulary.head);
    parts.owns_head = false;
    parts.embedding_norm = blocks.norm(prefix + layout.embedding_norm, hidden);
    parts.hidden_norm = blocks.norm(prefix + layout.hidden_norm, hidden);
    parts.join = load_linear(source, {prefix + layout.join, 2 * hidden, hidden, false});
    parts.hidden_first = layout.hidden_first;
    parts.rotaries = blocks.rotaries(
        {options.max_model_len > 0 ? options.max_model_len : config.block.max_positions});
    std::string block = prefix + layout.block;
    if (block.ends_with('.')) block.pop_back();
    parts.blocks.push_back(blocks.block(block, 0));
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
