// GET /nvllm/status: the state of the server, its models and its requests.
#include <algorithm>
#include <functional>

#include "lib/cli/options.h"
#include "lib/server/http/typed_response.h"
#include "lib/server/openai/response_content.h"
#include "lib/server/openai/status_response.h"
#include "lib/server/routes/route_context.h"
#include "lib/server/routes/routes.h"
#include "lib/server/routes/waiting_requests.h"

namespace nvllm::server {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

responses::SamplingDefaults sampling_defaults(const SamplingParams& sampling) {
    return {.temperature = sampling.temperature,
            .top_p = sampling.top_p,
            .min_p = sampling.min_p,
            .top_k = sampling.top_k,
            .repetition_penalty = sampling.repetition_penalty,
            .max_tokens = sampling.max_tokens};
}

std::vector<responses::ReplicaStatus> replica_status(const std::vector<ReplicaStats>& replicas) {
    std::vector<responses::ReplicaStatus> list;
    for (const ReplicaStats& replica : replicas) {
        list.push_back({.state = engine_state_name(replica.state),
                        .running = replica.num_running,
                        .waiting = replica.num_waiting,
                        .routed = replica.num_routed,
                        .blocks_total = replica.blocks.total,
                        .blocks_used = replica.blocks.used,
                        .blocks_cached = replica.blocks.cached});
    }
    return list;
}

responses::EngineStatus engine_status(const HostedModel& model) {
    const Engine& engine = *model.engine();
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
    status.max_num_seqs =
        model.config().scheduling.scheduler.max_num_seqs * engine.memory_plan().num_replicas;
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
    if (!stats.replicas.empty()) status.replicas = replica_status(stats.replicas);
    status.sampling_defaults = sampling_defaults(model.default_sampling());
    return status;
}

// Those that wait first, then the oldest, as many as a page shows.
constexpr size_t kMaxShownRequests = 100;

std::vector<responses::RequestStatus> queue_of(const ActiveRequests::Snapshot& requests,
                                               const ModelSet& models) {
    std::vector<RequestStats> active;
    for (const auto& request : requests.open) active.push_back(request->stats());
    std::ranges::sort(active, std::ranges::greater{}, &RequestStats::age_s);
    const WaitingRequests waiting(models, active);
    std::vector<responses::RequestStatus> queue;
    for (const RequestStats& request : active) {
        const RequestProgress progress = waiting.progress(request);
        responses::RequestStatus& one = queue.emplace_back();
        one.id = request.id;
        one.state = progress.state;
        one.why_waiting = progress.why_waiting;
        one.age_s = request.age_s;
        one.prompt_tokens = request.prompt_tokens;
        one.generated_tokens = request.generated_tokens;
    }
    std::stable_partition(queue.begin(), queue.end(), [](const responses::RequestStatus& one) {
        return one.state != "running";
    });
    if (queue.size() > kMaxShownRequests) queue.resize(kMaxShownRequests);
    return queue;
}

responses::TokenCounts token_counts(const ActiveRequests::Snapshot& requests,
                                    const ModelSet& models) {
    responses::TokenCounts tokens{.prompt_total = requests.counts.prompt_tokens,
                                  .generated_total = requests.counts.generated_tokens};
    for (const auto& request : requests.open) {
        const Usage usage = request->usage();
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

void describe_first_model(responses::Status& status, const HostedModel& model,
                          bool is_shutting_down) {
    const responses::ModelStatus& first = status.models.front();
    status.model = first.name;
    status.engine = first.engine;
    if (model.state() != ModelState::ready && !is_shutting_down) status.state = first.state;
}

HttpResponse status_response(const RouteContext& context, const HttpRequest&) {
    const bool is_shutting_down = context.controls.is_shutting_down();
    responses::Status status;
    status.version = context.version;
    status.state = is_shutting_down ? "shutting_down" : "ready";
    status.uptime_s = seconds_since(context.started);
    const auto models = context.models.all();
    for (const auto& model : models) {
        responses::ModelStatus& one = status.models.emplace_back();
        one.name = model->name();
        one.names = model->names();
        one.state = model_state_name(model->state());
        if (model->state() == ModelState::ready) one.engine = engine_status(*model);
    }
    if (!models.empty()) describe_first_model(status, *models.front(), is_shutting_down);
    const ActiveRequests::Snapshot requests = context.active.snapshot();
    const RequestCounts& counts = requests.counts;
    status.calls = {.accepted = counts.accepted,
                    .finished = counts.finished,
                    .aborted = counts.aborted,
                    .failed = counts.failed,
                    .open = requests.num_open};
    status.tokens = token_counts(requests, context.models);
    status.queue = queue_of(requests, context.models);
    status.limits = limits_of(context.config);
    return typed_response(status);
}

}  // namespace

constinit const Route routes::status = {.method = "GET",
                                        .path = "/nvllm/status",
                                        .access = RouteAccess::user,
                                        .summary = "What the engine does, for people.",
                                        .is_off_loop = true,
                                        .schema = {.response = json_content<responses::Status>},
                                        .handle = respond_at_once<status_response>};

}  // namespace nvllm::server
