// Reading bodies and queries, writing headers.
#include "lib/server/routes/bodies.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/json.h"
#include "lib/server/openai/parameters.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

// Finding a key of an object compares it with those before it.
constexpr size_t kMaxKeys = 2048;
// A small text can be a large document.
constexpr size_t kMaxParts = 256 * 1024;

constexpr size_t kMaxNames = 32;
constexpr size_t kMaxNameLength = 64;

// A name as a header can carry it, whatever the client wrote.
std::string plain_name(const std::string& name) {
    std::string plain = name.substr(0, kMaxNameLength);
    for (char& letter : plain) {
        if (letter <= ' ' || letter > '~' || letter == ',') letter = '?';
    }
    return plain;
}

}  // namespace

Result<Json> read_body(const HttpRequest& request, const ServerConfig& config) {
    JsonLimits limits;
    limits.max_depth = static_cast<size_t>(config.requests.max_json_depth);
    limits.max_bytes = config.connections.http.max_body_bytes;
    limits.max_keys = kMaxKeys;
    limits.max_parts = kMaxParts;
    try {
        return parse_ordered_json(request.body, "request body", limits);
    } catch (const Error& error) {
        return Fault{ErrorKind::bad_data, error.what(), "", "invalid_json"};
    }
}

Result<KnownBody> read_known_body(const HttpRequest& request, CallKind kind,
                                  const ServerConfig& config) {
    auto body = read_body(request, config);
    if (!body) return body.fault();
    KnownBody known{std::move(*body), {}};
    if (!known.json.is_object()) return known;
    auto ignored = take_idle_fields(known.json, kind, config.requests.is_strict);
    if (!ignored) return ignored.fault();
    known.ignored = std::move(*ignored);
    return known;
}

std::string model_name_in(const Json& body) {
    const Json name = body.is_object() ? body.value("model", Json()) : Json();
    return name.is_string() ? name.get<std::string>() : std::string();
}

std::string model_name_in_query(const HttpRequest& request) {
    constexpr std::string_view kModel = "model=";
    if (!request.query.starts_with(kModel)) return {};
    return percent_decoded(request.query.substr(kModel.size()));
}

std::shared_ptr<HostedModel> find_ready_with_tokenizer(const ModelSet& models,
                                                       const std::string& name, ApiError& error) {
    auto model = find_ready(models, name, error);
    if (model == nullptr || model->engine()->tokenizer() != nullptr) return model;
    error = {.message = "this model has no tokenizer", .code = "no_tokenizer"};
    return nullptr;
}

HttpHeader ignored_header(const std::vector<std::string>& names) {
    std::vector<std::string> plain;
    for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
        plain.push_back(plain_name(names[i]));
    }
    if (names.size() > kMaxNames) plain.emplace_back("...");
    return {"x-nvllm-ignored", fmt::format("{}", fmt::join(plain, ", "))};
}

std::vector<HttpHeader> chosen_model_headers(const ModelSet& models, const std::string& name,
                                             const HostedModel& model) {
    if (!name.empty() || models.all().size() < 2) return {};
    return {{"x-nvllm-model", plain_name(model.name())}};
}

std::string owner_of(const RouteContext& context, const HttpRequest& request) {
    const auto authorization = request.authorization();
    const auto key = authorization ? context.keys.find(*authorization) : std::nullopt;
    return key ? key->name : "";
}

std::string owner_of(const RouteContext& context, const HttpTransaction& transaction) {
    if (transaction.acting_key) return *transaction.acting_key;
    return owner_of(context, transaction.request());
}

HttpResponse json_response(const Json& body) {
    HttpResponse response;
    response.body = write_json(body);
    return response;
}

HttpResponse fault_response(const Fault& fault) { return error_response(api_error(fault)); }

}  // namespace nvllm::server
