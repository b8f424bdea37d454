// The response of /nvllm/status as data, as response_types.h has the others.
#pragma once

#include "lib/server/openai/response_types.h"

namespace nvllm::server::responses {

struct SequenceCounts {
    int64_t running = 0, waiting = 0, paused = 0, swapped = 0;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("running", running);
        visit("waiting", waiting);
        visit("paused", paused);
        visit("swapped", swapped);
    }
};

// What a request that does not say gets: the model's generation_config.json, else vLLM's defaults.
struct SamplingDefaults {
    float temperature = 1.0f, top_p = 1.0f, min_p = 0.0f;
    int64_t top_k = 0;
    float repetition_penalty = 1.0f;
    std::optional<int64_t> max_tokens;  // of a chat; null: to the end of the context
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("temperature", temperature);
        visit("top_p", top_p);
        visit("top_k", top_k);
        visit("min_p", min_p);
        visit("repetition_penalty", repetition_penalty);
        visit("max_tokens", max_tokens);
    }
};

struct CacheStatus {
    int64_t blocks_total = 0, blocks_used = 0, blocks_cached = 0, blocks_free = 0;
    uint64_t bytes_total = 0;
    int64_t block_size = 0;
    double hit_rate = 0.0;
    double fragmentation = 0.0;
    int64_t preemptions = 0;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("blocks_total", blocks_total);
        visit("blocks_used", blocks_used);
        visit("blocks_cached", blocks_cached);
        visit("blocks_free", blocks_free);
        visit("bytes_total", bytes_total);
        visit("block_size", block_size);
        visit("hit_rate", hit_rate);
        visit("fragmentation", fragmentation);
        visit("preemptions", preemptions);
    }
};

struct WorkerStatus {
    int64_t restarts = 0, weight_reloads = 0, out_of_memory = 0;
    std::optional<int64_t> pid;  // of a process of its own
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("restarts", restarts);
        visit("weight_reloads", weight_reloads);
        visit("out_of_memory", out_of_memory);
        visit("pid", pid);
    }
};

struct HealthStatus {
    std::string state;
    double heartbeat_age_s = 0.0;
    std::optional<std::string> last_fault;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("state", state);
        visit("heartbeat_age_s", heartbeat_age_s);
        visit("last_fault", last_fault);
    }
};

// Of one of several replicas.
struct ReplicaStatus {
    std::string state;
    int64_t running = 0, waiting = 0;
    int64_t routed = 0;  // requests that it was given
    int64_t blocks_total = 0, blocks_used = 0, blocks_cached = 0;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("state", state);
        visit("running", running);
        visit("waiting", waiting);
        visit("routed", routed);
        visit("blocks_total", blocks_total);
        visit("blocks_used", blocks_used);
        visit("blocks_cached", blocks_cached);
    }
};

// Of a model that is ready: of all its replicas together.
struct EngineStatus {
    Maybe<SequenceCounts> requests;
    Maybe<int64_t> max_num_seqs;  // may run at once
    Maybe<CacheStatus> kv_cache;
    Maybe<WorkerStatus> worker;
    Maybe<HealthStatus> health;
    Maybe<std::vector<ReplicaStatus>> replicas;  // absent: there is one
    Maybe<SamplingDefaults> sampling_defaults;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("requests", requests);
        visit("max_num_seqs", max_num_seqs);
        visit("kv_cache", kv_cache);
        visit("worker", worker);
        visit("health", health);
        visit("replicas", replicas);
        visit("sampling_defaults", sampling_defaults);
    }
};

struct ModelStatus {
    std::string name;
    std::vector<std::string> names;  // all it is asked for by, `name` first
    std::string state;
    EngineStatus engine;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("name", name);
        visit("names", names);
        visit("state", state);
        engine.fields(visit);
    }
};

struct RequestCountsStatus {
    int64_t accepted = 0, finished = 0, aborted = 0, failed = 0;
    size_t open = 0;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("accepted", accepted);
        visit("finished", finished);
        visit("aborted", aborted);
        visit("failed", failed);
        visit("open", open);
    }
};

struct TokenCounts {
    int64_t prompt_total = 0, generated_total = 0, scheduled_total = 0;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("prompt_total", prompt_total);
        visit("generated_total", generated_total);
        visit("scheduled_total", scheduled_total);
    }
};

// A request in flight.
struct RequestStatus {
    std::string id;
    std::string_view state;  // running, waiting, paused, swapped
    double age_s = 0.0;
    int64_t prompt_tokens = 0;
    int64_t generated_tokens = 0;
    std::optional<std::string> why_waiting;  // null also while a long step keeps the engine busy
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("id", id);
        visit("state", state);
        visit("age_s", age_s);
        visit("prompt_tokens", prompt_tokens);
        visit("generated_tokens", generated_tokens);
        visit("why_waiting", why_waiting);
    }
};

struct Status {
    static constexpr const char* kName = "Status";
    std::string version;
    std::string state;
    double uptime_s = 0.0;
    Maybe<std::string> model;  // the first one, which `engine` is of
    EngineStatus engine;
    RequestCountsStatus calls;
    TokenCounts tokens;
    std::vector<RequestStatus> queue;
    std::vector<ModelStatus> models;
    Keyed<std::optional<std::string>> limits;
    template <typename Visit>
    void fields(Visit& visit) const {
        visit("version", version);
        visit("state", state);
        visit("uptime_s", uptime_s);
        visit("model", model);
        engine.fields(visit);
        visit("calls", calls);
        visit("tokens", tokens);
        visit("queue", queue);
        visit("models", models);
        visit("limits", limits);
    }
};

}  // namespace nvllm::server::responses
