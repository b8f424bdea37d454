// The list of lists, and contradictions between parts.
#include "lib/server/config/server_config.h"

#include "kernels/error.h"
#include "lib/server/access/exposure.h"
#include "lib/server/operations/alert_rules.h"

namespace nvllm::server {
namespace {

void add_limits(OptionList<ServerConfig>& list) {
    list.include(&ServerConfig::connections, connection_options());
    list.include(&ServerConfig::timeouts, timeout_options());
    list.group("Limits");
    list.add("shutdown-timeout", &ServerConfig::shutdown_timeout_s,
             "Seconds that answers may take to end when the server is asked to stop.",
             value_name("S"), range(0.0, kMaxTimeoutSeconds));
    list.include(&ServerConfig::admission, admission_options());
    list.include(&ServerConfig::requests, request_limit_options());
    list.include(&ServerConfig::responses, response_store_options());
}

void add_answers(OptionList<ServerConfig>& list) {
    list.include(&ServerConfig::requests, request_field_options());
    list.include(&ServerConfig::formats, output_format_options());
    list.include(&ServerConfig::timeouts, partial_response_options());
    list.group("Answers");
    list.add("page", nested(&ServerConfig::filter, &FilterOptions::serves_page),
             "Serve the chat page at /.");
    list.add("text-threads", &ServerConfig::tokenizer_threads,
             "Threads that read requests, render templates and tokenize.",
             alias("tokenizer-threads"), range(1, 256));
}

}  // namespace

OptionList<ServerConfig> server_options() {
    OptionList<ServerConfig> list("api");
    list.include(&ServerConfig::served, served_model_options());
    list.include(&ServerConfig::addresses, address_options());
    list.include(&ServerConfig::keys, key_options());
    list.include(&ServerConfig::filter, filter_options());
    list.include(&ServerConfig::keys, cache_isolation_options());
    add_limits(list);
    add_answers(list);
    list.include(&ServerConfig::log, server_log_options());
    list.include(&ServerConfig::alerts, alert_options());
    list.include(&ServerConfig::batches, batch_options());
    return list;
}

void check_server_config(const ServerConfig& config) {
    check_admission_options(config.admission);
    if (config.served.models.size() > 1 && !config.served.served_model_names.empty()) {
        throw Error(ErrorKind::usage,
                    "--served-model-name names a single model; of several write --model "
                    "NAME=DIRECTORY");
    }
    const AddressOptions& addresses = config.addresses;
    if (!addresses.tls_key.empty() && !addresses.has_tls()) {
        throw Error(ErrorKind::usage, "--ssl-keyfile: a certificate is needed, --ssl-certfile");
    }
    make_alert_rules(config.alerts);
    if (addresses.unix_socket.empty()) check_exposure(config.keys, addresses.host);
}

}  // namespace nvllm::server
