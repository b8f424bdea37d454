// The configuration file that all programs read, key by key; contradictions between options.
#include "lib/server/config/server_config.h"

#include <doctest/doctest.h>

#include <functional>
#include <set>

#include "lib/cli/config_file.h"
#include "lib/engine/options/engine_options.h"
#include "lib/server/config/shared_sections.h"

using namespace nvllm;
using namespace nvllm::server;

namespace {

// What nvllm-serve has.
struct ServeProgram {
    ServerConfig server;
    EngineConfig engine;
    OptionSet options;

    ServeProgram() {
        options.add(server_options(), server);
        options.add(engine_options(WithModel::no), engine);
        options.share(shared_sections());
    }
};

// What nvllm-run and the commands of nvllm-bench have, as far as this file is concerned.
struct EngineProgram {
    EngineConfig engine;
    OptionSet options;

    EngineProgram() {
        options.add(engine_options(), engine);
        options.share(shared_sections());
    }
};

struct KeyCase {
    std::string key;  // "section.key"
    std::string value;
    std::function<bool(const ServerConfig&)> server;
    std::function<bool(const EngineConfig&)> engine;
};

const std::vector<KeyCase> kCases = {
    {"model.name",
     "small",
     [](const ServerConfig& c) {
         return c.served.served_model_names == std::vector<std::string>{"small"};
     },
     {}},
    {"model.path", "folder",
     [](const ServerConfig& c) { return c.served.models == std::vector<std::string>{"folder"}; },
     [](const EngineConfig& c) { return c.model.name == "folder"; }},
    {"model.precision", "bf16", {}, [](const EngineConfig& c) { return c.model.dtype == "bf16"; }},
    {"model.quantization",
     "none",
     {},
     [](const EngineConfig& c) { return c.model.quantization == "none"; }},
    {"gpu.memory_limit",
     "3GiB",
     {},
     [](const EngineConfig& c) { return c.memory.limit_bytes == uint64_t{3} << 30; }},
    {"gpu.utilization_target",
     "0.8",
     {},
     [](const EngineConfig& c) { return c.memory.utilization == 0.8; }},
    {"gpu.temperature_alert",
     "85",
     [](const ServerConfig& c) { return c.alerts.temperature == 85.0; },
     {}},
    {"scheduler.batch_size",
     "7",
     {},
     [](const EngineConfig& c) { return c.scheduling.scheduler.max_num_seqs == 7; }},
    {"scheduler.token_budget",
     "1k",
     {},
     [](const EngineConfig& c) { return c.scheduling.max_num_batched_tokens == 1000; }},
    {"scheduler.policy",
     "sjf",
     {},
     [](const EngineConfig& c) { return c.scheduling.scheduler.policy == "sjf"; }},
    {"scheduler.max_wait_time",
     "4.5",
     [](const ServerConfig& c) { return c.timeouts.queue_s == 4.5; },
     {}},
    {"cache.block_size",
     "16KB",
     {},
     [](const EngineConfig& c) { return c.kv_cache.block_size.bytes == 16000; }},
    {"cache.max_blocks", "99", {}, [](const EngineConfig& c) { return c.memory.max_blocks == 99; }},
    {"cache.defrag_threshold",
     "0.5",
     {},
     [](const EngineConfig& c) { return c.scheduling.scheduler.defrag_threshold == 0.5; }},
    {"api.port", "8123", [](const ServerConfig& c) { return c.addresses.port == 8123; }, {}},
    {"api.max_concurrent_requests",
     "12",
     [](const ServerConfig& c) { return c.admission.max_concurrent_requests == 12; },
     {}},
    {"api.timeout", "33", [](const ServerConfig& c) { return c.timeouts.request_s == 33.0; }, {}},
    {"api.streaming",
     "false",
     [](const ServerConfig& c) { return !c.requests.allows_streaming; },
     {}},
    {"monitoring.metrics_port",
     "9100",
     [](const ServerConfig& c) { return c.addresses.metrics_port == 9100; },
     {}},
    {"monitoring.log_level",
     "warning",
     [](const ServerConfig& c) { return c.log.level == "warning"; },
     {}},
    {"monitoring.alert_rules",
     "[\"nvllm_requests_in_flight > 100\", \"a < 2\"]",
     [](const ServerConfig& c) {
         return c.alerts.rules ==
                std::vector<std::string>{"nvllm_requests_in_flight > 100", "a < 2"};
     },
     {}},
};

// The file with this key alone; a path beside the name of a model, which alone would be the path.
std::string file_with(const KeyCase& each) {
    const size_t dot = each.key.find('.');
    std::string text =
        each.key.substr(0, dot) + ":\n  " + each.key.substr(dot + 1) + ": " + each.value + "\n";
    if (each.key == "model.name") text += "  path: ~\n";
    return text;
}

std::string fault_of(const ServerConfig& config) {
    try {
        check_server_config(config);
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::usage);
        return error.what();
    }
    return "";
}

}  // namespace

TEST_CASE("every key of every section changes the field it says, in each program that has it") {
    std::set<std::string> tried;
    for (const KeyCase& each : kCases) {
        CAPTURE(each.key);
        tried.insert(each.key);
        const ServeProgram untouched;
        if (each.server) CHECK(!each.server(untouched.server));
        if (each.engine) CHECK(!each.engine(untouched.engine));

        ServeProgram serve;
        apply_config_text(serve.options, file_with(each), "serve.yaml");
        if (each.server) CHECK(each.server(serve.server));
        if (each.engine && each.key != "model.path") CHECK(each.engine(serve.engine));

        EngineProgram run;
        const std::string before = print_as_json(run.options);
        apply_config_text(run.options, file_with(each), "serve.yaml");
        if (each.engine) CHECK(each.engine(run.engine));
        if (!each.engine) CHECK(print_as_json(run.options) == before);
    }
    const ConfigSections sections = shared_sections();
    for (const ConfigKey& key : sections.keys) {
        CHECK(tried.contains(key.section + "." + key.key));
    }
}

TEST_CASE("sizes of blocks: tokens, or bytes with their suffix") {
    EngineProgram program;
    BoundOption& option = *program.options.find("block-size");
    const auto set = [&](const std::string& text) {
        option.set(std::vector{text}, OptionOrigin::flag, "--block-size", ErrorKind::usage);
        return option.texts().front();
    };
    CHECK(set("32") == "32");
    CHECK(program.engine.kv_cache.block_size == BlockSize(32));
    CHECK(set("16KB") == "16000B");
    CHECK(set("16KiB") == "16KiB");
    CHECK(program.engine.kv_cache.block_size.bytes == 16384);
    CHECK(set("2MiB") == "2MiB");
    for (const char* bad : {"0", "-1", "4097", "16k", "0B", "KB", "many", "1.5"}) {
        CAPTURE(bad);
        CHECK_THROWS_WITH_AS(set(bad), doctest::Contains("or bytes such as 16KB"), Error);
    }
    CHECK(BlockSize::of_bytes(16000).in_tokens(1000) == 16);
    CHECK(BlockSize::of_bytes(16999).in_tokens(1000) == 16);
    CHECK(BlockSize::of_bytes(10).in_tokens(1000) == 1);
    CHECK(BlockSize::of_bytes(uint64_t{1} << 60).in_tokens(1) == BlockSize::kMaxTokens);
}

TEST_CASE("only quantizations that exist are words") {
    EngineProgram program;
    CHECK_THROWS_WITH_AS(
        apply_config_text(program.options, "model: {quantization: q4}\n", "a.yaml"),
        doctest::Contains("a.yaml:1: quantization: 'q4' is not one of auto, none, awq"), Error);
}

TEST_CASE("options that contradict each other are named") {
    CHECK(fault_of({}).empty());
    ServerConfig open;
    open.addresses.host = "0.0.0.0";
    CHECK(fault_of(open).find("--api-key-file") != std::string::npos);
    open.keys.allow_unauthenticated = true;
    CHECK(fault_of(open).empty());
    ServerConfig status;
    status.admission.overload_status = 500;
    CHECK(fault_of(status) == "--overload-status: 429, 503 or 529");
    ServerConfig names;
    names.served.models = {"a", "b"};
    names.served.served_model_names = {"c"};
    CHECK(fault_of(names).find("single model") != std::string::npos);
    ServerConfig key;
    key.addresses.tls_key = "key.pem";
    CHECK(fault_of(key).find("--ssl-certfile") != std::string::npos);
    ServerConfig rules;
    rules.alerts.rules = {"a >"};
    CHECK(fault_of(rules).find("--alert-rules: 'a >' is not METRIC OP NUMBER") == 0);
}
