// The server's life: listen, load, serve, drain.
#include "lib/server/server.h"

#include <fmt/format.h>

#include <atomic>
#include <new>
#include <nlohmann/json.hpp>
#include <thread>

#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/base/utf8.h"
#include "lib/engine/inspection.h"
#include "lib/server/access/configured_keys.h"
#include "lib/server/access/exposure.h"
#include "lib/server/access/request_filter.h"
#include "lib/server/http/endpoints.h"
#include "lib/server/http/http_server.h"
#include "lib/server/http/memory_reserve.h"
#include "lib/server/http/request_ids.h"
#include "lib/server/maintenance_loop.h"
#include "lib/server/models/model_loader.h"
#include "lib/server/operations/key_metrics.h"
#include "lib/server/operations/request_log.h"
#include "lib/server/routes/dispatch.h"
#include "lib/server/routes/openapi_document.h"
#include "lib/server/routes/route_table.h"
#include "lib/server/shutdown_state.h"

namespace nvllm::server {
namespace {

using std::chrono::milliseconds;

// Length of the queue of the tokenizer threads, in tasks.
constexpr size_t kMaxWaitingTasks = 8192;
// A grammar takes seconds at the worst: few wait for them.
constexpr int32_t kGrammarThreads = 2;
constexpr size_t kMaxWaitingGrammars = 256;
// How long last events and farewells may take to be written.
constexpr milliseconds kFarewell{1000};
constexpr milliseconds kFarewellOfAbort{500};
// Memory reserved for responses in flight, and how long they wait for more.
constexpr size_t kReserveBytes = size_t{16} << 20;
constexpr milliseconds kPatienceWithoutMemory{5000};
// From the end of the drain to the end of the process: farewells, engines, workers.
constexpr milliseconds kShutdownReserve{10'000};
constexpr std::chrono::seconds kLongestDump{5};
// The journal of systemd cuts lines at 48 KiB; escapes may double the length.
constexpr size_t kLongestPiece = 20 * 1024;

// In as many lines as it takes; put together, their pieces are the dump.
void log_state(const std::string& model, std::string_view dump) {
    std::vector<std::string_view> pieces;
    if (dump.ends_with('\n')) dump.remove_suffix(1);
    while (!dump.empty()) {
        std::string_view piece = dump.substr(0, kLongestPiece);
        if (piece.size() < dump.size()) piece.remove_suffix(utf8::incomplete_suffix(piece));
        pieces.push_back(piece);
        dump.remove_prefix(piece.size());
    }
    const auto deadline = std::chrono::steady_clock::now() + kLongestDump;
    for (size_t i = 0; i < pieces.size(); ++i) {
        wait_for_log_reader(
            std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now()));
        log_info(
            fmt::format("state of {}, part {} of {}: {}", model, i + 1, pieces.size(), pieces[i]));
    }
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
          http(connection_limits(config.connections), callbacks()),
          context(make_context()),
          text(config.tokenizer_threads, kMaxWaitingTasks) {
        keys.replace(configured_keys(config.keys));
        const AddressOptions& addresses = config.addresses;
        if (addresses.has_tls()) {
            http.use_tls({addresses.tls_certificate, addresses.tls_key.empty()
                                                         ? addresses.tls_certificate
                                                         : addresses.tls_key});
        }
        for (ServedModel& model : served) {
            loader.add(std::move(model.names), std::move(model.config));
        }
    }

    // Engines may still compute requests that were cut off: they end before the objects they call.
    ~Core() {
        batches.reset();
        loader.end();
    }

    void listen() {
        std::vector<Endpoint> endpoints = endpoints_of(config.addresses, manager.sockets());
        check_exposure(config.keys, endpoints);
        for (Endpoint& endpoint : endpoints) {
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
        loader.begin([this](bool is_loaded) { is_loaded ? say_ready() : abort(); });
        if (batches) batches->begin();
        tick_later();
        http.run();
        if (!loader.is_loading()) loader.wait();
    }

    void drain() {
        if (!shutdown.begin()) return;
        const milliseconds patience = milliseconds_of(config.shutdown_timeout_s);
        const std::string status = fmt::format("shutting down: waiting up to {} s for {} requests",
                                               config.shutdown_timeout_s, active.size());
        log_info(status);
        manager.stopping(status, patience + kShutdownReserve);
        if (batches) batches->end();
        http.close_passed_listeners();
        http.post(
            [this, patience] { shutdown.wait_until(std::chrono::steady_clock::now() + patience); });
    }

    void abort() {
        shutdown.abort();
        http.shut_down(error_body(shutting_down()), kFarewellOfAbort);
    }

    void reload() {
        if (!shutdown.has_begun()) manager.reloading();
        std::string status;
        try {
            keys.replace(configured_keys(config.keys));
            status = fmt::format("{} keys are known", keys.size());
            log_info(status);
        } catch (const Error& error) {
            status = fmt::format("the old keys stay: {}", error.what());
            log_error(status);
        }
        if (!shutdown.has_begun()) manager.ready(status);
    }

    bool is_loading() const { return loader.is_loading(); }

    void dump_state() {
        for (const auto& model : models.all()) {
            if (model->state() != ModelState::ready) continue;
            for (int32_t replica = 0; replica < model->engine()->memory_plan().num_replicas;
                 ++replica) {
                auto future = model->engine()->snapshot(SnapshotDetail::full, replica);
                if (future.wait_for(kLongestDump) != std::future_status::ready) {
                    log_warning(fmt::format("the state of {} was not to be had within {} s",
                                            model->name(), kLongestDump.count()));
                    continue;
                }
                log_state(model->name(), dump_text(future.get()));
            }
        }
    }

    const ServerConfig config;
    const std::string version;
    const ServiceManager manager;
    uint16_t port = 0;
    std::string address;  // the first at which the API listens
    ShutdownState shutdown;

  private:
    RouteContext make_context() {
        return {
            .config = config,
            .version = version,
            .models = models,
            .keys = keys,
            .active = active,
            .responses = responses,
            .tokenizer_threads = text,
            .grammar_threads = grammars,
            .metrics = metrics,
            .reserve = reserve,
            .admission = {keys, server_admission(config.admission), config.keys.cache_isolation},
            .batches = batches.get(),
            .controls = make_controls(),
            .openapi = write_json(openapi_document(route_table(), version, config))};
    }

    ServerControls make_controls() {
        return {.is_shutting_down = [this] { return shutdown.has_begun(); },
                .drain = [this] { drain(); },
                .reload_keys = [this] { reload(); },
                .load = [this](const std::string& name,
                               const std::string& path) { return loader.load(name, path); },
                .unload = [this](const std::string& name) { return loader.unload(name); }};
    }

    HttpServer::Callbacks callbacks() {
        return {
            .filter =
                [this](const HttpRequest& head, const Endpoint& endpoint) {
                    return filter.check(head, endpoint, shutdown.has_begun());
                },
            .is_probe =
                [](const HttpRequest& head) {
                    const Route* route = route_table().find(head.method, head.path);
                    return route != nullptr && route->is_probe;
                },
            .name =
                [this](const HttpRequest& head) {
                    return RequestIds::header(head, names.next(head));
                },
            .handle = [this](std::shared_ptr<HttpTransaction> transaction,
                             const Endpoint&) { handle(std::move(transaction)); },
            .completed = [this](const CompletedRequest& completed) { record_response(completed); },
            .has_memory = [this] { return !reserve.is_low(); },
            .timed_out = [this](TimeoutKind kind) { metrics.timed_out(kind); }};
    }

    void handle(std::shared_ptr<HttpTransaction> transaction) {
        name_request(*transaction);
        const HttpRequest& request = transaction->request();
        const Route* route = route_table().find(request.method, request.path);
        if (route == nullptr) route = route_table().find(request.path);
        transaction->error_form = route->errors;
        if (!route->is_off_loop) return run_route(*route, context, transaction);
        if (run_off_loop(*route, transaction)) return;
        transaction->respond(error_response({.status = config.admission.overload_status,
                                             .message = "too many requests wait to be read",
                                             .code = "queue_full",
                                             .retry_after_s = 1,
                                             .type = "overloaded_error"}));
    }

    // False when too many tasks wait.
    bool run_off_loop(const Route& route, const TransactionPointer& transaction) {
        return text.try_run(
            [this, &route, transaction] { run_route(route, context, transaction); });
    }

    // The endpoint was a route when the batch was made, perhaps by another build.
    bool start_line(const std::shared_ptr<BatchTransaction>& line) {
        const Route* route = route_table().find("POST", line->request().path);
        if (route == nullptr) {
            line->respond(error_response({.status = 404,
                                          .message = "this server has no such endpoint",
                                          .code = "not_found"}));
            return true;
        }
        line->error_form = route->errors;
        if (!line->acting_key->empty()) line->notes.set_key(*line->acting_key);
        return run_off_loop(*route, line);
    }

    std::unique_ptr<BatchService> make_batches() {
        if (!config.batches.is_on()) return nullptr;
        return std::make_unique<BatchService>(
            config.batches,
            [this](const std::shared_ptr<BatchTransaction>& line) { return start_line(line); });
    }

    void name_request(HttpTransaction& transaction) {
        const HttpRequest& head = transaction.request();
        transaction.request_id = names.next(head);
        transaction.response_headers = filter.cors_headers(head);
        transaction.response_headers.push_back(RequestIds::header(head, transaction.request_id));
        const auto authorization = head.authorization();
        if (!config.log.has_requests || !authorization) return;
        if (const auto key = keys.find(*authorization)) transaction.notes.set_key(key->name);
    }

    void record_response(const CompletedRequest& completed) {
        const HttpRequest& request = completed.request;
        const Route* route = route_table().find(request.path);
        metrics.observe_http({.handler = route == nullptr ? "none" : route->path,
                              .method = route == nullptr ? "none" : request.method,
                              .status = completed.status,
                              .seconds = completed.seconds,
                              .request_bytes = request.body.size(),
                              .response_bytes = completed.bytes});
        if (config.log.has_requests) log_request(completed);
    }

    void say_ready() {
        const std::string status = fmt::format(
            "ready at {}; {} connections, {} queued requests, {} keys", address,
            config.connections.max_connections, config.admission.max_queued_requests, keys.size());
        log_info(status);
        if (!keys.empty() && !config.addresses.metrics_port && !config.filter.metrics_without_key) {
            log_info(
                "GET /metrics needs a key; --metrics-port serves it without one at the loopback, "
                "--metrics-without-key everywhere");
        }
        if (!shutdown.has_begun()) manager.status(status);
    }

    // On the I/O thread, again and again, also without memory: drains and deadlines hang on it.
    void tick() {
        const auto now = std::chrono::steady_clock::now();
        bool goes_on = true;
        try {
            maintenance.check(now);
            goes_on = !shutdown.is_aborted() && !has_drained(now);
        } catch (const std::bad_alloc&) {
            log_error("out of memory while deadlines were checked");
        }
        if (goes_on) tick_later();
    }

    void tick_later() {
        while (true) {
            try {
                return http.post_after(MaintenanceLoop::kInterval, [this] { tick(); });
            } catch (const std::bad_alloc&) {
                std::this_thread::sleep_for(milliseconds(1));
            }
        }
    }

    // Ends the server once the last response is written or the deadline has passed.
    bool has_drained(std::chrono::steady_clock::time_point now) {
        const int64_t num_left = http.counts().responses_in_flight;
        if (!shutdown.has_drained(num_left, now)) return false;
        if (num_left > 0) {
            log_warning(fmt::format("{} requests did not end in time and are cut off", num_left));
        }
        http.shut_down(error_body(shutting_down()), kFarewell);
        return true;
    }

    // Behind nothing: what fails without it ends first.
    MemoryReserve reserve{kReserveBytes, kPatienceWithoutMemory};
    ServerMetrics metrics;
    RequestIds names;
    // Outlives whatever still holds one of its exchanges.
    HttpServer http;
    KeyRing keys;
    KeyMetrics key_metrics{metrics.registry(), keys};
    ModelSet models;
    ModelLoader loader{{config.admission, config.requests, config.formats},
                       config.served.backup_model,
                       models,
                       metrics};
    ResponseStore responses{config.responses};
    ActiveRequests active;
    RequestFilter filter{route_table(), config.filter, keys};
    std::unique_ptr<BatchService> batches = make_batches();
    RouteContext context;
    MaintenanceLoop maintenance{{config, manager, metrics, models, loader, active, text, reserve}};
    TaskPool grammars{kGrammarThreads, kMaxWaitingGrammars};
    TaskPool text;  // its tasks use all of the above
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
bool Server::was_aborted() const { return core_->shutdown.is_aborted(); }
bool Server::is_loading() const { return core_->is_loading(); }
void Server::reload() { core_->reload(); }
void Server::dump_state() { core_->dump_state(); }

}  // namespace nvllm::server
