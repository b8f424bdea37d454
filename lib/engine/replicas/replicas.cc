// Start of all replicas, and what goes to one of them or to each.
#include "lib/engine/replicas/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "lib/checkpoint/pooling_config.h"
#include "lib/engine/disk_cache.h"
#include "lib/engine/executor_choice.h"
#include "lib/engine/model_choice.h"
#include "lib/engine/replicas/replica_sums.h"
#include "lib/tokenizer/model_notes.h"

namespace nvllm {
namespace {

using Clock = EngineClock::Clock;

double milliseconds_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

// The tokenizer is read and parsed while the engine threads map or convert the weights.
Engine::Replicas::Replicas(const EngineConfig& given) {
    const Clock::time_point begin = Clock::now();
    EngineMetadata metadata = engine_metadata(given);
    model_.config = metadata.model.config;
    model_.plan = make_memory_plan(metadata.memory);
    model_.timings.config_ms = milliseconds_since(begin);
    const std::string& record = metadata.config.compute.parallel.record_expert_load;
    if (!record.empty()) recorder_.emplace(record);
    load_adapters(metadata);
    start_loops(metadata);
    load_texts(metadata);
    for (const auto& loop : loops_) {
        const WorkerReady ready = loop->finish_start(model_.tokenizer);
        model_.timings.weights_ms = std::max(model_.timings.weights_ms, ready.weights_ms);
        model_.timings.worker_ms = std::max(model_.timings.worker_ms, ready.worker_ms);
    }
    set_step_listener({});
    model_.timings.total_ms = milliseconds_since(begin);
}

// Those that are named at the start are checked before a weight is read.
void Engine::Replicas::load_adapters(const EngineMetadata& metadata) {
    const auto forget = [this](int32_t adapter) {
        for (const auto& loop : loops_) loop->inbox().forget_adapter(adapter);
    };
    adapters_ =
        std::make_unique<AdapterRegistry>(metadata.lora_targets, metadata.lora.limits, forget);
    for (const NamedAdapter& named : metadata.lora.modules) {
        const AdapterInfo info = adapters_->load(named.name, named.folder).value_or_throw();
        if (!info.note.empty()) model_.notes.push_back(info.note);
    }
    if (metadata.lora.folder.empty()) return;
    adapters_->watch(metadata.lora.folder);
    for (std::string& fault : adapters_->check_folder()) model_.notes.push_back(std::move(fault));
}

void Engine::Replicas::start_loops(EngineMetadata& metadata) {
    const ParallelOptions& parallel = metadata.config.compute.parallel;
    CacheConfig& cache = metadata.config.kv_cache.cache;
    cache.disk_store = open_disk_store(metadata, model_.plan);
    if (cache.disk_store != nullptr) cache.disk_blocks = disk_blocks(model_.plan);
    if (parallel.data > 1) {
        cache.hash_key =
            cache.disk_store != nullptr ? cache.disk_store->hash_key() : HashKey::random();
        router_.emplace(ReplicaRouterConfig{
            .routing = parallel.routing,
            .num_replicas = parallel.data,
            .hash_key = *cache.hash_key,
            .block_size = model_.plan.block_size,
            .caches_prefixes = cache.enable_prefix_caching,
            .scheduler = scheduler_config(metadata.config, metadata, model_.plan)});
    }
    std::vector<EngineMetadata> each;
    for (int32_t replica = 0; replica < parallel.data; ++replica) {
        each.push_back(of_replica(metadata, {replica, parallel.data}));
        if (replica > 0) {
            each.back().config.kv_cache.cache.disk_store = open_disk_store(metadata, model_.plan);
        }
        if (router_) each.back().config.kv_cache.cache.listener = &router_->cached_keys(replica);
    }
    auto executors = make_executors(metadata.config, each, model_.plan);
    for (size_t i = 0; i < each.size(); ++i) {
        loops_.push_back(
            std::make_unique<EngineLoop>(each[i], model_.plan, clock_, std::move(executors[i])));
    }
}

void Engine::Replicas::load_texts(const EngineMetadata& metadata) {
    const EngineConfig& config = metadata.config;
    const std::filesystem::path& directory = metadata.options.directory;
    const Clock::time_point begin = Clock::now();
    model_.tokenizer = Tokenizer::load(tokenizer_directory(config, directory));
    if (model_.tokenizer != nullptr) {
        check_vocabulary(metadata.drafts, *model_.tokenizer,
                         tokenizer_directory(config, directory));
    }
    model_.timings.tokenizer_ms = milliseconds_since(begin);
    const GenerationConfig generation = chosen_generation_config(config, directory);
    std::vector<std::string> notes = nvllm::model_notes(model_.config, metadata.model.weights_note,
                                                        model_.tokenizer.get(), generation);
    model_.notes.insert(model_.notes.begin(), notes.begin(), notes.end());
    if (!metadata.model.replicated_modules.empty()) {
        model_.notes.push_back(fmt::format(
            "every rank has all of {} modules, which cannot be shared out; the first: {}",
            metadata.model.replicated_modules.size(), metadata.model.replicated_modules.front()));
    }
    input_ = std::make_unique<InputProcessor>(
        model_.tokenizer, model_.config, generation, read_pooling_config(directory),
        model_.plan.max_model_len, read_chat_template(config.model.chat_template),
        config.model.classifier_from_token);
}

// A replica whose worker could not be started again refuses what it is given.
std::vector<bool> Engine::Replicas::usable() const {
    std::vector<bool> usable;
    for (const auto& loop : loops_) {
        usable.push_back(loop->status().health().state != EngineState::failed);
    }
    return usable;
}

// Tells the router how far the request is.
OutputListener Engine::Replicas::routed(Route route, OutputListener listener) {
    return [this, route = std::move(route),
            listener = std::move(listener)](RequestOutput&& output) mutable {
        if (output.finished) {
            router_->ended(route);
        } else if (output.times.first_token_s) {
            router_->prompt_computed(route);
        }
        const std::lock_guard lock(listening_);
        listener(std::move(output));
    };
}

RequestId Engine::Replicas::submit(Request request, OutputListener listener) {
    if (!router_) return loop(0).submit(std::move(request), std::move(listener));
    Route route = router_->choose(request, usable());
    EngineLoop& chosen = loop(route.replica);
    return chosen.submit(std::move(request), routed(std::move(route), std::move(listener)));
}

void Engine::Replicas::resize_cache(double share) {
    for (const auto& loop : loops_) loop->resize_cache(share);
}

CacheReset Engine::Replicas::reset_prefix_cache() {
    CacheReset sum;
    for (const auto& loop : loops_) {
        const CacheReset reset = loop->reset_prefix_cache();
        sum.removed += reset.removed;
        sum.in_use += reset.in_use;
    }
    return sum;
}

void Engine::Replicas::wait_idle() {
    for (const auto& loop : loops_) loop->status().wait_idle();
}

void Engine::Replicas::stop() {
    for (const auto& loop : loops_) loop->write_out();
    // All first: one that lost what it shares must not start it again.
    for (const auto& loop : loops_) loop->inbox().shut_down();
    for (const auto& loop : loops_) loop->stop();
}

void Engine::Replicas::set_step_listener(const std::function<void(const StepRecord&)>& listener) {
    for (const auto& loop : loops_) {
        if (!router_ && !recorder_) {
            loop->step_listener = listener;
            continue;
        }
        loop->step_listener = [this, listener](const StepRecord& record) {
            const std::lock_guard lock(listening_);
            if (recorder_) recorder_->add(record.expert_load);
            if (listener) listener(record);
        };
    }
}

EngineStats Engine::Replicas::stats() const {
    std::vector<EngineStats> each;
    for (const auto& loop : loops_) each.push_back(loop->status().stats());
    EngineStats sum = sum_of(each);
    if (!router_) return sum;
    const std::vector<int64_t> num_routed = router_->num_routed();
    for (size_t i = 0; i < each.size(); ++i) {
        sum.replicas.push_back({.state = loops_[i]->status().health().state,
                                .num_routed = num_routed[i],
                                .num_running = each[i].scheduler.num_running,
                                .num_waiting = each[i].scheduler.num_waiting,
                                .blocks = each[i].cache.blocks,
                                .queried_tokens = each[i].cache.queried_tokens,
                                .hit_tokens = each[i].cache.hit_tokens});
    }
    return sum;
}

EngineHealth Engine::Replicas::health() const {
    std::vector<EngineHealth> each;
    for (const auto& loop : loops_) each.push_back(loop->status().health());
    return health_of(each);
}

}  // namespace nvllm
