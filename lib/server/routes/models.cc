// GET /v1/models and /v1/models/NAME: the models that are served.
#include "lib/server/http/typed_response.h"
#include "lib/server/models/ready_model.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/routes/route_context.h"
#include "lib/server/routes/routes.h"

namespace nvllm::server {
namespace {

responses::Model describe(const HostedModel& model, const std::string& name) {
    responses::Model response;
    response.id = name;
    response.created = model.created();
    response.root = model.config().model.name;
    if (model.state() == ModelState::ready) {
        response.max_model_len = model.engine()->memory_plan().max_model_len;
    }
    return response;
}

// Its parent is the model under its own name.
responses::Model describe(const HostedModel& model, const AdapterInfo& adapter) {
    responses::Model response = describe(model, adapter.ref.name);
    response.root = adapter.ref.folder;
    response.parent = model.name();
    return response;
}

// The models that serve now, each before its adapters; while there is none yet, clients are told to
// retry.
HttpResponse models_response(const RouteContext& context, const HttpRequest&) {
    responses::ModelList list;
    ApiError error;
    for (const auto& model : context.models.all()) {
        if (find_ready(context.models, model->name(), error) == nullptr) continue;
        for (const std::string& name : model->names()) list.data.push_back(describe(*model, name));
        for (const AdapterInfo& adapter : model->engine()->adapters().list()) {
            list.data.push_back(describe(*model, adapter));
        }
    }
    if (list.data.empty() && error.status == 503) return error_response(error);
    return typed_response(list);
}

HttpResponse model_response(const RouteContext& context, const HttpRequest& request) {
    const std::string name =
        percent_decoded(request.path.substr(std::string_view("/v1/models/").size()));
    if (const auto model = context.models.find(name)) {
        const std::string asked = adapter_named(*model, name);
        if (asked.empty()) return typed_response(describe(*model, name));
        for (const AdapterInfo& adapter : model->engine()->adapters().list()) {
            if (adapter.ref.name == asked) return typed_response(describe(*model, adapter));
        }
    }
    ApiError error;
    find_ready(context.models, name, error);
    return error_response(error);
}

}  // namespace

constinit const Route routes::models = {.method = "GET",
                                        .path = "/v1/models",
                                        .access = RouteAccess::user,
                                        .summary = "The models that are served.",
                                        .schema = {.response = json_content<responses::ModelList>},
                                        .handle = respond_at_once<models_response>};

constinit const Route routes::model = {.method = "GET",
                                       .path = "/v1/models/*",
                                       .access = RouteAccess::user,
                                       .summary = "One of them.",
                                       .schema = {.response = json_content<responses::Model>},
                                       .handle = respond_at_once<model_response>};

}  // namespace nvllm::server
