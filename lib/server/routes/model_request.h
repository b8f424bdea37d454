// The steps that every route with a computing model shares: body, model, admission.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/server/routes/route_context.h"

namespace nvllm::server {

struct ModelRequest {
    nlohmann::ordered_json body;  // an object
    std::shared_ptr<HostedModel> model;
    std::string adapter;  // of the model; empty: none
};

// Where one of these returns nothing, it has responded.
std::optional<ModelRequest> read_model_request(RouteContext& context,
                                               const TransactionPointer& transaction);
// `prompt_field`: the name of the prompt in the body, for its faults.
std::optional<Admitted> admit(RouteContext& context, const TransactionPointer& transaction,
                              const ModelRequest& asked, const char* prompt_field,
                              const std::vector<RequestInput>& inputs, int64_t num_sequences);

void refuse(const TransactionPointer& transaction, const Fault& fault);
void add_ignored_header(const TransactionPointer& transaction,
                        const std::vector<std::string>& ignored);
// Removes a request from `active`, which outlives it, at its end.
RequestEndListener removal_from(ActiveRequests& active);

}  // namespace nvllm::server
