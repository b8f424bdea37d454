// Claims from the engines' stats, and shares back to them.
#include "lib/server/models/memory_broker.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/host/start_thread.h"
#include "lib/base/log.h"
#include "lib/base/units.h"

namespace nvllm::server {
namespace {

constexpr auto kShareInterval = std::chrono::milliseconds(250);
// A change of less than this part of a cache is not worth the blocks that it moves; but who can
// have all has all.
constexpr uint64_t kMinChange = 16;

struct Participant {
    std::shared_ptr<HostedModel> model;
    CacheRequest claim;
    uint64_t now_bytes = 0;  // its cache's size
};

uint64_t part_of(uint64_t bytes, double share) {
    return static_cast<uint64_t>(share * static_cast<double>(bytes));
}

// Of all replicas.
uint64_t max_bytes(const MemoryPlan& plan) {
    return plan.kv_bytes * static_cast<uint64_t>(plan.num_replicas);
}

uint64_t min_bytes(const MemoryPlan& plan) { return part_of(max_bytes(plan), plan.smallest_share); }

uint64_t fixed_bytes(const MemoryPlan& plan) {
    return (plan.weight_bytes + plan.scratch_bytes + plan.swap_bytes) *
           static_cast<uint64_t>(plan.num_replicas);
}

Participant check_model(const std::shared_ptr<HostedModel>& model) {
    const MemoryPlan& plan = model->engine()->memory_plan();
    const EngineStats stats = model->engine()->stats();
    Participant participant{
        .model = model, .claim = {}, .now_bytes = plan.bytes_of_blocks(stats.cache.blocks.total)};
    participant.claim.min_bytes = min_bytes(plan);
    participant.claim.max_bytes = max_bytes(plan);
    participant.claim.needed_bytes = stats.scheduler.num_waiting > 0
                                         ? max_bytes(plan)
                                         : plan.bytes_of_blocks(stats.cache.blocks.used);
    return participant;
}

// Those that hold memory, the ones that are on their way out among them.
std::vector<std::shared_ptr<HostedModel>> holders(const ModelSet& models) {
    std::vector<std::shared_ptr<HostedModel>> holders = models.all_active();
    std::erase_if(holders, [](const auto& model) { return model->engine() == nullptr; });
    return holders;
}

// What --kv-cache-memory-bytes says; else what the largest was planned for, within --memory-limit.
uint64_t pool_bytes(std::span<const Participant> participants) {
    const EngineConfig& options = participants.front().model->config();
    if (options.memory.kv_cache_bytes) return *options.memory.kv_cache_bytes;
    uint64_t largest = 0;
    uint64_t fixed = 0;
    for (const Participant& participant : participants) {
        largest = std::max(largest, participant.claim.max_bytes);
        fixed += fixed_bytes(participant.model->engine()->memory_plan());
    }
    const uint64_t limit = options.memory.limit_bytes.value_or(UINT64_MAX);
    return std::min(largest, limit - std::min(limit, fixed));
}

// Equal parts of `left` for all that are below their bound, and again of what the bounds leave.
void fill_evenly(uint64_t& left, std::span<uint64_t> shares, std::span<const uint64_t> bounds) {
    while (left > 0) {
        uint64_t num_open = 0;
        for (size_t i = 0; i < shares.size(); ++i) num_open += shares[i] < bounds[i] ? 1 : 0;
        if (num_open == 0) return;
        const uint64_t part = std::max<uint64_t>(left / num_open, 1);
        for (size_t i = 0; i < shares.size() && left > 0; ++i) {
            if (shares[i] >= bounds[i]) continue;
            const uint64_t given = std::min({part, bounds[i] - shares[i], left});
            shares[i] += given;
            left -= given;
        }
    }
}

bool is_short(const Participant& participant) {
    return participant.claim.needed_bytes > participant.now_bytes;
}

bool is_worth_it(const Participant& participant, uint64_t target_bytes) {
    if (target_bytes == participant.claim.max_bytes) return participant.now_bytes < target_bytes;
    const uint64_t change = std::max(target_bytes, participant.now_bytes) -
                            std::min(target_bytes, participant.now_bytes);
    return change > participant.claim.max_bytes / kMinChange;
}

void resize(const Participant& participant, uint64_t target_bytes) {
    const double share =
        static_cast<double>(target_bytes) / static_cast<double>(participant.claim.max_bytes);
    try {
        participant.model->engine()->resize_cache(std::clamp(share, 1e-9, 1.0));
        log_info(fmt::format("{}: key-value cache of {}", participant.model->name(),
                             describe_bytes(target_bytes)));
    } catch (const Error& error) {
        log_warning(fmt::format("{}: the cache keeps its size: {}", participant.model->name(),
                                error.what()));
    }
}

}  // namespace

std::vector<uint64_t> share_pool(uint64_t pool_bytes, std::span<const CacheRequest> claims) {
    std::vector<uint64_t> shares;
    std::vector<uint64_t> needs;
    std::vector<uint64_t> mosts;
    uint64_t left = pool_bytes;
    for (const CacheRequest& claim : claims) {
        shares.push_back(claim.min_bytes);
        needs.push_back(std::min(claim.needed_bytes, claim.max_bytes));
        mosts.push_back(claim.max_bytes);
        left -= std::min(left, claim.min_bytes);
    }
    fill_evenly(left, shares, needs);
    fill_evenly(left, shares, mosts);
    return shares;
}

MemoryBroker::MemoryBroker(const ModelSet& models)
    : models_(models), thread_(start_thread([this] { run(); })) {}

MemoryBroker::~MemoryBroker() {
    {
        const std::lock_guard lock(mutex_);
        shutdown_ = true;
    }
    wake_.notify_all();
    thread_.join();
}

EngineConfig MemoryBroker::fit(EngineConfig config) const {
    const auto leave = [](std::optional<uint64_t>& bound, uint64_t bytes) {
        if (bound) *bound -= std::min(*bound, bytes);
    };
    for (const auto& model : holders(models_)) {
        const MemoryPlan& plan = model->engine()->memory_plan();
        leave(config.memory.kv_cache_bytes, min_bytes(plan));
        leave(config.memory.limit_bytes, min_bytes(plan) + fixed_bytes(plan));
    }
    return config;
}

void MemoryBroker::models_changed() {
    {
        const std::lock_guard lock(mutex_);
        changed_ = true;
    }
    wake_.notify_all();
}

void MemoryBroker::run() {
    std::unique_lock lock(mutex_);
    while (!shutdown_) {
        const auto is_wanted = [this] { return shutdown_ || changed_; };
        if (num_sharing_ > 1) {
            wake_.wait_for(lock, kShareInterval, is_wanted);
        } else {
            wake_.wait(lock, is_wanted);  // one model alone has it all
        }
        changed_ = false;
        if (shutdown_) return;
        lock.unlock();
        share();
        lock.lock();
    }
}

// A model gets more only after the others have freed it, so what is in use never exceeds the pool.
void MemoryBroker::share() {
    std::vector<Participant> participants;
    for (const auto& model : holders(models_)) participants.push_back(check_model(model));
    const bool is_new_round =
        std::exchange(num_sharing_, participants.size()) != participants.size();
    const bool is_wanted = participants.size() > 1 && std::ranges::any_of(participants, is_short);
    if (participants.empty() || !(is_new_round || is_wanted)) return;
    std::vector<CacheRequest> claims;
    for (const Participant& participant : participants) claims.push_back(participant.claim);
    const std::vector<uint64_t> shares = share_pool(pool_bytes(participants), claims);
    for (const bool is_shrinking : {true, false}) {
        for (size_t i = 0; i < participants.size(); ++i) {
            if ((shares[i] < participants[i].now_bytes) != is_shrinking) continue;
            if (is_worth_it(participants[i], shares[i])) resize(participants[i], shares[i]);
        }
    }
}

}  // namespace nvllm::server
