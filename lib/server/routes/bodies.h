// Parts of requests and responses that several routes share: JSON bodies, the model's name,
// headers.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lib/server/http/typed_response.h"
#include "lib/server/models/ready_model.h"
#include "lib/server/routes/route_context.h"

namespace nvllm::server {

// The body as JSON, under the server's limits. Faults have the code invalid_json.
Result<nlohmann::ordered_json> read_body(const HttpRequest& request, const ServerConfig& config);

struct KnownBody {
    nlohmann::ordered_json json;       // without the fields that do nothing
    std::vector<std::string> ignored;  // their names
};
Result<KnownBody> read_known_body(const HttpRequest& request, CallKind kind,
                                  const ServerConfig& config);

// The name in the body's field "model"; empty if there is none.
std::string model_name_in(const nlohmann::ordered_json& body);
// The name of "?model=NAME", percent-decoded; empty if there is none.
std::string model_name_in_query(const HttpRequest& request);

// A ready model that has a tokenizer; null with `error` set if there is none.
std::shared_ptr<HostedModel> find_ready_with_tokenizer(const ModelSet& models,
                                                       const std::string& name, ApiError& error);

// Names the fields of a body that were taken and do nothing.
HttpHeader ignored_header(const std::vector<std::string>& names);

// Names the model that serves a request that named none of several; else empty.
std::vector<HttpHeader> chosen_model_headers(const ModelSet& models, const std::string& name,
                                             const HostedModel& model);

// Whose files, batches and kept responses a client sees: the name of its key; empty without keys.
std::string owner_of(const RouteContext& context, const HttpRequest& request);
// The same, also of a line of a batch.
std::string owner_of(const RouteContext& context, const HttpTransaction& transaction);

// A response without a type of its own: the administration's.
HttpResponse json_response(const nlohmann::ordered_json& body);
HttpResponse fault_response(const Fault& fault);

}  // namespace nvllm::server
