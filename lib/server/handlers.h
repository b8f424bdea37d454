// What each route does. Handlers run on the I/O thread or on the text threads, as the table of
// routes says; they throw nothing: a fault is an answer.
#pragma once

#include <chrono>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/base/task_pool.h"
#include "lib/server/access/access.h"
#include "lib/server/access/routes.h"
#include "lib/server/config/server_config.h"
#include "lib/server/http/http_transaction.h"
#include "lib/server/http/memory_reserve.h"
#include "lib/server/models/model_set.h"
#include "lib/server/openai/parameters.h"
#include "lib/server/requests/active_requests.h"
#include "lib/server/requests/admission_permit.h"

namespace nvllm::server {

// What the server has and handlers use; all of it outlives them.
struct Service {
    const ServerConfig& config;
    const std::string& version;
    ModelSet& models;
    KeyRing& keys;
    ActiveRequests& calls;
    TaskPool& text;
    ServerMetrics& metrics;
    const MemoryReserve& reserve;
    std::shared_ptr<AdmissionControl> requests;  // places of requests, for all models together
    std::function<bool()> is_shutting_down;
    std::function<void()> drain;
    std::function<void()> reload;
    // Loads in the background; empty when it was begun, else why not.
    std::function<std::optional<ApiError>(const std::string& name, const std::string& model)> load;
    std::function<std::optional<ApiError>(const std::string& name)> unload;
    std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

class Handlers {
  public:
    using TransactionPointer = std::shared_ptr<HttpTransaction>;

    explicit Handlers(Service& service);

    void run(const Route& route, const TransactionPointer& transaction);

  private:
    HttpResponse answer(const Route& route, const HttpTransaction& transaction);

    void generate(const TransactionPointer& transaction, bool is_chat);
    Result<GenerationRequest> read_request(nlohmann::ordered_json body, const HostedModel& model,
                                           bool is_chat) const;
    void embed(const TransactionPointer& transaction);

    // What every call that computes goes through. Where one of these gives nothing, the exchange
    // has been answered.
    struct Admitted {
        AdmissionPermit permit;
        std::vector<Request> prepared;
    };
    std::optional<nlohmann::ordered_json> body_of(const TransactionPointer& transaction) const;
    std::shared_ptr<HostedModel> model_of(const TransactionPointer& transaction,
                                          const nlohmann::ordered_json& body) const;
    // `prompt_field`: what the body calls the prompt, for faults of it.
    std::optional<Admitted> admit(const TransactionPointer& transaction, HostedModel& model,
                                  const char* prompt_field, const std::vector<RequestInput>& inputs,
                                  int64_t num_sequences) const;
    RequestEndListener on_end() const;
    // Isolation of cached prompts: what the client says, else its key's name.
    std::string cache_salt(const std::string& given, const std::string& key_name) const;

    HttpResponse document() const;
    HttpResponse page() const;
    HttpResponse readiness() const;
    HttpResponse list_models() const;
    HttpResponse describe_model(const HttpRequest& request) const;
    HttpResponse scrape() const;
    HttpResponse status() const;
    HttpResponse tokenize(const HttpRequest& request) const;
    HttpResponse detokenize(const HttpRequest& request) const;
    // The body with what is known of such a call; `ignored` gets the names of the rest.
    Result<nlohmann::ordered_json> known_fields(const HttpRequest& request, CallKind kind,
                                                std::vector<std::string>& ignored) const;
    HttpResponse tokenizer_info(const HttpRequest& request) const;
    HttpResponse resize_cache(const HttpRequest& request) const;
    HttpResponse dump_state() const;
    HttpResponse timeline(const HttpRequest& request) const;
    HttpResponse change_models(const HttpRequest& request, bool loads) const;

    Service& service_;
    const std::string document_;  // of the interface
};

// The body as JSON, under the server's limits. Faults have the code invalid_json.
Result<nlohmann::ordered_json> read_body(const HttpRequest& request, const ServerConfig& config);

// For answers of the administration, which have no type of their own.
HttpResponse json_response(const nlohmann::ordered_json& body);

// Says which fields of a body were taken and do nothing.
HttpHeader ignored_header(const std::vector<std::string>& names);

// Which model answers, as a header, for a request that named none of several.
std::vector<HttpHeader> chosen_model(const ModelSet& models, const std::string& name,
                                     const HostedModel& model);

// A model that can answer now; `error` says why there is none.
std::shared_ptr<HostedModel> find_ready(const ModelSet& models, const std::string& name,
                                        ApiError& error);

}  // namespace nvllm::server
