// What the server is doing, for people and for whoever runs it.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/cli/options.h"
#include "lib/engine/inspection.h"
#include "lib/server/handlers.h"
#include "lib/server/openai/status_response.h"
#include "lib/server/openai/typed_response.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

responses::EngineStatus engine_status(const Engine& engine) {
    const EngineStats stats = engine.stats();
    const EngineHealth health = engine.health();
    const SchedulerStats& scheduler = stats.scheduler;
    const BlockCounts& blocks = stats.cache.blocks;
    responses::EngineStatus status;
    status.requests = responses::SequenceCounts{
        .running = scheduler.num_running,
        .waiting = scheduler.num_waiting - scheduler.num_paused - scheduler.num_swapped,
        .paused = scheduler.num_paused,
        .swapped = scheduler.num_swapped};
    responses::CacheStatus& cache = status.kv_cache.emplace();
    cache.blocks_total = blocks.total;
    cache.blocks_used = blocks.used;
    cache.blocks_cached = blocks.cached;
    cache.blocks_free = blocks.free;
    cache.bytes_total = engine.memory_plan().bytes_of_blocks(blocks.total);
    cache.block_size = engine.memory_plan().block_size;
    if (const auto queried = static_cast<double>(stats.cache.queried_tokens); queried > 0) {
        cache.hit_rate = static_cast<double>(stats.cache.hit_tokens) / queried;
    }
    cache.fragmentation = stats.fragmentation;
    cache.preemptions = scheduler.preemptions;
    status.worker = responses::WorkerStatus{.restarts = stats.faults.worker_restarts,
                                            .weight_reloads = stats.faults.weight_reloads,
                                            .out_of_memory = stats.faults.out_of_memory,
                                            .pid = health.worker_pid};
    status.health = responses::HealthStatus{.state = std::string(engine_state_name(health.state)),
                                            .heartbeat_age_s = stats.seconds_since_heartbeat,
                                            .last_fault = {}};
    if (!health.last_fault.empty()) status.health->last_fault = health.last_fault;
    return status;
}

// The longest under way first, as many as a page shows.
constexpr size_t kMaxShownRequests = 100;

std::vector<responses::RequestStatus> queue_of(const ActiveRequests& calls) {
    std::vector<RequestStats> active;
    for (const auto& call : calls.all()) active.push_back(call->stats());
    std::ranges::sort(active, std::ranges::greater{}, &RequestStats::age_s);
    if (active.size() > kMaxShownRequests) active.resize(kMaxShownRequests);
    std::vector<responses::RequestStatus> queue;
    for (const RequestStats& call : active) {
        responses::RequestStatus& one = queue.emplace_back();
        one.id = call.id;
        one.state = call.is_scheduled ? "running" : "waiting";
        one.age_s = call.age_s;
        one.prompt_tokens = call.prompt_tokens;
        one.generated_tokens = call.generated_tokens;
        if (!call.is_scheduled) one.why_waiting = "for a slot or for blocks";
    }
    return queue;
}

responses::TokenCounts token_counts(const ActiveRequests& calls, const ModelSet& models) {
    responses::TokenCounts tokens{.prompt_total = calls.counts().prompt_tokens,
                                  .generated_total = calls.counts().generated_tokens};
    for (const auto& call : calls.all()) {
        const Usage usage = call->usage();
        tokens.prompt_total += usage.prompt_tokens;
        tokens.generated_total += usage.completion_tokens;
    }
    for (const auto& model : models.all()) {
        if (model->state() != ModelState::ready) continue;
        tokens.scheduled_total += model->engine()->stats().scheduler.scheduled_tokens;
    }
    return tokens;
}

Keyed<std::optional<std::string>> limits_of(const ServerConfig& config) {
    Keyed<std::optional<std::string>> limits;
    ServerConfig values = config;
    OptionSet options;
    options.add(server_options(), values);
    for (const BoundOption& option : options.all()) {
        if (option.field().group != "Limits") continue;
        const auto texts = option.texts();
        limits.emplace_back(option.field().name,
                            texts.empty() ? std::nullopt : std::optional(texts.front()));
    }
    return limits;
}

}  // namespace

HttpResponse json_response(const Json& body) {
    HttpResponse response;
    response.body = write_json(body);
    return response;
}

HttpResponse Handlers::status() const {
    responses::Status status;
    status.version = service_.version;
    status.state = service_.is_shutting_down() ? "shutting_down" : "ready";
    status.uptime_s = seconds_since(service_.started);
    const auto models = service_.models.all();
    for (const auto& model : models) {
        responses::ModelStatus& one = status.models.emplace_back();
        one.name = model->name();
        one.state = model_state_name(model->state());
        if (model->state() == ModelState::ready) one.engine = engine_status(*model->engine());
    }
    if (!models.empty()) {
        const responses::ModelStatus& first = status.models.front();
        const bool is_ready = models.front()->state() == ModelState::ready;
        status.model = first.name;
        status.engine = first.engine;
        if (!is_ready && !service_.is_shutting_down()) status.state = first.state;
    }
    const RequestCounts& counts = service_.calls.counts();
    status.calls = {.accepted = counts.accepted,
                    .finished = counts.finished,
                    .aborted = counts.aborted,
                    .failed = counts.failed,
                    .open = service_.calls.size()};
    status.tokens = token_counts(service_.calls, service_.models);
    status.queue = queue_of(service_.calls);
    status.limits = limits_of(service_.config);
    return typed_response(status);
}

HttpResponse Handlers::scrape() const {
    HttpResponse response;
    response.content_type = ServerMetrics::kContentType;
    response.body = service_.metrics.text();
    return response;
}

HttpResponse Handlers::timeline(const HttpRequest& request) const {
    constexpr std::string_view kModel = "model=";
    const bool is_named = request.query.starts_with(kModel);
    ApiError error;
    const auto model =
        find_ready(service_.models, is_named ? request.query.substr(kModel.size()) : "", error);
    if (model == nullptr) return error_response(error);
    HttpResponse response;
    response.body = model->timeline().chrome_trace();
    return response;
}

HttpResponse Handlers::dump_state() const {
    std::string text = "[";
    for (const auto& model : service_.models.all()) {
        if (model->state() != ModelState::ready) continue;
        auto future = model->engine()->snapshot(SnapshotDetail::full);
        if (future.wait_for(std::chrono::seconds(5)) != std::future_status::ready) continue;
        if (text.size() > 1) text += ",";
        text += dump_text(future.get());
    }
    HttpResponse response;
    response.body = text + "]";
    return response;
}

HttpResponse Handlers::resize_cache(const HttpRequest& request) const {
    auto body = read_body(request, service_.config);
    if (!body) return error_response(api_error(body.fault()));
    const Json share = body->is_object() ? body->value("share", Json()) : Json();
    if (!share.is_number()) {
        return error_response({.message =
                                   "'share' must be a number above 0 and at most 1: the part "
                                   "of the planned cache to keep",
                               .param = "share"});
    }
    ApiError error;
    const Json name = body->value("model", Json(""));
    const auto model =
        find_ready(service_.models, name.is_string() ? name.get<std::string>() : "", error);
    if (model == nullptr) return error_response(error);
    model->engine()->resize_cache(share.get<double>());
    return json_response(
        {{"status", "resized"}, {"blocks_total", model->engine()->stats().cache.blocks.total}});
}

HttpResponse Handlers::change_models(const HttpRequest& request, bool loads) const {
    auto body = read_body(request, service_.config);
    if (!body) return error_response(api_error(body.fault()));
    const auto text_of = [&](const char* field) {
        const Json value = body->is_object() ? body->value(field, Json()) : Json();
        return value.is_string() ? value.get<std::string>() : std::string();
    };
    const std::string name = text_of("name");
    const std::string path = text_of("path");
    if (name.empty() || (loads && path.empty())) {
        return error_response(
            {.message = loads ? "'name' and 'path' must be texts" : "'name' must be a text",
             .param = name.empty() ? "name" : "path"});
    }
    const auto error = loads ? service_.load(name, path) : service_.unload(name);
    if (error) return error_response(*error);
    return json_response({{"status", loads ? "loading" : "unloading"}, {"name", name}});
}

}  // namespace nvllm::server
