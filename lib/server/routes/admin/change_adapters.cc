// POST /v1/load_lora_adapter and /v1/unload_lora_adapter, in vLLM's form: which adapters requests
// may name.
#include <fmt/format.h>

#include "lib/base/log.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/bodies.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

struct AdapterRequest {
    std::string name;
    std::string path;        // of one to load
    bool replaces = false;   // load_inplace
    std::string model;       // which one of several it is for; empty: base_model, or the first
    std::string base_model;  // heeded where a model here has that name: clients also give others
};

Result<AdapterRequest> read_adapter_request(const HttpRequest& request,
                                            const ServerConfig& config) {
    auto body = read_body(request, config);
    if (!body) return body.fault();
    if (!body->is_object()) return Fault{ErrorKind::bad_data, "the request must be a JSON object"};
    AdapterRequest asked;
    for (const auto& [key, value] : body->items()) {
        std::string* const text = key == "lora_name"         ? &asked.name
                                  : key == "lora_path"       ? &asked.path
                                  : key == "model"           ? &asked.model
                                  : key == "base_model_name" ? &asked.base_model
                                                             : nullptr;
        if (value.is_null()) continue;
        if (text != nullptr && value.is_string()) {
            *text = value.get<std::string>();
        } else if (text != nullptr) {
            return Fault{ErrorKind::bad_data, fmt::format("'{}' must be a text", key), key};
        } else if (key == "load_inplace" && value.is_boolean()) {
            asked.replaces = value.get<bool>();
        } else if (key != "lora_int_id") {
            return Fault{ErrorKind::bad_data,
                         fmt::format("'{}' is not known here, or of another type; lora_name, "
                                     "lora_path and load_inplace are",
                                     key),
                         key};
        }
    }
    if (asked.name.empty()) {
        return Fault{ErrorKind::bad_data, "'lora_name' must be a text", "lora_name"};
    }
    return asked;
}

HttpResponse plain_response(std::string text) {
    HttpResponse response;
    response.content_type = "text/plain; charset=utf-8";
    response.body = std::move(text);
    return response;
}

HttpResponse load_response(const RouteContext& context, const HttpRequest& request) {
    const auto asked = read_adapter_request(request, context.config);
    if (!asked) return fault_response(asked.fault());
    if (asked->path.empty()) {
        return error_response({.message = "'lora_path' must be a text", .param = "lora_path"});
    }
    ApiError error;
    const bool knows_base = asked->model.empty() && context.models.find(asked->base_model);
    const auto model =
        find_ready(context.models, knows_base ? asked->base_model : asked->model, error);
    if (model == nullptr) return error_response(error);
    const auto other = context.models.find(asked->name);
    if (other != nullptr && adapter_named(*other, asked->name).empty()) {
        return error_response({.message = fmt::format("'{}' is the name of a model", asked->name),
                               .param = "lora_name"});
    }
    const auto loaded = model->engine()->adapters().load(asked->name, asked->path, asked->replaces);
    if (!loaded) return fault_response(loaded.fault());
    log_info(fmt::format("{}: adapter {} of rank {} from {}", model->name(), asked->name,
                         loaded->rank, loaded->ref.folder));
    if (!loaded->note.empty()) log_warning(loaded->note);
    return plain_response(
        fmt::format("Success: LoRA adapter '{}' added successfully.", asked->name));
}

HttpResponse unload_response(const RouteContext& context, const HttpRequest& request) {
    const auto asked = read_adapter_request(request, context.config);
    if (!asked) return fault_response(asked.fault());
    ApiError error;
    const auto model =
        find_ready(context.models, asked->model.empty() ? asked->name : asked->model, error);
    if (model == nullptr) return error_response(error);
    const auto unloaded = model->engine()->adapters().unload(asked->name);
    if (!unloaded) return fault_response(unloaded.fault());
    log_info(fmt::format("{}: adapter {} is unloaded", model->name(), asked->name));
    return plain_response(
        fmt::format("Success: LoRA adapter '{}' removed successfully.", asked->name));
}

}  // namespace

constinit const Route routes::load_adapter = {.method = "POST",
                                              .path = "/v1/load_lora_adapter",
                                              .access = RouteAccess::adapters,
                                              .summary = "Requests may name another adapter.",
                                              .is_off_loop = true,
                                              .has_json_body = true,
                                              .schema = {.response = any_json_content},
                                              .handle = respond_at_once<load_response>};

constinit const Route routes::unload_adapter = {
    .method = "POST",
    .path = "/v1/unload_lora_adapter",
    .access = RouteAccess::adapters,
    .summary = "Requests may no longer name an adapter; those under way go on with it.",
    .is_off_loop = true,
    .has_json_body = true,
    .schema = {.response = any_json_content},
    .handle = respond_at_once<unload_response>};

}  // namespace nvllm::server
