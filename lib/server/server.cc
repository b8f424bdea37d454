// The server's life: listen, load, serve, drain.
#include "lib/server/server.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <mutex>
#include <random>
#include <thread>

#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/engine/inspection.h"
#include "lib/server/alert_rules.h"
#include "lib/server/endpoints.h"
#include "lib/server/gate.h"
#include "lib/server/handlers.h"
#include "lib/server/http_server.h"
#include "lib/server/memory_broker.h"
#include "lib/server/model_care.h"

namespace nvllm::server {
namespace {

using std::chrono::milliseconds;

// How often deadlines are looked at.
constexpr milliseconds kTick{50};
constexpr milliseconds kBetweenAlertLooks{2000};
// What is done on the text threads waits in a queue of this many tasks.
constexpr size_t kMostWaitingTasks = 8192;
// Descriptors that are not connections: files, sockets, libraries.
constexpr int64_t kOwnDescriptors = 128;
constexpr size_t kLongestRequestId = 128;
// How long last events and farewells may take to be written.
constexpr milliseconds kFarewell{1000};
constexpr milliseconds kFarewellOfAbort{500};
// From the end of the drain to the end of the process: farewells, engines, workers.
constexpr milliseconds kLongestEnding{10'000};

milliseconds milliseconds_of(double seconds) {
    return std::chrono::duration_cast<milliseconds>(std::chrono::duration<double>(seconds));
}

int32_t connections_that_fit(int32_t wanted) {
    rlimit files{};
    if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return wanted;
    files.rlim_cur = files.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &files);
    const auto most = static_cast<int64_t>(files.rlim_cur) - kOwnDescriptors;
    if (most < 1) {
        throw Error(ErrorKind::unavailable,
                    fmt::format("only {} files may be open, and at least {} are needed: raise the "
                                "limit (ulimit -n)",
                                files.rlim_cur, kOwnDescriptors + 1));
    }
    return static_cast<int32_t>(std::min<int64_t>(wanted, most));
}

ConnectionLimits connection_limits(const ServerConfig& config) {
    ConnectionLimits limits;
    limits.http = {config.max_header_bytes, config.max_headers, config.max_target_bytes,
                   config.max_body_bytes};
    limits.max_connections = connections_that_fit(config.max_connections);
    limits.header_timeout = milliseconds_of(config.header_timeout_s);
    limits.body_timeout = milliseconds_of(config.body_timeout_s);
    limits.idle_timeout = milliseconds_of(config.idle_timeout_s);
    limits.write_timeout = milliseconds_of(config.write_timeout_s);
    limits.keep_alive_interval = milliseconds_of(config.keep_alive_interval_s);
    return limits;
}

CallTimeouts call_timeouts(const ServerConfig& config) {
    return {milliseconds_of(config.queue_timeout_s), milliseconds_of(config.request_timeout_s),
            config.partial_answer_on_timeout};
}

ModelLimits model_limits(const ServerConfig& config) {
    return {.max_queued_requests = config.max_queued_requests,
            .max_queued_pools = config.max_queued_pools,
            .overload_status = config.overload_status,
            .call = call_limits(config)};
}

std::shared_ptr<AdmissionControl> request_places(const ServerConfig& config) {
    return std::make_shared<AdmissionControl>(
        AdmissionLimits{.counted = "requests",
                        .max_sequences = config.max_concurrent_requests.value_or(INT64_MAX),
                        .max_prompt_tokens = INT64_MAX,
                        .overload_status = config.overload_status});
}

std::vector<ApiKey> read_keys(const ServerConfig& config) {
    std::vector<ApiKey> keys;
    if (!config.api_key_file.empty()) keys = read_key_file(config.api_key_file);
    for (size_t i = 0; i < config.api_keys.size(); ++i) {
        if (config.api_keys[i].empty())
            throw Error(ErrorKind::usage, "--api-key: the key is empty");
        keys.push_back(make_key(fmt::format("api-key-{}", i + 1), config.api_keys[i]));
    }
    return keys;
}

bool is_plain_id(std::string_view id) {
    return !id.empty() && id.size() <= kLongestRequestId &&
           std::ranges::all_of(id, [](char letter) {
               return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                      (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' ||
                      letter == '.';
           });
}

}  // namespace

class Server::Core {
  public:
    Core(const ServerConfig& given, std::vector<ServedModel> served, std::string given_version,
         ServiceManager given_manager)
        : config(given),
          version(std::move(given_version)),
          manager(std::move(given_manager)),
          metrics({.version = version}),
          http(connection_limits(config), callbacks()),
          text(config.text_threads, kMostWaitingTasks),
          gate(config, keys),
          service(make_service()),
          handlers(service) {
        keys.replace(read_keys(config));
        if (config.has_tls()) {
            http.use_tls({config.tls_certificate,
                          config.tls_key.empty() ? config.tls_certificate : config.tls_key});
        }
        for (ServedModel& model : served) {
            auto hosted = std::make_shared<HostedModel>(
                std::move(model.names), std::move(model.config), model_limits(config), metrics);
            if (!models.add(hosted)) {
                throw Error(ErrorKind::usage,
                            fmt::format("--model: two models are called '{}'", hosted->name()));
            }
        }
    }

    // What was cut off may still be under way in the engines: they end before what they call.
    ~Core() {
        if (loader.joinable()) loader.join();
        models.stop_all();
    }

    void listen() {
        for (Endpoint& endpoint : endpoints_of(config, manager.sockets())) {
            endpoint.port = http.listen(endpoint);
            if (endpoint.role != EndpointRole::api) continue;
            if (address.empty()) {
                port = endpoint.unix_socket.empty() ? endpoint.port : 0;
                address = address_text(endpoint);
            }
            log_info(fmt::format("listening at {}", address_text(endpoint)));
        }
        manager.ready(fmt::format("loading; listening at {}", address));
    }

    void run() {
        loader = std::thread([this] { load_all(); });
        http.post_after(kTick, [this] { tick(); });
        http.run();
        loader.join();
        if (load_failure) std::rethrow_exception(load_failure);
    }

    void drain() {
        if (is_draining.exchange(true)) return;
        const std::string status = fmt::format("ending: {} requests under way have {} s",
                                               calls.size(), config.shutdown_timeout_s);
        log_info(status);
        manager.stopping(status, milliseconds_of(config.shutdown_timeout_s) + kLongestEnding);
        http.close_passed_listeners();
        http.post([this] {
            drain_until =
                std::chrono::steady_clock::now() + milliseconds_of(config.shutdown_timeout_s);
        });
    }

    void abort() {
        is_draining = true;
        is_aborted = true;
        http.shut_down(error_body(shutting_down()), kFarewellOfAbort);
    }

    void reload() {
        if (!is_draining) manager.reloading();
        std::string status;
        try {
            keys.replace(read_keys(config));
            status = fmt::format("{} keys are known", keys.size());
            log_info(status);
        } catch (const Error& error) {
            status = fmt::format("the old keys stay: {}", error.what());
            log_error(status);
        }
        if (!is_draining) manager.ready(status);
    }

    void dump_state() {
        for (const auto& model : models.all()) {
            if (model->state() != ModelState::ready) continue;
            auto future = model->engine()->snapshot(SnapshotDetail::full);
            if (future.wait_for(std::chrono::seconds(5)) != std::future_status::ready) continue;
            log_info(fmt::format("state of {}: {}", model->name(), dump_text(future.get())));
        }
    }

    const ServerConfig config;
    const std::string version;
    const ServiceManager manager;
    uint16_t port = 0;
    std::string address;  // the first at which the API listens
    std::atomic<bool> is_aborted = false;

  private:
    Service make_service() {
        return {.config = config,
                .version = version,
                .models = models,
                .keys = keys,
                .calls = calls,
                .text = text,
                .metrics = metrics,
                .requests = request_places(config),
                .is_ending = [this] { return is_draining.load(); },
                .drain = [this] { drain(); },
                .reload = [this] { reload(); },
                .load = [this](const std::string& name,
                               const std::string& model) { return load(name, model); },
                .unload = [this](const std::string& name) { return unload(name); }};
    }

    HttpServer::Callbacks callbacks() {
        return {
            .gate =
                [this](const HttpRequest& head, const Endpoint& endpoint) {
                    return gate.check(head, endpoint, is_draining);
                },
            .name = [this](const HttpRequest& head) { return id_header(head, new_id(head)); },
            .handle = [this](std::shared_ptr<Exchange> exchange,
                             const Endpoint&) { handle(std::move(exchange)); },
            .answered = [this](const HttpRequest& request, int status, double seconds,
                               uint64_t bytes) { note_answer(request, status, seconds, bytes); },
            .timed_out = [this](TimeoutKind kind) { metrics.timed_out(kind); }};
    }

    void handle(std::shared_ptr<Exchange> exchange) {
        name_request(*exchange);
        const HttpRequest& request = exchange->request();
        const Route* route = find_route(request.method, request.path);
        if (route == nullptr) route = find_route(request.path);
        if (!route->is_off_loop) return handlers.run(*route, exchange);
        const bool has_room =
            text.try_run([this, route, exchange] { handlers.run(*route, exchange); });
        if (has_room) return;
        exchange->respond(error_response({.status = config.overload_status,
                                          .message = "too many requests wait to be read",
                                          .code = "queue_full",
                                          .retry_after_s = 1,
                                          .type = "overloaded_error"}));
    }

    static bool has_own_id(const HttpRequest& head) {
        const std::string* given = head.header("X-Request-Id");
        return given != nullptr && is_plain_id(*given);
    }

    // Two requests of the same client's id are still two.
    std::string new_id(const HttpRequest& head) {
        const std::string& from = has_own_id(head) ? *head.header("X-Request-Id") : instance;
        return fmt::format("{}-{:x}", from, next_request++);
    }

    // The client's own, as it knows it.
    static HttpHeader id_header(const HttpRequest& head, const std::string& id) {
        return {"x-request-id", has_own_id(head) ? *head.header("X-Request-Id") : id};
    }

    void name_request(Exchange& exchange) {
        const HttpRequest& head = exchange.request();
        exchange.request_id = new_id(head);
        exchange.answer_headers = gate.cors_headers(head);
        exchange.answer_headers.push_back(id_header(head, exchange.request_id));
    }

    void note_answer(const HttpRequest& request, int status, double seconds, uint64_t bytes) {
        const Route* route = find_route(request.path);
        metrics.http_exchange({.handler = route == nullptr ? "none" : route->path,
                               .method = route == nullptr ? "none" : request.method,
                               .status = status,
                               .seconds = seconds,
                               .request_bytes = request.body.size(),
                               .response_bytes = bytes});
        if (!config.log_requests) return;
        log_info(fmt::format("{} {} {} {:.3f} s {} bytes", request.method, request.path, status,
                             seconds, bytes));
    }

    void load_all() {
        for (const auto& model : models.all()) {
            try {
                load_one(*model);
            } catch (...) {
                load_failure = std::current_exception();
                abort();
                return;
            }
        }
        const std::string status =
            fmt::format("ready at {}; {} connections, {} queued requests, {} keys", address,
                        config.max_connections, config.max_queued_requests, keys.size());
        log_info(status);
        if (!is_draining) manager.status(status);
    }

    void load_one(HostedModel& model) {
        model.load(broker.fit(model.config()));
        broker.models_changed();
        const Engine& engine = *model.engine();
        log_info(fmt::format("{}: {} in {:.0f} ms", model.name(), engine.memory_plan().summary(),
                             engine.start_timings().total_ms));
        for (const std::string& note : engine.memory_plan().notices) log_info(note);
    }

    std::optional<ApiError> load(const std::string& name, const std::string& path) {
        EngineConfig engine = models.all().empty() ? EngineConfig{} : models.all()[0]->config();
        engine.model = path;
        engine.inspect_socket.clear();
        auto model = std::make_shared<HostedModel>(std::vector{name}, std::move(engine),
                                                   model_limits(config), metrics);
        if (serve(std::move(model))) return std::nullopt;
        return ApiError{.message = fmt::format("a model '{}' is there already", name),
                        .code = "model_exists",
                        .param = "name"};
    }

    // Loads it in the background; false when its name is taken.
    bool serve(std::shared_ptr<HostedModel> model) {
        if (!models.add(model)) return false;
        const std::lock_guard lock(loads_mutex);
        std::erase_if(loads, [](const std::future<void>& load) {
            return load.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
        });
        loads.push_back(std::async(std::launch::async, [this, model = std::move(model)]() mutable {
            try {
                load_one(*model);
            } catch (const std::exception& error) {
                log_error(fmt::format("{}: {}", model->name(), error.what()));
            }
            model.reset();  // the future keeps what it captured
        }));
        return true;
    }

    std::optional<ApiError> unload(const std::string& name) {
        if (models.remove(name)) return std::nullopt;
        return ApiError{.status = 404,
                        .message = fmt::format("there is no model '{}'", name),
                        .code = "model_not_found",
                        .param = "name"};
    }

    // Those under way end with the old one; new ones wait for the backup.
    void replace(const std::shared_ptr<HostedModel>& model) {
        if (config.backup_model.empty()) {
            log_error(
                fmt::format("{}: goes on computing what are no numbers, and there is no "
                            "--backup-model",
                            model->name()));
            return;
        }
        log_error(fmt::format("{}: goes on computing what are no numbers; {} takes its place",
                              model->name(), config.backup_model));
        model->metrics().recovered(RecoveryLevel::process);
        models.remove(model->name());
        EngineConfig engine = model->config();
        engine.model = config.backup_model;
        engine.inspect_socket.clear();
        serve(std::make_shared<HostedModel>(model->names(), std::move(engine), model_limits(config),
                                            metrics));
    }

    void look_for_alerts() {
        const std::lock_guard lock(alerts_mutex);
        log_alert_changes(alerts.update(lookup_in_scrape(metrics.text())));
    }

    // On the I/O thread, again and again, also without memory: drains and deadlines hang on it.
    void tick() {
        bool goes_on = true;
        try {
            goes_on = look_around();
        } catch (const std::bad_alloc&) {
            log_error("out of memory while deadlines were looked at");
        }
        while (goes_on) {
            try {
                return http.post_after(kTick, [this] { tick(); });
            } catch (const std::bad_alloc&) {
                std::this_thread::sleep_for(milliseconds(1));
            }
        }
    }

    // False when all ends.
    bool look_around() {
        const auto now = std::chrono::steady_clock::now();
        metrics.event_loop_lag(std::chrono::duration<double>(now - tick_at).count());
        tick_at = now + kTick;
        const CallTimeouts timeouts = call_timeouts(config);
        for (const auto& call : calls.all()) call->check_deadlines(timeouts, now);
        care.look(models, now);
        if (!alerts.empty() && now >= next_alert_look) {
            next_alert_look = now + kBetweenAlertLooks;
            text.try_run([this] { look_for_alerts(); });
        }
        if (manager.keep_alive_interval() && now >= next_keep_alive) keep_alive(now);
        if (models.has_unused()) text.try_run([this] { end_unused(); });
        return !is_aborted && !(drain_until && has_drained(now));
    }

    void end_unused() {
        models.end_unused();
        broker.models_changed();
    }

    // The manager hears nothing while an engine is stuck and its own recovery does not help.
    void keep_alive(std::chrono::steady_clock::time_point now) {
        const auto is_stuck = [](const std::shared_ptr<HostedModel>& model) {
            if (model->state() != ModelState::ready) return false;
            const EngineState state = model->engine()->health().state;
            return state == EngineState::stalled || state == EngineState::failed;
        };
        if (std::ranges::any_of(models.all(), is_stuck)) return;
        next_keep_alive = now + *manager.keep_alive_interval();
        manager.keep_alive();
    }

    // When the last answer is written, or the time is over: then all else ends.
    bool has_drained(std::chrono::steady_clock::time_point now) {
        const int64_t num_left = http.counts().answers_under_way;
        if (num_left > 0 && now < *drain_until) return false;
        if (num_left > 0) {
            log_warning(fmt::format("{} requests did not end in time and are cut off", num_left));
        }
        http.shut_down(error_body(shutting_down()), kFarewell);
        return true;
    }

    ServerMetrics metrics;
    // Outlives whatever still holds one of its exchanges.
    HttpServer http;
    KeyRing keys;
    ModelSet models;
    MemoryBroker broker{models};
    LivingCalls calls;
    TaskPool text;
    Gate gate;
    Service service;
    Handlers handlers;
    ModelCare care{{}, [this](const std::shared_ptr<HostedModel>& model) { replace(model); }};
    std::mutex alerts_mutex;  // held while a text thread looks
    AlertRules alerts = make_alert_rules(config);
    std::chrono::steady_clock::time_point next_alert_look{};
    std::chrono::steady_clock::time_point next_keep_alive{};
    std::thread loader;
    std::mutex loads_mutex;
    std::vector<std::future<void>> loads;  // of models that came later
    std::exception_ptr load_failure;
    std::atomic<bool> is_draining = false;
    std::chrono::steady_clock::time_point tick_at = std::chrono::steady_clock::now() + kTick;
    std::optional<std::chrono::steady_clock::time_point> drain_until;  // on the I/O thread
    std::atomic<uint64_t> next_request = 1;
    const std::string instance = fmt::format("{:08x}", std::random_device{}());
};

Server::Server(const ServerConfig& config, std::vector<ServedModel> models, std::string version,
               ServiceManager manager)
    : core_(std::make_unique<Core>(config, std::move(models), std::move(version),
                                   std::move(manager))) {}
Server::~Server() = default;
void Server::listen() { core_->listen(); }
uint16_t Server::port() const { return core_->port; }
void Server::run() { core_->run(); }
void Server::drain() { core_->drain(); }
void Server::abort() { core_->abort(); }
bool Server::was_aborted() const { return core_->is_aborted; }
void Server::reload() { core_->reload(); }
void Server::dump_state() { core_->dump_state(); }

}  // namespace nvllm::server
