// POST /admin/models/load and /admin/models/unload: which models are served.
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/bodies.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

struct ModelChange {
    std::string name;
    std::string path;  // of a model to load
};

Result<ModelChange> read_change(const HttpRequest& request, const ServerConfig& config) {
    using Json = nlohmann::ordered_json;
    auto body = read_body(request, config);
    if (!body) return body.fault();
    const auto text_of = [&](const char* field) {
        const Json value = body->is_object() ? body->value(field, Json()) : Json();
        return value.is_string() ? value.get<std::string>() : std::string();
    };
    return ModelChange{text_of("name"), text_of("path")};
}

HttpResponse load_model_response(const RouteContext& context, const HttpRequest& request) {
    const auto change = read_change(request, context.config);
    if (!change) return fault_response(change.fault());
    if (change->name.empty() || change->path.empty()) {
        return error_response({.message = "'name' and 'path' must be texts",
                               .param = change->name.empty() ? "name" : "path"});
    }
    if (const auto error = context.controls.load(change->name, change->path)) {
        return error_response(*error);
    }
    return json_response({{"status", "loading"}, {"name", change->name}});
}

HttpResponse unload_model_response(const RouteContext& context, const HttpRequest& request) {
    const auto change = read_change(request, context.config);
    if (!change) return fault_response(change.fault());
    if (change->name.empty()) {
        return error_response({.message = "'name' must be a text", .param = "name"});
    }
    if (const auto error = context.controls.unload(change->name)) return error_response(*error);
    return json_response({{"status", "unloading"}, {"name", change->name}});
}

}  // namespace

constinit const Route routes::load_model = {.method = "POST",
                                            .path = "/admin/models/load",
                                            .access = RouteAccess::admin,
                                            .summary = "Serves another model.",
                                            .is_off_loop = true,
                                            .has_json_body = true,
                                            .schema = {.response = any_json_content},
                                            .handle = respond_at_once<load_model_response>};

constinit const Route routes::unload_model = {
    .method = "POST",
    .path = "/admin/models/unload",
    .access = RouteAccess::admin,
    .summary = "Stops serving a model when its requests have ended.",
    .is_off_loop = true,
    .has_json_body = true,
    .schema = {.response = any_json_content},
    .handle = respond_at_once<unload_model_response>};

}  // namespace nvllm::server
