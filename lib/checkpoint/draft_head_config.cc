// Layouts told apart by keys of config.json and names of tensors.
#include "lib/checkpoint/draft_head_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/checkpoint/config/config_limits.h"
#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/foreign_models.h"
#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxAuxLayers = 64;
constexpr int64_t kMaxLayerId = 1024;
// Low, middle, high.
constexpr int64_t kUsualAuxLayers = 3;

// A head's config.json and the names of its tensors.
struct HeadFiles {
    Json document;
    std::vector<std::string> tensors;

    std::string text(const char* key) const {
        const auto value = document.find(key);
        return value != document.end() && value->is_string() ? value->get<std::string>() : "";
    }
    std::string architecture() const {
        const auto names = document.find("architectures");
        const bool is_list = names != document.end() && names->is_array() && !names->empty();
        return is_list && names->front().is_string() ? names->front().get<std::string>() : "";
    }
    bool has(std::string_view tensor) const {
        return std::ranges::find(tensors, tensor) != tensors.end();
    }
    bool has_begin(std::string_view begin) const {
        return std::ranges::any_of(
            tensors, [&](const std::string& name) { return name.starts_with(begin); });
    }
};

struct LayoutRow {
    const char* name;
    std::optional<DraftMethod> method;
    bool is_speculators;
    bool (*is)(const HeadFiles& files);
};

// The first that is so.
constexpr auto kLayouts = std::to_array<LayoutRow>({
    {"DFlash", std::nullopt, false,
     [](const HeadFiles& files) {
         return files.document.contains("dflash_config") ||
                files.text("speculators_model_type") == "dflash";
     }},
    {"P-EAGLE (parallel drafting)", std::nullopt, false,
     [](const HeadFiles& files) {
         return files.has("mask_hidden") || files.text("speculators_model_type") == "peagle";
     }},
    {"EAGLE-3 in the speculators format", DraftMethod::eagle3, true,
     [](const HeadFiles& files) { return files.text("speculators_model_type") == "eagle3"; }},
    {"the speculators format of another method than EAGLE-3", std::nullopt, true,
     [](const HeadFiles& files) { return files.document.contains("speculators_model_type"); }},
    {"Medusa", std::nullopt, false,
     [](const HeadFiles& files) {
         return files.text("model_type") == "medusa" || files.document.contains("medusa_num_heads");
     }},
    {"MLP speculator", std::nullopt, false,
     [](const HeadFiles& files) { return files.text("model_type") == "mlp_speculator"; }},
    {"EAGLE-3", DraftMethod::eagle3, false,
     [](const HeadFiles& files) {
         return files.architecture().find("Eagle3") != std::string::npos ||
                files.has_begin("midlayer.");
     }},
    {"EAGLE", DraftMethod::eagle, false,
     [](const HeadFiles& files) {
         return files.architecture().starts_with("Eagle") ||
                (files.has("fc.weight") && files.has("layers.0.self_attn.q_proj.weight"));
     }},
});

std::optional<DraftLayout> layout_of(const HeadFiles& files) {
    for (const LayoutRow& row : kLayouts) {
        if (row.is(files)) return DraftLayout{row.name, row.method, row.is_speculators};
    }
    return std::nullopt;
}

HeadFiles read_files(const std::filesystem::path& directory) {
    const std::filesystem::path path = directory / "config.json";
    HeadFiles files{parse_json(read_file(path, kMaxConfigBytes), path.string()), {}};
    if (!files.document.is_object()) {
        throw Error(ErrorKind::bad_data, path.string() + ": is not a JSON object");
    }
    // Heads are small and lie in one file; the shards of a model are not opened for this.
    if (std::filesystem::exists(directory / "model.safetensors")) {
        const Checkpoint checkpoint = Checkpoint::open(directory);
        for (const std::string_view name : checkpoint.names()) files.tensors.emplace_back(name);
    }
    return files;
}

// Keys of the head and not of its layers, which a reader of layers would call unused.
constexpr auto kHeadKeys = std::to_array<const char*>({
    "architectures",
    "bias",
    "draft_vocab_size",
    "truncated_vocab_size",
    "target_hidden_size",
    "norm_before_residual",
    "norm_before_fc",
    "norm_output",
    "fc_norm",
    "num_aux_hidden_states",
    "eagle_aux_hidden_state_layer_ids",
    "aux_hidden_states_layer_ids",
    "eagle_config",
});

// The class whose blocks a head of this architecture has: EagleLlamaForCausalLM and
// LlamaForCausalLMEagle3 have Llama's. Empty: what model_type says.
std::string block_architecture(const std::string& head) {
    std::string name = head.starts_with("Eagle3")  ? head.substr(6)
                       : head.starts_with("Eagle") ? head.substr(5)
                                                   : head;
    if (name.ends_with("Eagle3")) name.resize(name.size() - 6);
    return name.ends_with("ForCausalLM") ? name : "";
}

ModelConfig read_block(const HeadFiles& files, const DraftLayout& layout,
                       const std::string& file_name, FamilyTable families) {
    Json block = files.document;
    if (layout.is_speculators) {
        const auto layers = files.document.find("transformer_layer_config");
        if (layers == files.document.end() || !layers->is_object()) {
            throw Error(ErrorKind::bad_data,
                        fmt::format("{}: \"transformer_layer_config\" is not there; {} describes "
                                    "the layers in it",
                                    file_name, layout.name));
        }
        block = *layers;
        for (const char* key : {"torch_dtype", "dtype"}) {
            if (files.document.contains(key)) block[key] = files.document[key];
        }
    }
    for (const char* key : kHeadKeys) block.erase(key);
    const std::string architecture = block_architecture(files.architecture());
    if (!architecture.empty()) block["architectures"] = {architecture};
    ModelConfig config = parse_model_config(write_json(block), file_name, families);
    if (!config.refusal.empty())
        throw Error(ErrorKind::bad_data, file_name + ": " + config.refusal);
    constexpr auto kBlocks =
        std::to_array<std::string_view>({"LlamaForCausalLM", "Qwen2ForCausalLM"});
    if (std::ranges::find(kBlocks, config.text_architecture) == kBlocks.end() ||
        config.num_experts > 0) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: a draft head with blocks of {} is not read; those of {} are",
                                file_name, quoted_for_message(config.text_architecture),
                                fmt::join(kBlocks, " and ")));
    }
    return config;
}

// Of a key at the top, else in eagle_config.
template <typename Read>
auto first_found(const ConfigFields& top, const Read& read) -> decltype(read(top)) {
    if (auto value = read(top)) return value;
    const auto inner = top.object("eagle_config");
    return inner ? read(*inner) : decltype(read(top))();
}

std::vector<int64_t> read_layer_ids(const ConfigFields& top) {
    constexpr const char* kKey = "eagle_aux_hidden_state_layer_ids";
    std::vector<int64_t> ids = top.integers(kKey);
    const auto inner = top.object("eagle_config");
    if (ids.empty() && inner) ids = inner->integers(kKey);
    for (const int64_t id : ids) {
        if (id >= 0 && id <= kMaxLayerId) continue;
        top.refuse(kKey, fmt::format("layers from 0 to {} are expected", kMaxLayerId));
    }
    return ids;
}

void read_fusion(const ConfigFields& top, DraftHeadConfig& config) {
    config.aux_layer_ids = read_layer_ids(top);
    const auto uses = first_found(
        top, [](const ConfigFields& fields) { return fields.boolean("use_aux_hidden_state"); });
    if (!uses.value_or(true)) {
        config.aux_layer_ids.clear();
        return;
    }
    const auto count = static_cast<int64_t>(config.aux_layer_ids.size());
    config.num_aux_hidden_states =
        first_found(top, [](const ConfigFields& fields) {
            return fields.integer("num_aux_hidden_states", 1, kMaxAuxLayers);
        }).value_or(count > 0 ? count : kUsualAuxLayers);
    if (count > 0 && count != config.num_aux_hidden_states) {
        top.refuse("num_aux_hidden_states", fmt::format("{} layers are named", count));
    }
    if (count == 0 && config.num_aux_hidden_states != kUsualAuxLayers) {
        top.refuse("num_aux_hidden_states",
                   fmt::format("eagle_aux_hidden_state_layer_ids must name the layers unless there "
                               "are {}",
                               kUsualAuxLayers));
    }
}

// The name of the target in speculators_config.verifier.
std::string named_target(const ConfigFields& top) {
    const auto speculators = top.object("speculators_config");
    const auto verifier = speculators ? speculators->object("verifier") : std::nullopt;
    return verifier ? verifier->text("name_or_path").value_or("") : "";
}

}  // namespace

const char* draft_method_name(DraftMethod method) {
    switch (method) {
        case DraftMethod::eagle:
            return "eagle";
        case DraftMethod::eagle3:
            return "eagle3";
        case DraftMethod::mtp:
            return "mtp";
    }
    return "";
}

std::optional<DraftLayout> find_draft_layout(const std::filesystem::path& directory) {
    try {
        return layout_of(read_files(directory));
    } catch (const Error&) {
        return std::nullopt;
    }
}

std::string why_no_model_but_draft_head(const std::filesystem::path& directory) {
    const auto layout = find_draft_layout(directory);
    if (!layout) return {};
    return fmt::format(
        "{}: holds a draft head ({}), which proposes tokens to a target model and is no model to "
        "run by itself; give the target's folder{}",
        directory.string(), layout->name,
        layout->method ? "" : " (draft heads of this layout are not read)");
}

DraftHeadConfig read_draft_head_config(const std::filesystem::path& directory,
                                       FamilyTable families) {
    require_config(directory);
    const std::string file_name = (directory / "config.json").string();
    const HeadFiles files = read_files(directory);
    const auto layout = layout_of(files);
    if (!layout) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: holds no draft head in a known layout", directory.string()));
    }
    if (!layout->method) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: the layout of its draft head, {}, is not read; EAGLE and "
                                "EAGLE-3 are",
                                directory.string(), layout->name));
    }
    const ConfigFields top(files.document, file_name);
    DraftHeadConfig config;
    config.layout = *layout;
    config.method = *layout->method;
    config.block = read_block(files, *layout, file_name, families);
    config.has_own_embedding = files.has("embed_tokens.weight");
    config.fc_bias = top.boolean("bias").value_or(false) || files.has("fc.bias");
    config.target = named_target(top);
    config.target_hidden_size =
        top.integer("target_hidden_size", 1, kMaxHidden).value_or(config.block.hidden_size);
    config.draft_vocab_size = config.block.vocab_size;
    if (config.method == DraftMethod::eagle) return config;
    for (const char* key : {"truncated_vocab_size", "draft_vocab_size"}) {
        config.draft_vocab_size =
            top.integer(key, 1, config.block.vocab_size).value_or(config.draft_vocab_size);
    }
    config.norm_before_residual =
        top.boolean("norm_before_residual").value_or(layout->is_speculators);
    config.norm_before_fc = top.boolean("norm_before_fc").value_or(false);
    config.fc_norm = top.boolean("fc_norm").value_or(false);
    config.norm_output = top.boolean("norm_output").value_or(false);
    read_fusion(top, config);
    return config;
}

std::vector<int64_t> aux_layers(const DraftHeadConfig& config, int64_t num_layers,
                                AuxLayerNumbering numbering) {
    if (!config.fuses()) return {};
    std::vector<int64_t> layers = config.aux_layer_ids;
    if (layers.empty()) {
        layers = {2, num_layers / 2, num_layers - 3};
    } else if (numbering == AuxLayerNumbering::behind_layer) {
        for (int64_t& layer : layers) ++layer;
    }
    for (const int64_t layer : layers) {
        if (layer >= 0 && layer <= num_layers) continue;
        throw Error(ErrorKind::bad_data,
                    fmt::format("the draft head takes a state after {} layers of its target, "
                                "which has {}",
                                layer, num_layers));
    }
    return layers;
}

}  // namespace nvllm
