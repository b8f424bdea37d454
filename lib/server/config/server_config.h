// Every option of the server, typed and defaulted, limits among them; one field list makes flags,
// help, files and what /status shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/cli/option_list.h"

namespace nvllm::server {

struct ServerConfig {
    // What is served.
    std::vector<std::string> models;              // directories, or NAME=DIRECTORY
    std::vector<std::string> served_model_names;  // of a single model
    std::string backup_model;  // takes over from one whose weights go on giving no numbers

    // Where.
    std::string host = "127.0.0.1";
    uint16_t port = 8000;
    std::filesystem::path unix_socket;
    std::filesystem::path admin_socket;
    std::optional<uint16_t> metrics_port;
    std::filesystem::path tls_certificate;
    std::filesystem::path tls_key;

    // Who.
    std::vector<std::string> api_keys;
    std::filesystem::path api_key_file;
    bool allow_unauthenticated = false;
    bool metrics_without_key = false;
    std::vector<std::string> allowed_origins;  // patterns, as origins.h has them
    bool local_origins = true;                 // pages and programs of this machine need no naming
    std::vector<std::string> allowed_hosts;
    std::string cache_isolation = "auto";  // auto, none, key

    // Limits.
    uint64_t max_body_bytes = uint64_t{16} << 20;
    uint64_t max_header_bytes = 16 * 1024;
    int32_t max_headers = 100;
    uint64_t max_target_bytes = 8 * 1024;
    int32_t max_connections = 4096;
    double header_timeout_s = 10.0;
    double body_timeout_s = 30.0;
    double idle_timeout_s = 75.0;
    double write_timeout_s = 30.0;
    double keep_alive_interval_s = 15.0;
    double queue_timeout_s = 60.0;
    double request_timeout_s = 600.0;
    double shutdown_timeout_s = 30.0;
    int64_t max_queued_requests = 512;
    std::optional<int64_t> max_concurrent_requests;  // running and queued, of all models
    double max_queued_pools = 4.0;
    int32_t overload_status = 429;
    int32_t max_prompts = 2048;
    int32_t max_messages = 4096;
    int32_t max_tools = 128;
    int32_t max_logprobs = 20;  // -1: as many as the vocabulary has
    int32_t max_json_depth = 64;

    // How.
    bool streaming = true;
    bool strict_fields = false;
    bool trust_request_chat_template = false;
    bool partial_answer_on_timeout = false;
    bool page = true;
    int32_t text_threads = 2;
    std::string log_level = "info";
    std::string log_format = "text";
    bool log_requests = false;
    double log_stats_interval_s = 10.0;  // 0: never

    // What to warn of.
    std::optional<double> temperature_alert;  // of a device, in degrees Celsius
    std::vector<std::string> alert_rules;     // "METRIC OP NUMBER"

    bool has_tls() const { return !tls_certificate.empty(); }
};

OptionList<ServerConfig> server_options();

// Whether only this machine can mean it: "localhost", "::1", "127.0.0.1" and its like. Names that
// merely begin like an address are none.
bool is_loopback(std::string_view host);

// Throws usage when anybody who reaches `host` could ask: it is beyond this machine, there is no
// key, and nobody said that it is meant so.
void check_exposure(const ServerConfig& config, const std::string& host);

// Throws usage or bad_config for options that contradict each other.
void check_server_config(const ServerConfig& config);

}  // namespace nvllm::server
