// Start of an engine, its thread, and what each message does.
#include "lib/engine/loop/engine_loop.h"

#include <fmt/format.h>

#include <utility>

#include "kernels/host/start_thread.h"
#include "lib/checkpoint/pooling_config.h"
#include "lib/engine/model_choice.h"
#include "lib/tokenizer/model_notes.h"

namespace nvllm {
namespace {

using Clock = EngineClock::Clock;

// Nothing could be planned though work waits. The scheduler counts such steps, which are our
// mistake; the pause leaves the core to others.
constexpr std::chrono::milliseconds kStallPause{1};

double milliseconds_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

Engine::Loop::Loop(const EngineConfig& given) {
    const Clock::time_point begin = Clock::now();
    const EngineMetadata metadata = engine_metadata(given);
    make_parts(metadata);
    model_.timings.config_ms = milliseconds_since(begin);
    try {
        load(metadata);
        model_.timings.total_ms = milliseconds_since(begin);
        open_for_others(metadata.config);
    } catch (...) {
        stop();
        throw;
    }
}

void Engine::Loop::make_parts(const EngineMetadata& metadata) {
    const EngineConfig& config = metadata.config;
    model_.name = config.model.name;
    model_.config = metadata.model.config;
    model_.plan = make_memory_plan(metadata.memory);
    cache_ = std::make_unique<CacheManager>(cache_config(config, model_.plan));
    scheduler_ =
        std::make_unique<Scheduler>(scheduler_config(config, metadata, model_.plan), *cache_);
    executor_ = make_executor(config, metadata, model_.plan);
    fragmentation_.emplace(*cache_, clock_);
    faults_.emplace(
        FaultHandlerParts{*executor_, *scheduler_, delivery_, resizes_, status_, inbox_},
        config.scheduling.scheduler.max_num_batched_tokens, [this] { publish_progress(); });
    steps_.emplace(StepRunnerParts{*executor_, *scheduler_, delivery_, resizes_, *faults_,
                                   status_.heartbeat(), clock_},
                   [this](const StepRecord& record) { note_step(record); });
}

// The tokenizer is read and parsed while the engine thread maps or converts the weights.
void Engine::Loop::load(const EngineMetadata& metadata) {
    std::promise<WorkerReady> started;
    std::future<WorkerReady> worker = started.get_future();
    thread_ =
        start_thread([this, started = std::move(started)]() mutable { run(std::move(started)); });
    load_texts(metadata);
    const WorkerReady ready = worker.get();
    model_.timings.weights_ms = ready.weights_ms;
    model_.timings.worker_ms = ready.worker_ms;
}

void Engine::Loop::load_texts(const EngineMetadata& metadata) {
    const EngineConfig& config = metadata.config;
    const Clock::time_point begin = Clock::now();
    model_.tokenizer = Tokenizer::load(tokenizer_directory(config, metadata.options.directory));
    if (model_.tokenizer != nullptr) {
        check_vocabulary(metadata.drafts, *model_.tokenizer,
                         tokenizer_directory(config, metadata.options.directory));
    }
    model_.timings.tokenizer_ms = milliseconds_since(begin);
    const GenerationConfig generation =
        chosen_generation_config(config, metadata.options.directory);
    model_.notes = nvllm::model_notes(model_.config, metadata.model.weights_note,
                                      model_.tokenizer.get(), generation);
    if (!metadata.model.replicated_modules.empty()) {
        model_.notes.push_back(fmt::format(
            "every rank has all of {} modules, which cannot be shared out; the first: {}",
            metadata.model.replicated_modules.size(), metadata.model.replicated_modules.front()));
    }
    input_ = std::make_unique<InputProcessor>(
        model_.tokenizer, model_.config, generation,
        read_pooling_config(metadata.options.directory), model_.plan.max_model_len,
        read_chat_template(config.model.chat_template), config.model.classifier_from_token);
    delivery_.use_tokenizer(model_.tokenizer);
}

void Engine::Loop::open_for_others(const EngineConfig& config) {
    if (config.compute.watchdog_timeout_s > 0.0) {
        status_.watch(*executor_, config.compute.watchdog_timeout_s);
    }
    if (!config.inspection.socket.empty()) {
        inspection_ = std::make_unique<InspectionServer>(
            config.inspection.socket,
            [this](SnapshotDetail detail) { return inbox_.snapshot(detail); });
    }
}

Engine::Loop::~Loop() { stop(); }

void Engine::Loop::stop() {
    inspection_.reset();
    inbox_.shut_down();
    // The step in flight is not needed any more.
    executor_->kill("the engine ends");
    if (thread_.joinable()) thread_.join();
    status_.unwatch();
    delivery_.drop_listeners();
    // Threads that wait for a snapshot or a resize get a broken promise.
    inbox_.clear();
    resizes_.clear();
}

RequestId Engine::Loop::submit(Request request, OutputListener listener) {
    status_.note_submitted();
    return inbox_.submit(std::move(request), std::move(listener));
}

void Engine::Loop::resize_cache(double share) {
    if (!(share > 0.0 && share <= 1.0)) {
        throw Error(ErrorKind::usage,
                    fmt::format("the cache can take a share of (0, 1] of its plan, not {}", share));
    }
    std::vector<int32_t> num_blocks;
    for (const int32_t planned : model_.plan.num_blocks) {
        num_blocks.push_back(std::max(1, static_cast<int32_t>(share * planned)));
    }
    std::future<void> done = inbox_.resize(std::move(num_blocks));
    try {
        done.get();
    } catch (const std::future_error&) {
        throw Error(ErrorKind::unavailable, "the engine ended before its cache was resized");
    }
}

CacheReset Engine::Loop::reset_prefix_cache() {
    try {
        return inbox_.reset_cache().get();
    } catch (const std::future_error&) {
        throw Error(ErrorKind::unavailable, "the engine ended before its cache was reset");
    }
}

void Engine::Loop::run(std::promise<WorkerReady> started) {
    if (!start_worker(started)) return;
    const auto sleep_until = [this](WakeEvent& event) { sleep(event); };
    std::vector<EngineMessage> messages;
    while (inbox_.await(messages, steps_->can_step(), sleep_until)) {
        status_.heartbeat().tick(EnginePhase::planning);
        try {
            for (EngineMessage& message : messages) take(message);
            faults_->check_worker(steps_->can_step());
            if (steps_->can_step() && !steps_->step()) std::this_thread::sleep_for(kStallPause);
        } catch (const std::exception& error) {
            faults_->give_up(error.what());
        }
        messages.clear();
        publish_progress();
    }
}

// A child process ends with the thread that started it, so the engine thread starts it.
bool Engine::Loop::start_worker(std::promise<WorkerReady>& started) {
    try {
        const auto goes_on = [this] {
            inbox_.wake_event().wait(executor_->readable_descriptor(), std::nullopt);
            return !inbox_.is_shut_down();
        };
        const std::optional<WorkerReady> ready = faults_->start_worker(goes_on);
        if (!ready) return false;
        publish_progress();
        started.set_value(*ready);
        return true;
    } catch (const WorkerDied& death) {
        started.set_exception(std::make_exception_ptr(Error(
            ErrorKind::unavailable, fmt::format("the worker did not start: {}", death.what()))));
    } catch (...) {
        started.set_exception(std::current_exception());
    }
    return false;
}

void Engine::Loop::sleep(WakeEvent& event) {
    const bool is_dead = faults_->dead().has_value();
    const bool waits_for_worker = !is_dead && !faults_->worker_is_ready();
    status_.heartbeat().tick(waits_for_worker ? EnginePhase::starting : EnginePhase::idle);
    if (is_dead) return event.wait(std::nullopt, std::nullopt);
    event.wait(executor_->readable_descriptor(), faults_->wake_after());
}

void Engine::Loop::take(EngineMessage& message) {
    if (auto* submitted = std::get_if<SubmitMessage>(&message)) {
        add(*submitted);
    } else if (auto* cancelled = std::get_if<CancelMessage>(&message)) {
        cancel(cancelled->id);
    } else if (auto* held = std::get_if<HoldMessage>(&message)) {
        held->is_held ? scheduler_->pause_for_client(held->id)
                      : scheduler_->resume_for_client(held->id);
    } else if (auto* asked = std::get_if<SnapshotMessage>(&message)) {
        answer(*asked);
    } else if (auto* reset = std::get_if<ResetCacheMessage>(&message)) {
        reset->done.set_value(cache_->clear_unused());
    } else if (!faults_->dead()) {
        resizes_.add(std::move(std::get<ResizeMessage>(message)));
    }
}

void Engine::Loop::add(SubmitMessage& message) {
    const Request& request = message.request;
    delivery_.open(request.id, std::move(message.listener));
    if (faults_->dead()) return delivery_.refuse(request, *faults_->dead());
    auto sequences = scheduler_->add(request);
    if (!sequences) return delivery_.refuse(request, sequences.fault());
    delivery_.add(request, *sequences);
}

void Engine::Loop::cancel(RequestId id) {
    delivery_.finish(id, FinishReason::cancelled);
    scheduler_->cancel(id);
    delivery_.emit(id);
}

// A snapshot that fails, for example because memory is short, must not end the engine.
void Engine::Loop::answer(SnapshotMessage& message) const {
    try {
        message.promise.set_value(take_snapshot(message.detail));
    } catch (...) {
        message.promise.set_exception(std::current_exception());
    }
}

Snapshot Engine::Loop::take_snapshot(SnapshotDetail detail) const {
    Snapshot snapshot = scheduler_->snapshot(detail, clock_.now_s());
    snapshot.config.model = model_.name;
    return snapshot;
}

void Engine::Loop::note_step(const StepRecord& record) {
    if (step_listener) step_listener(record);
    if (snapshot_listener && record.plan_number == snapshot_step) {
        snapshot_listener(take_snapshot(SnapshotDetail::full));
    }
}

void Engine::Loop::publish_progress() {
    EngineStats stats;
    stats.scheduler = scheduler_->stats();
    stats.cache = cache_->stats();
    stats.faults = faults_->counts();
    stats.device = steps_->device_counts();
    stats.fragmentation = fragmentation_->measure();
    status_.publish(stats, faults_->state(), executor_->process_id(),
                    delivery_.take_num_finished());
    resizes_.report_done();
}

}  // namespace nvllm
