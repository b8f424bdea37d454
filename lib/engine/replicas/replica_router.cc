// Costs in tokens.
#include "lib/engine/replicas/replica_router.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "lib/cache/prefix/prefix_keys.h"
#include "lib/schedule/planning/request_limits.h"

namespace nvllm {
namespace {

// An answer under way delays others about as so many tokens of a prompt would: it takes a row of
// each step.
constexpr int64_t kTokensOfAnswer = 32;
// A request's own tokens delay itself and those behind it. So one whose prompt another one has
// computed at present waits for that.
constexpr int64_t kOwnTokens = 2;
// A replica that loads an adapter does so beside its steps: only the request itself waits, about as
// long as a prompt of so many tokens would take.
constexpr int64_t kTokensOfLoad = 128;
// First blocks whose replica is known.
constexpr size_t kMostRemembered = 4096;

}  // namespace

ReplicaRouter::ReplicaRouter(const ReplicaRouterConfig& config) : config_(config) {
    replicas_.resize(index(config.num_replicas));
    for (Replica& replica : replicas_) replica.cached = std::make_unique<CachedKeys>();
}

std::vector<BlockKey> ReplicaRouter::keys_of(const Request& request) const {
    std::vector<BlockKey> keys;
    const std::span<const int32_t> tokens = request.prompt_token_ids;
    if (config_.routing != ReplicaRouting::prefix_aware || !config_.caches_prefixes ||
        tokens.empty()) {
        return keys;
    }
    const std::vector<BlockExtra> extras =
        block_extras(cache_key_extras(config_.scheduler, request), config_.block_size);
    auto extra = extras.begin();
    const int32_t num_blocks = num_reusable_blocks(tokens, config_.block_size);
    keys.reserve(index(num_blocks));
    for (int32_t block = 0; block < num_blocks; ++block) {
        const bool has_extra = extra != extras.end() && extra->block == block;
        keys.push_back(block_key(config_.hash_key, keys.empty() ? BlockKey{} : keys.back(),
                                 block_tokens(tokens, block, config_.block_size),
                                 has_extra ? std::string_view(extra->bytes) : std::string_view()));
        if (has_extra) ++extra;
    }
    return keys;
}

bool ReplicaRouter::has_slot_of(const Replica& replica, int32_t adapter) const {
    return adapter == 0 || std::ranges::find(replica.adapters, adapter) != replica.adapters.end();
}

void ReplicaRouter::note_adapter(Replica& replica, int32_t adapter) const {
    if (adapter == 0) return;
    std::erase(replica.adapters, adapter);
    replica.adapters.push_front(adapter);
    if (replica.adapters.size() > index(config_.scheduler.adapters.max_loras)) {
        replica.adapters.pop_back();
    }
}

int64_t ReplicaRouter::num_known(const Replica& replica, const std::vector<BlockKey>& keys) const {
    const auto is_coming = [&](const BlockKey& key) { return replica.coming.contains(key); };
    const int64_t coming = std::ranges::find_if_not(keys, is_coming) - keys.begin();
    return std::max(coming, replica.cached->num_leading(keys));
}

std::optional<int32_t> ReplicaRouter::last_of(const std::vector<BlockKey>& keys) const {
    if (keys.empty()) return std::nullopt;
    const auto found = last_.find(keys.front());
    return found == last_.end() ? std::nullopt : std::optional(found->second);
}

void ReplicaRouter::remember(const std::vector<BlockKey>& keys, int32_t replica) {
    if (keys.empty()) return;
    if (!last_.insert_or_assign(keys.front(), replica).second) return;
    order_.push_back(keys.front());
    if (order_.size() <= kMostRemembered) return;
    last_.erase(order_.front());
    order_.pop_front();
}

int32_t ReplicaRouter::cheapest(const Request& request, const Route& route,
                                const std::vector<bool>& is_usable) const {
    const auto num_tokens = static_cast<int64_t>(request.prompt_token_ids.size());
    std::vector<int64_t> known;
    for (const Replica& replica : replicas_) known.push_back(num_known(replica, route.keys));
    if (std::ranges::all_of(known, [](int64_t blocks) { return blocks == 0; })) {
        // As if it had half of them: what a replica has to do before counts as well.
        if (const std::optional<int32_t> last = last_of(route.keys)) {
            known[index(*last)] = std::ssize(route.keys) / 2;
        }
    }
    std::optional<int32_t> best;
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int32_t turn = 0; turn < config_.num_replicas; ++turn) {
        const int32_t replica = (next_ + turn) % config_.num_replicas;
        if (!is_usable[index(replica)]) continue;
        const Replica& load = replicas_[index(replica)];
        int64_t cost = load.num_sequences;
        if (config_.routing == ReplicaRouting::prefix_aware) {
            const int64_t own = num_tokens - known[index(replica)] * config_.block_size;
            cost = kOwnTokens * own + load.num_uncached + kTokensOfAnswer * load.num_sequences;
            if (!has_slot_of(load, request.adapter.id)) cost += kTokensOfLoad;
        } else if (config_.routing == ReplicaRouting::round_robin) {
            cost = turn;
        }
        if (cost < least) {
            least = cost;
            best = replica;
        }
    }
    return best.value_or(next_);
}

Route ReplicaRouter::choose(const Request& request, const std::vector<bool>& is_usable) {
    Route route;
    route.keys = keys_of(request);
    route.num_sequences = request.pooling ? 1 : request.sampling.num_sequences();
    const std::lock_guard lock(mutex_);
    const bool any = std::ranges::find(is_usable, true) != is_usable.end();
    route.replica =
        cheapest(request, route, any ? is_usable : std::vector<bool>(replicas_.size(), true));
    next_ = (route.replica + 1) % config_.num_replicas;
    remember(route.keys, route.replica);
    Replica& replica = replicas_[index(route.replica)];
    note_adapter(replica, request.adapter.id);
    route.num_uncached = static_cast<int64_t>(request.prompt_token_ids.size()) -
                         num_known(replica, route.keys) * config_.block_size;
    replica.num_uncached += route.num_uncached;
    replica.num_sequences += route.num_sequences;
    ++replica.num_routed;
    for (const BlockKey& key : route.keys) ++replica.coming[key];
    return route;
}

void ReplicaRouter::prompt_computed(Route& route) {
    const std::lock_guard lock(mutex_);
    Replica& replica = replicas_[index(route.replica)];
    replica.num_uncached -= std::exchange(route.num_uncached, 0);
    for (const BlockKey& key : route.keys) {
        const auto found = replica.coming.find(key);
        if (--found->second == 0) replica.coming.erase(found);
    }
    route.keys.clear();
}

void ReplicaRouter::ended(Route& route) {
    prompt_computed(route);
    const std::lock_guard lock(mutex_);
    replicas_[index(route.replica)].num_sequences -= std::exchange(route.num_sequences, 0);
}

std::vector<int64_t> ReplicaRouter::num_routed() const {
    const std::lock_guard lock(mutex_);
    std::vector<int64_t> counts;
    for (const Replica& replica : replicas_) counts.push_back(replica.num_routed);
    return counts;
}

}  // namespace nvllm
