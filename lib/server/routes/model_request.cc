// Bodies, models and admission of requests that compute.
#include "lib/server/routes/model_request.h"

#include "lib/server/routes/bodies.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

std::optional<Json> read_object(RouteContext& context, const TransactionPointer& transaction) {
    auto body = read_body(transaction->request(), context.config);
    if (!body) {
        refuse(transaction, body.fault());
        return std::nullopt;
    }
    if (body->is_object()) return std::move(*body);
    transaction->respond(
        error_response({.message = "the request must be a JSON object", .code = "invalid_json"}));
    return std::nullopt;
}

std::shared_ptr<HostedModel> find_model(RouteContext& context,
                                        const TransactionPointer& transaction, const Json& body) {
    const Json name = body.value("model", Json());
    ApiError error{.message = "'model' must be a string", .param = "model"};
    std::shared_ptr<HostedModel> model;
    const std::string asked = name.is_string() ? name.get<std::string>() : std::string();
    if (name.is_null() || name.is_string()) model = find_ready(context.models, asked, error);
    if (model == nullptr) {
        transaction->respond(error_response(error));
        return nullptr;
    }
    transaction->notes.set_model(model->name());
    for (HttpHeader& header : chosen_model_headers(context.models, asked, *model)) {
        transaction->response_headers.push_back(std::move(header));
    }
    return model;
}

}  // namespace

std::optional<ModelRequest> read_model_request(RouteContext& context,
                                               const TransactionPointer& transaction) {
    auto body = read_object(context, transaction);
    if (!body) return std::nullopt;
    auto model = find_model(context, transaction, *body);
    if (model == nullptr) return std::nullopt;
    std::string adapter = adapter_named(*model, model_name_in(*body));
    return ModelRequest{std::move(*body), std::move(model), std::move(adapter)};
}

std::optional<Admitted> admit(RouteContext& context, const TransactionPointer& transaction,
                              const ModelRequest& asked, const char* prompt_field,
                              const std::vector<RequestInput>& inputs, int64_t num_sequences) {
    ApiError error;
    const auto authorization = transaction->request().authorization();
    auto admitted =
        context.admission.admit({.model = *asked.model,
                                 .adapter = asked.adapter,
                                 .authorization = authorization ? &*authorization : nullptr,
                                 .acting_key = transaction->acting_key,
                                 .prompt_field = prompt_field,
                                 .inputs = inputs,
                                 .num_sequences = num_sequences},
                                error);
    if (!admitted) transaction->respond(error_response(error));
    return admitted;
}

void refuse(const TransactionPointer& transaction, const Fault& fault) {
    transaction->respond(fault_response(fault));
}

void add_ignored_header(const TransactionPointer& transaction,
                        const std::vector<std::string>& ignored) {
    if (ignored.empty()) return;
    transaction->response_headers.push_back(ignored_header(ignored));
}

RequestEndListener removal_from(ActiveRequests& active) {
    return [&active](const ActiveRequest& ended, RequestEnd end) { active.remove(ended, end); };
}

}  // namespace nvllm::server
