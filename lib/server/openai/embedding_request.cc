// Reading the fields of a request of /v1/embeddings.
#include "lib/server/openai/embedding_request.h"

#include <nlohmann/json.hpp>

#include "lib/server/openai/parameters.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

std::optional<Fault> read_pooling(const Json& body, PoolingParams& pooling) {
    const Json kind = body.value("pooling", Json());
    const Json normalize = body.value("normalize", Json());
    const Json dimensions = body.value("dimensions", Json());
    if (!kind.is_null()) {
        const std::string word = kind.is_string() ? kind.get<std::string>() : "";
        bool is_known = false;
        for (const PoolingKind each : {PoolingKind::last, PoolingKind::mean, PoolingKind::cls}) {
            if (word != pooling_kind_name(each)) continue;
            pooling.kind = each;
            is_known = true;
        }
        if (!is_known) return field_fault("pooling", "must be last, mean or cls");
    }
    if (!normalize.is_null()) {
        if (!normalize.is_boolean()) return field_fault("normalize", "must be true or false");
        pooling.normalize = normalize.get<bool>();
    }
    if (!dimensions.is_null()) {
        if (!dimensions.is_number_integer() || dimensions < 1 || dimensions > INT32_MAX) {
            return field_fault("dimensions", "must be an integer of at least 1");
        }
        pooling.dimensions = dimensions.get<int32_t>();
    }
    return std::nullopt;
}

Result<std::optional<int32_t>> read_truncation(const Json& body) {
    const Json most = body.value("truncate_prompt_tokens", Json());
    if (most.is_null()) return std::optional<int32_t>();
    if (most.is_number_integer() && most >= -1 && most <= INT32_MAX) {
        return std::optional(most.get<int32_t>());
    }
    return field_fault("truncate_prompt_tokens", "must be an integer of at least -1");
}

Result<std::optional<std::string>> read_prompt_name(const Json& body) {
    const Json name = body.value("prompt_name", Json());
    if (name.is_null()) return std::optional<std::string>();
    if (name.is_string()) return std::optional(name.get<std::string>());
    return field_fault("prompt_name", "must be a text");
}

Result<bool> wants_base64(const Json& body) {
    const Json format = body.value("encoding_format", Json());
    if (format.is_null() || format == "float") return false;
    if (format == "base64") return true;
    return field_fault("encoding_format", "must be float or base64");
}

}  // namespace

Result<EmbeddingRequest> read_embedding_request(Json body, const PoolingParams& defaults,
                                                const RequestLimits& limits) {
    auto ignored = take_idle_fields(body, CallKind::embedding, limits.is_strict);
    if (!ignored) return ignored.fault();
    EmbeddingRequest request;
    request.ignored = std::move(*ignored);
    request.model = body.value("model", Json()).is_string() ? body["model"].get<std::string>() : "";
    const auto base64 = wants_base64(body);
    if (!base64) return base64.fault();
    request.as_base64 = *base64;
    PoolingParams pooling = defaults;
    if (auto fault = read_pooling(body, pooling)) return *fault;
    const auto truncation = read_truncation(body);
    if (!truncation) return truncation.fault();
    const auto prompt_name = read_prompt_name(body);
    if (!prompt_name) return prompt_name.fault();
    auto texts = split_prompts(body.value("input", Json()), "input", limits);
    if (!texts) return texts.fault();
    for (const Json& text : *texts) {
        RequestInput& input = request.inputs.emplace_back();
        input.pooling = pooling;
        input.truncate_prompt_tokens = *truncation;
        input.prompt_name = *prompt_name;
        std::string as_given;
        if (auto fault = set_prompt(text, "input", input, as_given)) return *fault;
    }
    return request;
}

}  // namespace nvllm::server
