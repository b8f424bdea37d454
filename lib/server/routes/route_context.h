// What handlers of routes use. Handlers run on the I/O thread or on the tokenizer threads, as the
// route says.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "lib/base/task_pool.h"
#include "lib/server/access/api_keys.h"
#include "lib/server/access/route.h"
#include "lib/server/batches/batch_service.h"
#include "lib/server/config/server_config.h"
#include "lib/server/http/api_error.h"
#include "lib/server/http/memory_reserve.h"
#include "lib/server/models/model_set.h"
#include "lib/server/requests/active_requests.h"
#include "lib/server/requests/request_admission.h"
#include "lib/server/responses/response_store.h"

namespace nvllm::server {

// Changes of the server as a whole, from any thread.
struct ServerControls {
    std::function<bool()> is_shutting_down;
    std::function<void()> drain;
    std::function<void()> reload_keys;
    // Loads in the background; empty if loading has begun, else why not.
    std::function<std::optional<ApiError>(const std::string& name, const std::string& path)> load;
    std::function<std::optional<ApiError>(const std::string& name)> unload;
};

// All that it refers to outlives it, and it outlives the handlers.
struct RouteContext {
    const ServerConfig& config;
    const std::string& version;
    ModelSet& models;
    KeyRing& keys;
    ActiveRequests& active;
    ResponseStore& responses;
    TaskPool& tokenizer_threads;
    TaskPool& grammar_threads;  // requests whose grammar is to be compiled
    ServerMetrics& metrics;
    const MemoryReserve& reserve;
    RequestAdmission admission;
    BatchService* batches;  // null without --batch-dir
    ServerControls controls;
    std::string openapi;  // the document
    std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
};

// A handler that computes its response at once.
template <HttpResponse (*kRespond)(const RouteContext&, const HttpRequest&)>
void respond_at_once(RouteContext& context, const TransactionPointer& transaction) {
    transaction->respond(kRespond(context, transaction->request()));
}

}  // namespace nvllm::server
