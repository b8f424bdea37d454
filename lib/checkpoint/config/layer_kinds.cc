// Words, or letters.
#include "lib/checkpoint/config/layer_kinds.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/checkpoint/config/config_limits.h"
#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

struct KindName {
    std::string_view name;
    LayerKind kind;
};

// The last words are those of older files, and the letters of their patterns.
constexpr std::array<KindName, 10> kNames = {{
    {"linear_attention", LayerKind::state},
    {"full_attention", LayerKind::attention},
    {"mlp", LayerKind::mlp},
    {"moe", LayerKind::experts},
    {"M", LayerKind::state},
    {"*", LayerKind::attention},
    {"-", LayerKind::mlp},
    {"E", LayerKind::experts},
    {"mamba", LayerKind::state},
    {"attention", LayerKind::attention},
}};

LayerKind kind_named(const ConfigFields& fields, const char* key, std::string_view name) {
    for (const KindName& row : kNames) {
        if (row.name == name) return row.kind;
    }
    fields.refuse(key, fmt::format("layers of type {} are not supported",
                                   quoted_for_message(std::string(name))));
}

}  // namespace

void read_layer_kinds(const ConfigFields& fields, ModelConfig& config) {
    const char* key = "layers_block_type";
    auto names = fields.texts(key);
    if (!names) {
        key = "layer_types";
        names = fields.texts(key);
    }
    const std::string pattern = fields.text("hybrid_override_pattern").value_or("");
    if (names) {
        for (const std::string& name : *names) {
            config.layer_kinds.push_back(kind_named(fields, key, name));
        }
    } else if (!pattern.empty()) {
        key = "hybrid_override_pattern";
        for (const char& letter : pattern) {
            config.layer_kinds.push_back(kind_named(fields, key, {&letter, 1}));
        }
    } else {
        config.layer_kinds = {LayerKind::state, LayerKind::experts, LayerKind::attention,
                              LayerKind::mlp};
    }
    config.num_layers = std::ssize(config.layer_kinds);
    if (config.num_layers < 1 || config.num_layers > kMaxLayers) {
        fields.refuse(key, fmt::format("1 to {} layers are expected", kMaxLayers));
    }
    const auto said = fields.integer("num_hidden_layers", 0, kMaxLayers);
    if (!said || *said == config.num_layers) return;
    config.notes.push_back(
        fmt::format("{}: num_hidden_layers is not used: the list of layers has "
                    "{}",
                    fields.file_name(), config.num_layers));
}

}  // namespace nvllm
