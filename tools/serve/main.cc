// nvllm-serve: an OpenAI-compatible server.
#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "lib/base/log.h"
#include "lib/cli/commands.h"
#include "lib/cli/environment_secrets.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/default_model.h"
#include "lib/engine/model_choice.h"
#include "lib/engine/options/engine_options.h"
#include "lib/engine/options/neighbour_flags.h"
#include "lib/server/config/neighbour_flags.h"
#include "lib/server/config/shared_sections.h"
#include "lib/server/health_check.h"
#include "lib/server/server.h"
#include "lib/system/signal_thread.h"

namespace nvllm::server {
namespace {

const ProgramDescription kProgram = {
    .name = "nvllm-serve",
    .version = NVLLM_VERSION,
    .summary =
        "Serves Hugging Face checkpoints to clients of the OpenAI API: completions, chats, token "
        "streams, metrics.",
    .examples =
        "  nvllm-serve model --port 8000\n"
        "  nvllm-serve -m small=models/a -m large=models/b --api-key-file keys.txt --host 0.0.0.0\n"
        "\n"
        "Signals: SIGTERM and SIGINT drain, twice they end at once; SIGHUP reads the keys again;\n"
        "SIGUSR1 logs the engines' books.\n"
        "Under systemd it tells when it listens and that it is alive, and takes passed sockets.\n"
        "Settings: flag > environment NVLLM_* > --config FILE (YAML) > default.\n",
    .sections = server::shared_sections,
};

// "name=directory", or a directory whose last part is the name.
ServedModel served_model(const std::string& text, const EngineConfig& engine) {
    ServedModel model{{}, engine};
    const size_t sign = text.find('=');
    const bool is_named = sign != std::string::npos && text.find('/') > sign;
    model.config.model.name = is_named ? text.substr(sign + 1) : text;
    model.names.push_back(is_named ? text.substr(0, sign) : text);
    return model;
}

// Each engine needs an --inspect-socket of its own: PATH, PATH.2, PATH.3, ...
void separate_sockets(std::vector<ServedModel>& models) {
    for (size_t i = 1; i < models.size(); ++i) {
        std::string& socket = models[i].config.inspection.socket;
        if (!socket.empty()) socket += fmt::format(".{}", i + 1);
    }
}

std::vector<ServedModel> served_models(const ServerConfig& config, const EngineConfig& engine) {
    std::vector<ServedModel> models;
    for (const std::string& text : config.served.models)
        models.push_back(served_model(text, engine));
    if (models.empty()) {
        models.push_back(served_model(require_bundled_model().string(), engine));
        models.back().names = {"demo"};
        log_info("no model was named: serving the bundled demo");
    }
    if (!config.served.served_model_names.empty())
        models.front().names = config.served.served_model_names;
    separate_sockets(models);
    if (models.size() > 1 && (!engine.lora.modules.empty() || !engine.lora.folder.empty())) {
        throw Error(ErrorKind::usage,
                    "--lora-modules and --lora-dir name adapters of a single model; of several, "
                    "load them by POST /v1/load_lora_adapter with \"model\"");
    }
    return models;
}

void set_up_log(const ServerConfig& config) {
    LogOptions log;
    log.format = config.log.format == "json" ? LogFormat::json : LogFormat::text;
    log.waits_for_reader = false;
    for (const LogLevel level :
         {LogLevel::debug, LogLevel::info, LogLevel::warning, LogLevel::error, LogLevel::off}) {
        if (config.log.level == log_level_name(level)) log.level = level;
    }
    configure_log(log);
}

// A health check of a running server.
struct HealthQuery {
    std::string health;  // a URL, or kConfigured; empty: nothing
};
constexpr const char* kConfigured = "configured";

OptionList<HealthQuery> health_options() {
    OptionList<HealthQuery> list("api");
    list.group("Instead of serving");
    list.add("health", &HealthQuery::health,
             "Ask a running server whether it is ready: exit code 0, or 69 when it is not. Without "
             "a URL, the server that these options describe.",
             value_name("[URL]"), bare_value(kConfigured), default_text("serve"));
    return list;
}

int run_health_check(const HealthQuery& query, const ServerConfig& config) {
    check_health(query.health == kConfigured ? health_address(config)
                                             : parse_server_url(query.health, "--health"));
    return 0;
}

int run_program(int argc, char** argv) {
    const ServiceManager manager = ServiceManager::from_environment();
    ServerConfig config;
    HealthQuery query;
    EngineConfig engine;
    // A worker that crashes must not end the clients' streams.
    engine.compute.isolation = Isolation::process;
    engine.compute.watchdog_timeout_s = 60.0;
    engine.scheduling.answers_are_streamed = true;
    const auto server_list = server_options();
    const auto engine_list = engine_options(WithModel::no);
    const auto health_list = health_options();
    OptionSet options;
    options.add(server_list, config);
    options.add(engine_list, engine);
    options.add(health_list, query);
    for (const auto& table : {vllm_serve_flags(), vllm_engine_flags(), llama_server_flags(),
                              llama_cpp_engine_flags()}) {
        options.add_foreign(table);
    }
    std::unique_ptr<Server> server;  // behind the thread that signals to it
    std::atomic<Server*> running = nullptr;
    std::atomic<int> shutdown_signal = 0;
    const SignalThread signals({SIGTERM, SIGINT, SIGHUP, SIGUSR1}, [&](int signal) {
        Server* serving = running;
        if (serving == nullptr) std::_Exit(exit_code_for_signal(signal));
        if (signal == SIGHUP) return serving->reload();
        if (signal == SIGUSR1) return serving->dump_state();
        if (shutdown_signal != 0) {
            shutdown_signal = signal;
            return serving->abort();
        }
        shutdown_signal = signal;
        serving->drain();
    });
    const auto make_server = [&] {
        if (!query.health.empty()) return;
        set_up_log(config);
        for (const std::string& note : options.take_notes()) log_warning(note);
        check_server_config(config);
        const std::vector<ServedModel> models = served_models(config, engine);
        for (const ServedModel& model : models) check_model_choice(model.config);
        server = std::make_unique<Server>(config, models, kProgram.version, manager);
    };
    if (answered({kProgram, argc, argv}, options, make_server)) return 0;
    forget_environment_secrets(options);
    if (!query.health.empty()) return run_health_check(query, config);
    server->listen();
    running = server.get();
    server->run();
    running = nullptr;
    const int code = server->was_aborted() ? exit_code_for_signal(shutdown_signal) : 0;
    // Loading a model may take minutes, and its result is no longer needed.
    if (server->is_loading()) std::_Exit(code);
    return code;
}

}  // namespace
}  // namespace nvllm::server

int main(int argc, char** argv) {
    return nvllm::run_main("nvllm-serve", [&] { return nvllm::server::run_program(argc, argv); });
}
