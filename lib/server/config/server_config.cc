// Names, help and ranges of the server's options.
#include "lib/server/config/server_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/error.h"
#include "lib/server/operations/alert_rules.h"

namespace nvllm::server {
namespace {

constexpr double kLongest = 7.0 * 24 * 3600;

}  // namespace

bool is_loopback(std::string_view host) {
    const bool is_number = host.find_first_not_of("0123456789.") == std::string_view::npos;
    return host == "localhost" || host == "::1" || (is_number && host.starts_with("127."));
}

OptionList<ServerConfig> server_options() {
    OptionList<ServerConfig> list("api");
    list.group("Models");
    list.add("model", &ServerConfig::models,
             "Directory of a Hugging Face checkpoint, or org/name[@revision] in the local Hugging "
             "Face cache; NAME=MODEL to give it a name, repeated for several.",
             short_name('m'), value_name("[NAME=]MODEL"), positional(),
             default_text("the bundled demo"), refuses_empty());
    list.add("served-model-name", &ServerConfig::served_model_names,
             "Name of the model in the API; all are answered to.", value_name("NAME"),
             default_text("what --model says"), takes_several());
    list.add("backup-model", &ServerConfig::backup_model,
             "Takes the place of a model that goes on computing what are no numbers after its "
             "weights were read again.",
             value_name("MODEL"), default_text("none"));
    list.group("Addresses");
    list.add("host", &ServerConfig::host, "Address to listen at; 0.0.0.0: all of this machine.");
    list.add("port", &ServerConfig::port, "0: any free one, which the log names.", range(0, 65535));
    list.add("uds", &ServerConfig::unix_socket,
             "Listen at this Unix socket instead of host and port; its group may use it as well.",
             value_name("PATH"), default_text("none"));
    list.add("admin-socket", &ServerConfig::admin_socket,
             "Administration at this Unix socket, which only you can open.", value_name("PATH"),
             default_text("none"));
    list.add("metrics-port", &ServerConfig::metrics_port,
             "A port on the loopback for metrics and health alone.", range(0, 65535),
             default_text("none"));
    list.add("ssl-certfile", &ServerConfig::tls_certificate, "Certificate chain (PEM) for TLS.",
             value_name("FILE"), default_text("no TLS"));
    list.add("ssl-keyfile", &ServerConfig::tls_key, "The certificate's key (PEM).",
             value_name("FILE"), default_text("in the certificate's file"));
    list.group("Access");
    list.add("api-key", &ServerConfig::api_keys,
             "A key that clients must send; other users of the machine can see it, so prefer "
             "--api-key-file or NVLLM_API_KEY.",
             value_name("KEY"), secret(), takes_several());
    list.add("api-key-file", &ServerConfig::api_key_file,
             "Keys, one a line: [NAME:]KEY [rpm=N] [tpm=N] [concurrency=N]. Read again on SIGHUP.",
             value_name("FILE"), default_text("none"));
    list.add("allow-unauthenticated", &ServerConfig::allow_unauthenticated,
             "Listen beyond this machine without a key.");
    list.add("metrics-without-key", &ServerConfig::metrics_without_key,
             "GET /metrics needs no key.");
    list.add("allowed-origins", &ServerConfig::allowed_origins,
             "Web pages of this origin may ask (CORS), such as https://*.example.org; *: all.",
             value_name("ORIGIN"), default_text("none but local ones"), takes_several());
    list.add("local-origins", &ServerConfig::local_origins,
             "Pages of http://localhost and desktop programs (app, file, tauri, vscode-webview) "
             "may ask without being named.");
    list.add("allowed-hosts", &ServerConfig::allowed_hosts,
             "Host names that clients may use besides the address itself.", value_name("NAME"),
             default_text("any, unless listening at the loopback"));
    list.add("cache-isolation", &ServerConfig::cache_isolation,
             "Who shares cached prompts; auto: each key has its own when there are several.",
             choices({"auto", "none", "key"}));
    list.group("Limits");
    list.add("max-body", &ServerConfig::max_body_bytes, "Largest request body.", counts_bytes(),
             at_least(1024));
    list.add("max-header-bytes", &ServerConfig::max_header_bytes, "Largest head of a request.",
             counts_bytes(), range(1024, 1024 * 1024));
    list.add("max-headers", &ServerConfig::max_headers, "Headers of a request.", range(8, 10000));
    list.add("max-target-bytes", &ServerConfig::max_target_bytes,
             "Longest path and query of a request.", counts_bytes(), range(64, 1024 * 1024));
    list.add("max-connections", &ServerConfig::max_connections,
             "Connections at once; fewer when fewer files may be open.", range(1, 1'000'000));
    list.add("header-timeout", &ServerConfig::header_timeout_s,
             "Seconds for a request's head to arrive.", value_name("S"), range(0.1, kLongest));
    list.add("body-timeout", &ServerConfig::body_timeout_s,
             "Seconds for its body, and one more for each MiB.", value_name("S"),
             range(0.1, kLongest));
    list.add("idle-timeout", &ServerConfig::idle_timeout_s,
             "Seconds a connection is kept without a request.", value_name("S"),
             range(0.1, kLongest));
    list.add("write-timeout", &ServerConfig::write_timeout_s,
             "Seconds a client may take nothing of its answer.", value_name("S"),
             range(0.1, kLongest));
    list.add("keep-alive-interval", &ServerConfig::keep_alive_interval_s,
             "Seconds between comments in a silent stream.", value_name("S"),
             range(0.05, kLongest));
    list.add("queue-timeout", &ServerConfig::queue_timeout_s,
             "Seconds a request may wait to be begun; 0: any time.", alias("max-wait-time"),
             value_name("S"), range(0.0, kLongest));
    list.add("request-timeout", &ServerConfig::request_timeout_s,
             "Seconds for a whole answer; 0: any time.", alias("timeout"), value_name("S"),
             range(0.0, kLongest));
    list.add("shutdown-timeout", &ServerConfig::shutdown_timeout_s,
             "Seconds that answers may take to end when the server is asked to stop.",
             value_name("S"), range(0.0, kLongest));
    list.add("max-queued-requests", &ServerConfig::max_queued_requests,
             "Sequences that may wait for a slot of a model; requests beyond are refused.",
             range(0, 1'000'000));
    list.add("max-concurrent-requests", &ServerConfig::max_concurrent_requests,
             "Requests that may run and wait together, of all models.", range(1, 1'000'000),
             default_text("what --max-num-seqs and --max-queued-requests allow"));
    list.add("max-queued-pools", &ServerConfig::max_queued_pools,
             "Prompt tokens that may wait, as a multiple of what the key-value cache holds.",
             range(0.0, 1e6));
    list.add("overload-status", &ServerConfig::overload_status,
             "Status of requests that are refused for overload: 429, 503 or 529.", range(429, 529));
    list.add("max-prompts", &ServerConfig::max_prompts,
             "Prompts of one completion call, or texts of one embeddings call.", range(1, 16384));
    list.add("max-messages", &ServerConfig::max_messages, "Messages of one chat.",
             range(1, 1'000'000));
    list.add("max-tools", &ServerConfig::max_tools, "Tools of one chat.", range(0, 100'000));
    list.add("max-logprobs", &ServerConfig::max_logprobs,
             "Likeliest tokens that may be asked for beside each one; -1: all of the vocabulary.",
             range(-1, 1'000'000));
    list.add("max-json-depth", &ServerConfig::max_json_depth, "Nesting of a request's JSON.",
             range(4, 1000));
    list.group("Answers");
    list.add("streaming", &ServerConfig::streaming,
             "Answer token by token where a request asks for it; without it such requests are "
             "refused.");
    list.add("strict-fields", &ServerConfig::strict_fields,
             "Refuse fields that are not known; else they are named in the answer's "
             "x-nvllm-ignored header.");
    list.add("trust-request-chat-template", &ServerConfig::trust_request_chat_template,
             "Take the chat_template of a request in place of the model's; else such requests are "
             "refused.");
    list.add("partial-answer-on-timeout", &ServerConfig::partial_answer_on_timeout,
             "After --request-timeout answer with what there is.");
    list.add("page", &ServerConfig::page, "Serve the chat page at /.");
    list.add("text-threads", &ServerConfig::text_threads,
             "Threads that read requests, render templates and tokenize.", range(1, 256));
    list.group("Log");
    list.add("log-level", &ServerConfig::log_level, "What is logged.",
             choices({"debug", "info", "warning", "error", "off"}));
    list.add("log-format", &ServerConfig::log_format, "Lines of text, or JSON objects.",
             choices({"text", "json"}));
    list.add("log-requests", &ServerConfig::log_requests,
             "A line for each request: its id, model, key, tokens, and what it was refused for.");
    list.add(
        "log-stats-interval", &ServerConfig::log_stats_interval_s,
        "Seconds between two lines on the tokens a second of a model that is at work; 0: none.",
        value_name("S"), range(0.0, kLongest));
    list.group("Alerts");
    list.add("alert-rules", &ServerConfig::alert_rules,
             "Warn in the log when this begins to hold, such as 'nvllm_requests_in_flight > 100'; "
             "with one of > >= < <= == !=.",
             value_name("\"METRIC OP NUMBER\""));
    list.add("temperature-alert", &ServerConfig::temperature_alert,
             "Warn in the log when a device is hotter than this.", value_name("CELSIUS"),
             range(0.0, 200.0), default_text("never"));
    return list;
}

void check_exposure(const ServerConfig& config, const std::string& host) {
    const bool has_key = !config.api_keys.empty() || !config.api_key_file.empty();
    if (is_loopback(host) || has_key || config.allow_unauthenticated) return;
    throw Error(ErrorKind::usage,
                fmt::format("--host {}: anybody who reaches this machine could use the model: give "
                            "keys with --api-key-file, or say --allow-unauthenticated",
                            host));
}

void check_server_config(const ServerConfig& config) {
    constexpr std::array kOverload = {429, 503, 529};
    if (std::ranges::find(kOverload, config.overload_status) == kOverload.end()) {
        throw Error(ErrorKind::usage, "--overload-status: 429, 503 or 529");
    }
    if (config.models.size() > 1 && !config.served_model_names.empty()) {
        throw Error(ErrorKind::usage,
                    "--served-model-name names a single model; of several write --model "
                    "NAME=DIRECTORY");
    }
    if (!config.tls_key.empty() && !config.has_tls()) {
        throw Error(ErrorKind::usage, "--ssl-keyfile: a certificate is needed, --ssl-certfile");
    }
    make_alert_rules(config);
    if (config.unix_socket.empty()) check_exposure(config, config.host);
}

}  // namespace nvllm::server
