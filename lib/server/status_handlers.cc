// What the server is doing, for people and for whoever runs it.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/base/options.h"
#include "lib/engine/inspection.h"
#include "lib/server/handlers.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

HttpResponse json_response(const Json& body) {
    HttpResponse response;
    response.body = write_json(body);
    return response;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Json engine_json(const Engine& engine) {
    const EngineStats stats = engine.stats();
    const EngineHealth health = engine.health();
    const BlockCounts& blocks = stats.cache.blocks;
    const auto queried = static_cast<double>(stats.cache.queried_tokens);
    return {
        {"requests",
         {{"running", stats.scheduler.num_running},
          {"waiting",
           stats.scheduler.num_waiting - stats.scheduler.num_paused - stats.scheduler.num_swapped},
          {"paused", stats.scheduler.num_paused},
          {"swapped", stats.scheduler.num_swapped}}},
        {"kv_cache",
         {{"blocks_total", blocks.total},
          {"blocks_used", blocks.used},
          {"blocks_cached", blocks.cached},
          {"blocks_free", blocks.free},
          {"bytes_total", engine.memory_plan().bytes_of_blocks(blocks.total)},
          {"block_size", engine.memory_plan().block_size},
          {"hit_rate", queried > 0 ? static_cast<double>(stats.cache.hit_tokens) / queried : 0.0},
          {"fragmentation", stats.fragmentation},
          {"preemptions", stats.scheduler.preemptions}}},
        {"worker",
         {{"restarts", stats.faults.worker_restarts},
          {"weight_reloads", stats.faults.weight_reloads},
          {"out_of_memory", stats.faults.out_of_memory},
          {"pid", health.worker_pid ? Json(*health.worker_pid) : Json(nullptr)}}},
        {"health",
         {{"state", engine_state_name(health.state)},
          {"heartbeat_age_s", stats.seconds_since_heartbeat},
          {"last_fault", health.last_fault.empty() ? Json(nullptr) : Json(health.last_fault)}}}};
}

// The longest under way first, as many as a page shows.
constexpr size_t kMostShownCalls = 100;

Json calls_json(const LivingCalls& calls) {
    std::vector<CallFigures> living;
    for (const auto& call : calls.all()) living.push_back(call->figures());
    std::ranges::sort(living, std::ranges::greater{}, &CallFigures::age_s);
    if (living.size() > kMostShownCalls) living.resize(kMostShownCalls);
    Json list = Json::array();
    for (const CallFigures& call : living) {
        list.push_back({{"id", call.id},
                        {"state", call.is_scheduled ? "running" : "waiting"},
                        {"age_s", call.age_s},
                        {"prompt_tokens", call.prompt_tokens},
                        {"generated_tokens", call.generated_tokens},
                        {"why_waiting",
                         call.is_scheduled ? Json(nullptr) : Json("for a slot or for blocks")}});
    }
    return list;
}

Json tokens_json(const LivingCalls& calls, const ModelSet& models) {
    int64_t prompt = calls.counts().prompt_tokens;
    int64_t generated = calls.counts().generated_tokens;
    for (const auto& call : calls.all()) {
        const Usage usage = call->usage();
        prompt += usage.prompt_tokens;
        generated += usage.completion_tokens;
    }
    int64_t scheduled = 0;
    for (const auto& model : models.all()) {
        if (model->state() != ModelState::ready) continue;
        scheduled += model->engine()->stats().scheduler.scheduled_tokens;
    }
    return {
        {"prompt_total", prompt}, {"generated_total", generated}, {"scheduled_total", scheduled}};
}

Json limits_json(const ServerConfig& config) {
    Json limits = Json::object();
    ServerConfig values = config;
    OptionSet options;
    options.add(server_options(), values);
    for (const BoundOption& option : options.all()) {
        if (option.field().group != "Limits") continue;
        const auto texts = option.texts();
        limits[option.field().name] = texts.empty() ? Json(nullptr) : Json(texts.front());
    }
    return limits;
}

}  // namespace

HttpResponse Handlers::status() const {
    Json body = {{"version", service_.version},
                 {"state", service_.is_ending() ? "shutting_down" : "ready"},
                 {"uptime_s", seconds_since(service_.started)}};
    const auto models = service_.models.all();
    Json list = Json::array();
    for (const auto& model : models) {
        Json each = {{"name", model->name()}, {"state", model_state_name(model->state())}};
        if (model->state() == ModelState::ready) each.update(engine_json(*model->engine()));
        list.push_back(std::move(each));
    }
    if (!models.empty()) {
        const auto& first = models.front();
        body["model"] = first->name();
        if (first->state() != ModelState::ready && !service_.is_ending()) {
            body["state"] = model_state_name(first->state());
        }
        if (first->state() == ModelState::ready) body.update(engine_json(*first->engine()));
    }
    const CallCounts& counts = service_.calls.counts();
    body["calls"] = {{"accepted", counts.accepted.load()},
                     {"finished", counts.finished.load()},
                     {"aborted", counts.aborted.load()},
                     {"failed", counts.failed.load()},
                     {"open", service_.calls.size()}};
    body["tokens"] = tokens_json(service_.calls, service_.models);
    body["queue"] = calls_json(service_.calls);
    body["models"] = std::move(list);
    body["limits"] = limits_json(service_.config);
    return json_response(body);
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
