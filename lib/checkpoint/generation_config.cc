// Sampling defaults that a model's authors publish beside it.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <system_error>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/model_config.h"

namespace nvllm {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 20;

std::optional<int32_t> small_integer(const ConfigFields& fields, const char* key) {
    const auto value = fields.integer(key, 0, INT32_MAX);
    return value ? std::optional<int32_t>(static_cast<int32_t>(*value)) : std::nullopt;
}

std::optional<float> fraction(const ConfigFields& fields, const char* key, double high) {
    const auto value = fields.number(key, 0.0, high);
    return value ? std::optional<float>(static_cast<float>(*value)) : std::nullopt;
}

std::vector<int32_t> token_ids(const ConfigFields& fields, const char* key) {
    std::vector<int32_t> ids;
    for (const int64_t id : fields.integers(key)) {
        if (id > INT32_MAX) fields.refuse(key, "a token id is at most 2147483647");
        // Some files write -1 for "none".
        if (id >= 0) ids.push_back(static_cast<int32_t>(id));
    }
    return ids;
}

}  // namespace

GenerationConfig read_generation_config(const std::filesystem::path& directory) {
    const std::filesystem::path path = directory / "generation_config.json";
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return {};
    const nlohmann::json document = parse_json(read_file(path, kMaxFileBytes), path.string());
    const ConfigFields fields(document, path.string());
    GenerationConfig config;
    config.eos_token_ids = token_ids(fields, "eos_token_id");
    const std::vector<int32_t> bos = token_ids(fields, "bos_token_id");
    if (!bos.empty()) config.bos_token_id = bos.front();
    config.do_sample = fields.boolean("do_sample");
    config.temperature = fraction(fields, "temperature", 1e6);
    config.top_k = small_integer(fields, "top_k");
    config.top_p = fraction(fields, "top_p", 1.0);
    config.min_p = fraction(fields, "min_p", 1.0);
    config.repetition_penalty = fraction(fields, "repetition_penalty", 1e6);
    config.max_new_tokens = small_integer(fields, "max_new_tokens");
    return config;
}

}  // namespace nvllm
