// Start of an engine, its thread, and what each message does.
#include "lib/engine/loop/engine_loop.h"

#include <fmt/format.h>

#include <utility>

#include "kernels/host/start_thread.h"
#include "lib/base/log.h"

namespace nvllm {
namespace {

// Nothing could be planned though work waits. The scheduler counts such steps, which are our
// mistake; the pause leaves the core to others.
constexpr std::chrono::milliseconds kStallPause{1};
// A slow disk does not keep a program from its end.
constexpr std::chrono::seconds kLongestWriteOut{10};

}  // namespace

EngineLoop::EngineLoop(const EngineMetadata& metadata, const MemoryPlan& plan,
                       const EngineClock& clock, std::unique_ptr<StepExecutor> executor)
    : clock_(clock),
      model_(metadata.config.model.name),
      watchdog_timeout_s_(metadata.config.compute.watchdog_timeout_s),
      inspection_socket_(metadata.config.inspection.socket),
      planned_blocks_(plan.num_blocks),
      inbox_(clock, metadata.place),
      executor_(std::move(executor)),
      cache_(std::make_unique<CacheManager>(cache_config(metadata.config, plan))),
      scheduler_(
          std::make_unique<Scheduler>(scheduler_config(metadata.config, metadata, plan), *cache_)),
      fragmentation_(*cache_, clock),
      faults_({*executor_, *scheduler_, delivery_, resizes_, status_, inbox_},
              metadata.config.scheduling.scheduler.max_num_batched_tokens,
              [this] { publish_progress(); }),
      steps_({*executor_, *scheduler_, delivery_, resizes_, faults_, status_.heartbeat(), clock,
              metadata.place.index},
             [this](const StepRecord& record) { note_step(record); }) {
    std::promise<WorkerReady> started;
    started_ = started.get_future();
    thread_ =
        start_thread([this, started = std::move(started)]() mutable { run(std::move(started)); });
}

WorkerReady EngineLoop::finish_start(std::shared_ptr<const Tokenizer> tokenizer) {
    delivery_.use_tokenizer(std::move(tokenizer));
    const WorkerReady ready = started_.get();
    if (watchdog_timeout_s_ > 0.0) status_.watch(*executor_, watchdog_timeout_s_);
    if (!inspection_socket_.empty()) {
        inspection_ = std::make_unique<InspectionServer>(
            inspection_socket_, [this](SnapshotDetail detail) { return inbox_.snapshot(detail); });
    }
    return ready;
}

EngineLoop::~EngineLoop() { stop(); }

void EngineLoop::stop() {
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

// What was computed since the disk was last idle would be lost.
void EngineLoop::write_out() {
    if (!cache_->disk_tier().enabled() || inbox_.is_shut_down() ||
        status_.health().state != EngineState::running) {
        return;
    }
    if (inbox_.write_out().wait_for(kLongestWriteOut) == std::future_status::ready) return;
    log_warning("blocks of the prefix cache were still to be written when the engine ended");
}

RequestId EngineLoop::submit(Request request, OutputListener listener) {
    status_.note_submitted();
    return inbox_.submit(std::move(request), std::move(listener));
}

void EngineLoop::resize_cache(double share) {
    if (!(share > 0.0 && share <= 1.0)) {
        throw Error(ErrorKind::usage,
                    fmt::format("the cache can take a share of (0, 1] of its plan, not {}", share));
    }
    std::vector<int32_t> num_blocks;
    for (const int32_t planned : planned_blocks_) {
        num_blocks.push_back(std::max(1, static_cast<int32_t>(share * planned)));
    }
    std::future<void> done = inbox_.resize(std::move(num_blocks));
    try {
        done.get();
    } catch (const std::future_error&) {
        throw Error(ErrorKind::unavailable, "the engine ended before its cache was resized");
    }
}

CacheReset EngineLoop::reset_prefix_cache() {
    try {
        return inbox_.reset_cache().get();
    } catch (const std::future_error&) {
        throw Error(ErrorKind::unavailable, "the engine ended before its cache was reset");
    }
}

void EngineLoop::run(std::promise<WorkerReady> started) {
    if (!start_worker(started)) return;
    const auto sleep_until = [this](WakeEvent& event) { sleep(event); };
    std::vector<EngineMessage> messages;
    while (inbox_.await(messages, steps_.can_step(), sleep_until)) {
        status_.heartbeat().tick(EnginePhase::planning);
        try {
            for (EngineMessage& message : messages) take(message);
            faults_.check_worker(steps_.can_step());
            if (steps_.can_step() && !steps_.step()) pause();
        } catch (const std::exception& error) {
            faults_.give_up(error.what());
        }
        messages.clear();
        publish_progress();
    }
    executor_->rest();
}

void EngineLoop::pause() {
    executor_->rest();
    std::this_thread::sleep_for(kStallPause);
}

// A child process ends with the thread that started it, so the engine thread starts it.
bool EngineLoop::start_worker(std::promise<WorkerReady>& started) {
    try {
        const auto goes_on = [this] {
            inbox_.wake_event().wait(executor_->readable_descriptor(), std::nullopt);
            return !inbox_.is_shut_down();
        };
        const std::optional<WorkerReady> ready = faults_.start_worker(goes_on);
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

void EngineLoop::sleep(WakeEvent& event) {
    const bool is_dead = faults_.dead().has_value();
    const bool waits_for_worker = !is_dead && !faults_.worker_is_ready();
    executor_->rest();
    status_.heartbeat().tick(waits_for_worker ? EnginePhase::starting : EnginePhase::idle);
    if (is_dead) return event.wait(std::nullopt, std::nullopt);
    event.wait(executor_->readable_descriptor(), faults_.wake_after());
}

void EngineLoop::take(EngineMessage& message) {
    if (auto* submitted = std::get_if<SubmitMessage>(&message)) {
        add(*submitted);
    } else if (auto* cancelled = std::get_if<CancelMessage>(&message)) {
        cancel(cancelled->id);
    } else if (auto* held = std::get_if<HoldMessage>(&message)) {
        held->is_held ? scheduler_->backpressure().pause(held->id)
                      : scheduler_->backpressure().resume(held->id);
    } else if (auto* asked = std::get_if<SnapshotMessage>(&message)) {
        answer(*asked);
    } else if (auto* reset = std::get_if<ResetCacheMessage>(&message)) {
        reset->done.set_value(cache_->clear_unused());
    } else if (auto* written = std::get_if<WriteOutMessage>(&message)) {
        writes_out_.push_back(std::move(written->done));
    } else if (auto* forgotten = std::get_if<ForgetAdapterMessage>(&message)) {
        scheduler_->retire_adapter(forgotten->adapter);
    } else if (!faults_.dead()) {
        resizes_.add(std::move(std::get<ResizeMessage>(message)));
    }
}

void EngineLoop::add(SubmitMessage& message) {
    const Request& request = message.request;
    delivery_.open(request.id, std::move(message.listener));
    if (faults_.dead()) return delivery_.refuse(request, *faults_.dead());
    auto sequences = scheduler_->add(request);
    if (!sequences) return delivery_.refuse(request, sequences.fault());
    delivery_.add(request, *sequences);
}

void EngineLoop::cancel(RequestId id) {
    delivery_.finish(id, FinishReason::cancelled);
    scheduler_->cancel(id);
    delivery_.emit(id);
}

// A snapshot that fails, for example because memory is short, must not end the engine.
void EngineLoop::answer(SnapshotMessage& message) const {
    try {
        message.promise.set_value(take_snapshot(message.detail));
    } catch (...) {
        message.promise.set_exception(std::current_exception());
    }
}

Snapshot EngineLoop::take_snapshot(SnapshotDetail detail) const {
    Snapshot snapshot = scheduler_->snapshot(detail, clock_.now_s());
    snapshot.config.model = model_;
    return snapshot;
}

void EngineLoop::note_step(const StepRecord& record) {
    if (step_listener) step_listener(record);
    if (snapshot_listener && record.plan_number == snapshot_step) {
        snapshot_listener(take_snapshot(SnapshotDetail::full));
    }
}

void EngineLoop::publish_progress() {
    EngineStats stats;
    stats.scheduler = scheduler_->stats();
    stats.cache = cache_->stats();
    stats.faults = faults_.counts();
    stats.device = steps_.device_counts();
    stats.fragmentation = fragmentation_.measure();
    status_.publish(stats, faults_.state(), executor_->process_id(), delivery_.take_num_finished());
    resizes_.report_done();
    if (!writes_out_.empty()) report_written();
}

void EngineLoop::report_written() {
    const SchedulerStats stats = scheduler_->stats();
    const bool has_sequences = stats.num_running + stats.num_waiting > 0;
    if (cache_->disk_tier().has_work() && !has_sequences && !faults_.dead()) return;
    for (std::promise<void>& done : writes_out_) done.set_value();
    writes_out_.clear();
}

}  // namespace nvllm
