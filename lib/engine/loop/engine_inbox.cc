// Messages under one mutex; the event is only notified while the engine thread sleeps.
#include "lib/engine/loop/engine_inbox.h"

#include <utility>

#include "kernels/error.h"

namespace nvllm {

void EngineInbox::post(EngineMessage message) {
    messages_.push_back(std::move(message));
    if (asleep_) wake_event_.notify();
}

RequestId EngineInbox::submit(Request request, OutputListener listener) {
    const std::lock_guard lock(mutex_);
    const RequestId id = std::exchange(next_request_, next_request_ + id_step_);
    request.id = id;
    request.arrival_s = clock_.now_s();
    if (!request.sampling.seed) request.sampling.seed = seeds_();
    post(SubmitMessage{std::move(request), std::move(listener)});
    return id;
}

void EngineInbox::cancel(RequestId id) {
    const std::lock_guard lock(mutex_);
    post(CancelMessage{id});
}

void EngineInbox::hold(RequestId id, bool is_held) {
    const std::lock_guard lock(mutex_);
    post(HoldMessage{id, is_held});
}

void EngineInbox::forget_adapter(int32_t adapter) {
    const std::lock_guard lock(mutex_);
    post(ForgetAdapterMessage{adapter});
}

std::future<void> EngineInbox::resize(std::vector<int32_t> num_blocks) {
    ResizeMessage message{std::move(num_blocks), {}};
    std::future<void> done = message.done.get_future();
    const std::lock_guard lock(mutex_);
    if (shut_down_) throw Error(ErrorKind::unavailable, "the engine is shutting down");
    post(std::move(message));
    return done;
}

std::future<CacheReset> EngineInbox::reset_cache() {
    ResetCacheMessage message;
    std::future<CacheReset> done = message.done.get_future();
    const std::lock_guard lock(mutex_);
    if (shut_down_) throw Error(ErrorKind::unavailable, "the engine is shutting down");
    post(std::move(message));
    return done;
}

std::future<void> EngineInbox::write_out() {
    WriteOutMessage message;
    std::future<void> done = message.done.get_future();
    const std::lock_guard lock(mutex_);
    if (shut_down_) throw Error(ErrorKind::unavailable, "the engine is shutting down");
    post(std::move(message));
    return done;
}

std::future<Snapshot> EngineInbox::snapshot(SnapshotDetail detail) {
    SnapshotMessage message{detail, {}};
    std::future<Snapshot> future = message.promise.get_future();
    const std::lock_guard lock(mutex_);
    if (!shut_down_) post(std::move(message));
    return future;
}

void EngineInbox::shut_down() {
    {
        const std::lock_guard lock(mutex_);
        shut_down_ = true;
    }
    wake_event_.notify();
}

bool EngineInbox::is_shut_down() const {
    const std::lock_guard lock(mutex_);
    return shut_down_;
}

void EngineInbox::clear() {
    const std::lock_guard lock(mutex_);
    messages_.clear();
}

bool EngineInbox::await(std::vector<EngineMessage>& messages, bool has_work,
                        const std::function<void(WakeEvent&)>& sleep) {
    {
        const std::lock_guard lock(mutex_);
        if (shut_down_) return false;
        messages.swap(messages_);
        if (!messages.empty() || has_work) return true;
        asleep_ = true;
    }
    sleep(wake_event_);
    const std::lock_guard lock(mutex_);
    asleep_ = false;
    messages.swap(messages_);
    return !shut_down_;
}

}  // namespace nvllm
