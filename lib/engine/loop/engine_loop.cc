// Start of an engine, its thread, and the messages it gets.
#include "lib/engine/loop/engine_loop.h"

#include <fmt/format.h>

#include <utility>

#include "kernels/host/start_thread.h"
#include "lib/base/log.h"
#include "lib/checkpoint/pooling_config.h"
#include "lib/engine/model_choice.h"
#include "lib/tokenizer/model_notes.h"

namespace nvllm {
namespace {

using Clock = std::chrono::steady_clock;

// Nothing could be planned though work waits: our mistake, counted by the scheduler, which must not
// take a whole core as well.
constexpr std::chrono::milliseconds kStallPause{1};

double milliseconds_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

}  // namespace

double Engine::Loop::now_s() const { return milliseconds_since(started_) / 1000.0; }

Engine::Loop::Loop(const EngineConfig& given) {
    const Clock::time_point begin = Clock::now();
    const EngineMetadata metadata = engine_metadata(given);
    const EngineConfig& config = metadata.config;
    plan = make_memory_plan(metadata.memory);
    model_config = metadata.model.config;
    model_name_ = config.model;
    cache_ = std::make_unique<CacheManager>(cache_config(config, plan));
    scheduler_ = std::make_unique<Scheduler>(scheduler_config(config, model_config, plan), *cache_);
    executor_ = make_executor(config, metadata, plan);
    recovery_.emplace(*executor_);
    faults_.emplace(config.max_num_batched_tokens.value());
    timings.config_ms = milliseconds_since(begin);
    try {
        load(metadata, begin);
    } catch (...) {
        stop();
        throw;
    }
}

// The tokenizer reads and parses while the engine thread has the weights mapped or converted.
void Engine::Loop::load(const EngineMetadata& metadata, Clock::time_point begin) {
    const EngineConfig& config = metadata.config;
    std::promise<WorkerReady> started;
    std::future<WorkerReady> worker = started.get_future();
    thread_ =
        start_thread([this, started = std::move(started)]() mutable { run(std::move(started)); });
    const Clock::time_point phase = Clock::now();
    tokenizer = Tokenizer::load(tokenizer_directory(config, metadata.options.directory));
    timings.tokenizer_ms = milliseconds_since(phase);
    const GenerationConfig generation =
        chosen_generation_config(config, metadata.options.directory);
    notes =
        nvllm::model_notes(model_config, metadata.model.weights_note, tokenizer.get(), generation);
    input_ = std::make_unique<InputProcessor>(
        tokenizer, model_config, generation, read_pooling_config(metadata.options.directory),
        plan.max_model_len, read_chat_template(config.chat_template));
    output_ = std::make_unique<OutputProcessor>(tokenizer);
    const WorkerReady ready = worker.get();
    timings.weights_ms = ready.weights_ms;
    timings.worker_ms = ready.worker_ms;
    timings.total_ms = milliseconds_since(begin);
    if (config.watchdog_timeout_s > 0.0) {
        watchdog_ = std::make_unique<Watchdog>(heartbeat_, *executor_, config.watchdog_timeout_s);
    }
    if (!config.inspect_socket.empty()) {
        inspection_ = std::make_unique<InspectionServer>(
            config.inspect_socket, [this](SnapshotDetail detail) { return snapshot(detail); });
    }
}

Engine::Loop::~Loop() { stop(); }

void Engine::Loop::stop() {
    inspection_.reset();
    std::unique_ptr<Watchdog> watchdog;
    {
        const std::lock_guard lock(mutex_);
        shutdown_ = true;
        watchdog = std::move(watchdog_);
    }
    wake_event_.ring();
    // Nobody wants the step that is under way.
    executor_->kill("the engine ends");
    if (thread_.joinable()) thread_.join();
    // Listeners may own what owns the engine: they go now that nobody calls them, or never.
    const std::unordered_map<RequestId, OutputListener> unheard = std::exchange(listeners_, {});
    // Whoever waits for a snapshot, or for another size of the cache, is told that none comes.
    const std::lock_guard lock(mutex_);
    inbox_.clear();
    resizes_.clear();
}

void Engine::Loop::post(Message message) {
    inbox_.push_back(std::move(message));
    if (asleep_) wake_event_.ring();
}

std::future<Snapshot> Engine::Loop::snapshot(SnapshotDetail detail) {
    std::promise<Snapshot> promise;
    std::future<Snapshot> future = promise.get_future();
    const std::lock_guard lock(mutex_);
    if (!shutdown_) post(Looked{detail, std::move(promise)});
    return future;
}

// Whoever looks in must not be the end of it, not even for want of memory.
void Engine::Loop::answer(Looked& looked) const {
    try {
        looked.promise.set_value(take_snapshot(looked.detail));
    } catch (...) {
        looked.promise.set_exception(std::current_exception());
    }
}

Snapshot Engine::Loop::take_snapshot(SnapshotDetail detail) const {
    Snapshot snapshot = scheduler_->snapshot(detail, now_s());
    snapshot.config.model = model_name_;
    return snapshot;
}

RequestId Engine::Loop::submit(Request request, OutputListener listener) {
    const std::lock_guard lock(mutex_);
    request.id = next_request_++;
    request.arrival_s = now_s();
    if (!request.sampling.seed) request.sampling.seed = seeds_();
    const RequestId id = request.id;
    ++num_open_;
    post(Submitted{std::move(request), std::move(listener)});
    return id;
}

void Engine::Loop::cancel(RequestId id) {
    const std::lock_guard lock(mutex_);
    post(Cancelled{id});
}

void Engine::Loop::hold(RequestId id, bool is_held) {
    const std::lock_guard lock(mutex_);
    post(Held{id, is_held});
}

void Engine::Loop::wait_idle() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return num_open_ == 0; });
}

void Engine::Loop::resize_cache(double share) {
    if (!(share > 0.0 && share <= 1.0)) {
        throw Error(ErrorKind::usage,
                    fmt::format("the cache can take a share of (0, 1] of its plan, not {}", share));
    }
    Resize resize;
    for (const int32_t planned : plan.num_blocks) {
        resize.num_blocks.push_back(std::max(1, static_cast<int32_t>(share * planned)));
    }
    std::future<void> done = resize.done.get_future();
    {
        const std::lock_guard lock(mutex_);
        if (shutdown_) throw Error(ErrorKind::unavailable, "the engine is ending");
        post(std::move(resize));
    }
    try {
        done.get();
    } catch (const std::future_error&) {
        throw Error(ErrorKind::unavailable, "the engine ended before its cache was resized");
    }
}

void Engine::Loop::run(std::promise<WorkerReady> started) {
    if (!start_worker(started)) return;
    std::vector<Message> messages;
    while (await_work(messages)) {
        heartbeat_.tick(EnginePhase::planning);
        try {
            for (Message& message : messages) take(message);
            attend_worker();
            if (can_step() && !step()) std::this_thread::sleep_for(kStallPause);
        } catch (const std::exception& error) {
            give_up(error.what());
        }
        messages.clear();
        publish_progress();
    }
}

// A child process ends with the thread that started it, so this one does.
bool Engine::Loop::start_worker(std::promise<WorkerReady>& started) {
    try {
        const auto goes_on = [this] {
            wake_event_.wait(executor_->readable_descriptor(), std::nullopt);
            return !is_shutting_down();
        };
        const std::optional<WorkerReady> ready = recovery_->start_first(goes_on);
        if (!ready) return false;
        publish_progress();
        started.set_value(*ready);
        return true;
    } catch (const WorkerDied& lost) {
        started.set_exception(std::make_exception_ptr(Error(
            ErrorKind::unavailable, fmt::format("the worker did not start: {}", lost.what()))));
    } catch (...) {
        started.set_exception(std::current_exception());
    }
    return false;
}

bool Engine::Loop::is_shutting_down() const {
    const std::lock_guard lock(mutex_);
    return shutdown_;
}

bool Engine::Loop::await_work(std::vector<Message>& messages) {
    {
        const std::lock_guard lock(mutex_);
        if (shutdown_) return false;
        messages.swap(inbox_);
        if (!messages.empty() || can_step()) return true;
        asleep_ = true;
    }
    sleep();
    const std::lock_guard lock(mutex_);
    asleep_ = false;
    messages.swap(inbox_);
    return !shutdown_;
}

void Engine::Loop::sleep() {
    const bool waits_for_worker = !recovery_->ready() && !dead_;
    heartbeat_.tick(waits_for_worker ? EnginePhase::starting : EnginePhase::idle);
    if (dead_) return wake_event_.wait(std::nullopt, std::nullopt);
    wake_event_.wait(executor_->readable_descriptor(), recovery_->wake_after(Clock::now()));
}

void Engine::Loop::take(Message& message) {
    if (auto* submitted = std::get_if<Submitted>(&message)) {
        start(*submitted);
    } else if (auto* cancelled = std::get_if<Cancelled>(&message)) {
        cancel_now(cancelled->id);
    } else if (auto* held = std::get_if<Held>(&message)) {
        held->is_held ? scheduler_->pause_for_client(held->id)
                      : scheduler_->resume_for_client(held->id);
    } else if (auto* looked = std::get_if<Looked>(&message)) {
        answer(*looked);
    } else if (!dead_) {
        resizes_.push_back(std::move(std::get<Resize>(message)));
    }
}

void Engine::Loop::start(Submitted& submitted) {
    const Request& request = submitted.request;
    listeners_.emplace(request.id, std::move(submitted.listener));
    if (dead_) return refuse(request, *dead_);
    auto sequences = scheduler_->add(request);
    if (!sequences) return refuse(request, sequences.fault());
    output_->add(request, *sequences);
}

void Engine::Loop::refuse(const Request& request, const Fault& fault) {
    RequestOutput output;
    output.request_id = request.id;
    output.times.arrival_s = request.arrival_s;
    output.times.finished_s = output.times.output_s = now_s();
    output.num_prompt_tokens = static_cast<int32_t>(request.prompt_token_ids.size());
    for (int32_t index = 0; index < request.sampling.n; ++index) {
        ContinuationOutput failed;
        failed.index = index;
        failed.finish_reason = FinishReason::error;
        failed.fault = fault;
        output.continuations.push_back(std::move(failed));
    }
    output.finished = true;
    deliver(std::move(output));
}

void Engine::Loop::cancel_now(RequestId id) {
    for (const SequenceId sequence : output_->active(id)) {
        output_->finish(sequence, FinishReason::cancelled);
    }
    scheduler_->cancel(id);
    emit(id);
}

// In the order they were asked for; one that cannot be done yet is tried again before the next
// step.
void Engine::Loop::resize() {
    while (!resizes_.empty()) {
        try {
            if (!scheduler_->resize_cache(resizes_.front().num_blocks, now_s())) return;
            resized_.push_back(std::move(resizes_.front().done));
        } catch (const Error&) {
            resizes_.front().done.set_exception(std::current_exception());
        }
        resizes_.pop_front();
    }
}

// Together, so that whoever waited for the engine to be idle finds the figures of an idle engine.
void Engine::Loop::publish_progress() {
    look_for_fragmentation();
    const std::lock_guard lock(mutex_);
    stats_.scheduler = scheduler_->stats();
    stats_.cache = cache_->stats();
    stats_.faults = faults_->counts;
    stats_.device = device_counts_;
    stats_.fragmentation = fragmentation_;
    health_.worker_restarts = stats_.faults.worker_restarts;
    health_.weight_reloads = stats_.faults.weight_reloads;
    health_.worker_pid = executor_->process_id();
    health_.state = dead_                ? EngineState::failed
                    : recovery_->ready() ? EngineState::running
                                         : EngineState::recovering;
    num_open_ -= std::exchange(num_delivered_, 0);
    if (num_open_ == 0) idle_.notify_all();
    for (std::promise<void>& done : std::exchange(resized_, {})) done.set_value();
}

EngineStats Engine::Loop::stats() const {
    const std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    // Whoever waited for the engine to be idle finds an idle engine's.
    if (num_open_ > 0) stats.seconds_since_heartbeat = heartbeat_.seconds_since();
    return stats;
}

EngineHealth Engine::Loop::health() const {
    const std::lock_guard lock(mutex_);
    EngineHealth health = health_;
    if (num_open_ > 0) health.seconds_since_heartbeat = heartbeat_.seconds_since();
    const bool stalls = watchdog_ != nullptr && watchdog_->stalled();
    if (stalls && health.state == EngineState::running) health.state = EngineState::stalled;
    return health;
}

}  // namespace nvllm
