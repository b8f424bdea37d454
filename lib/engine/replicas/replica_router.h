// Which replica of a model takes a request.
//
// prefix_aware sends a request where it costs the fewest tokens: those of its prompt that the
// replica has not cached, and those that the replica has to compute for others before. What is
// cached is known by the keys of the prefix indices themselves; the prompts under way count as
// cached where they went, so that requests of one conversation that come at once stay together.
// Where no replica knows the prompt, one that was sent its first block lately is preferred
// ("sticky"): else a set of prompts larger than one cache would spread over all of them. In the
// same way requests of an adapter stay together: a replica that has had none of it lately would
// have to load it, and to give up another one's place.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lib/engine/engine_config.h"
#include "lib/engine/replicas/cached_keys.h"
#include "lib/request/request.h"
#include "lib/schedule/scheduler_config.h"

namespace nvllm {

struct ReplicaRouterConfig {
    ReplicaRouting routing = ReplicaRouting::prefix_aware;
    int32_t num_replicas = 1;
    // What the replicas' keys are made with.
    HashKey hash_key;
    int32_t block_size = 16;
    bool caches_prefixes = true;
    SchedulerConfig scheduler;
};

// A request on its way through a replica.
struct Route {
    int32_t replica = 0;
    int64_t num_sequences = 0;
    int64_t num_uncached = 0;    // tokens of its prompt, to be computed before its first token
    std::vector<BlockKey> keys;  // of its prompt's full blocks, while it is computed
};

class ReplicaRouter {
  public:
    explicit ReplicaRouter(const ReplicaRouterConfig& config);

    // To be told of the replica's cache.
    CachedKeys& cached_keys(int32_t replica) { return *replicas_[index(replica)].cached; }

    // `is_usable`: of each replica; where none is, all are. The request counts as the replica's
    // load until ended().
    Route choose(const Request& request, const std::vector<bool>& is_usable);
    // Its prompt is computed.
    void prompt_computed(Route& route);
    void ended(Route& route);

    // Requests that each replica was given.
    std::vector<int64_t> num_routed() const;

  private:
    struct Replica {
        std::unique_ptr<CachedKeys> cached;
        // Of the prompts that are not computed yet, with how many of them have a key.
        std::unordered_map<BlockKey, int32_t, BlockKeyHash> coming;
        // Of its latest requests, as many as it has slots for; the last one first.
        std::deque<int32_t> adapters;
        int64_t num_uncached = 0;
        int64_t num_sequences = 0;
        int64_t num_routed = 0;
    };

    static size_t index(int32_t replica) { return static_cast<size_t>(replica); }
    std::vector<BlockKey> keys_of(const Request& request) const;
    // REQUIRES, as all below: the mutex is held.
    bool has_slot_of(const Replica& replica, int32_t adapter) const;
    void note_adapter(Replica& replica, int32_t adapter) const;
    int64_t num_known(const Replica& replica, const std::vector<BlockKey>& keys) const;
    int32_t cheapest(const Request& request, const Route& route,
                     const std::vector<bool>& is_usable) const;
    std::optional<int32_t> last_of(const std::vector<BlockKey>& keys) const;
    void remember(const std::vector<BlockKey>& keys, int32_t replica);

    ReplicaRouterConfig config_;
    mutable std::mutex mutex_;
    std::vector<Replica> replicas_;
    int32_t next_ = 0;  // in turn, and where costs are equal
    // Where first blocks went lately, and these in the order in which they came.
    std::unordered_map<BlockKey, int32_t, BlockKeyHash> last_;
    std::deque<BlockKey> order_;
};

}  // namespace nvllm
