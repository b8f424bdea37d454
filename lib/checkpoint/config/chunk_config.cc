// Layers by their types, else by their rotation.
#include "lib/checkpoint/config/chunk_config.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "lib/checkpoint/config/config_limits.h"
#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

constexpr int64_t kDefaultChunk = 8192;
constexpr int64_t kDefaultFloor = 8192;
constexpr double kDefaultGrowth = 0.1;

std::vector<bool> chunks_by_type(const ConfigFields& fields, const ModelConfig& config) {
    std::vector<bool> chunked;
    for (const std::string& type :
         fields.texts("layer_types").value_or(std::vector<std::string>{})) {
        if (type != "chunked_attention" && type != "full_attention") {
            fields.refuse("layer_types", fmt::format("layers of type {} are not supported",
                                                     quoted_for_message(type)));
        }
        chunked.push_back(type == "chunked_attention");
    }
    if (!chunked.empty() && std::ssize(chunked) != config.num_layers) {
        fields.refuse("layer_types", fmt::format("{} layers are expected", config.num_layers));
    }
    return chunked;
}

// Older files say a number.
bool grows(const ConfigFields& fields) {
    constexpr const char* kKey = "attn_temperature_tuning";
    const nlohmann::json* said = fields.find(kKey);
    if (said != nullptr && said->is_number()) return *said != 0;
    return fields.boolean(kKey).value_or(true);
}

}  // namespace

void read_chunks(const ConfigFields& fields, ModelConfig& config) {
    // null says that there are none.
    const bool is_said = fields.json().contains("attention_chunk_size");
    config.attention_chunk = fields.integer("attention_chunk_size", 1, kMaxPositions)
                                 .value_or(is_said ? 0 : kDefaultChunk);
    config.chunked_layers = chunks_by_type(fields, config);
    if (config.chunked_layers.empty()) {
        config.chunked_layers = config.rotated_layers;
    } else if (config.attention_chunk == 0) {
        for (const bool is_chunked : config.chunked_layers) {
            if (!is_chunked) continue;
            fields.refuse("attention_chunk_size", "layers of chunked attention need it");
        }
    }
    const double growth = fields.number("attn_scale", -1e6, 1e6).value_or(kDefaultGrowth);
    config.plain_query_positions =
        fields.integer("floor_scale", 1, kMaxPositions).value_or(kDefaultFloor);
    config.plain_query_beta = grows(fields) ? growth : 0.0;
}

}  // namespace nvllm
