// Messages to the engine thread, from any thread, and its sleep while there are none.
//
// Request ids and the order of messages agree: both are given under one lock.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <mutex>
#include <random>
#include <variant>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/engine/loop/engine_clock.h"
#include "lib/parallel/replica_place.h"
#include "lib/schedule/snapshot.h"
#include "lib/system/wake_event.h"

namespace nvllm {

struct SubmitMessage {
    Request request;
    OutputListener listener;
};
struct CancelMessage {
    RequestId id = 0;
};
struct HoldMessage {
    RequestId id = 0;
    bool is_held = true;  // false: the request resumes
};
struct ResizeMessage {
    std::vector<int32_t> num_blocks;  // in each cache group
    std::promise<void> done;
};
struct ResetCacheMessage {
    std::promise<CacheReset> done;
};
struct WriteOutMessage {
    std::promise<void> done;
};
struct ForgetAdapterMessage {
    int32_t adapter = 0;
};
struct SnapshotMessage {
    SnapshotDetail detail = SnapshotDetail::full;
    std::promise<Snapshot> promise;
};
using EngineMessage =
    std::variant<SubmitMessage, CancelMessage, HoldMessage, ResizeMessage, ResetCacheMessage,
                 WriteOutMessage, ForgetAdapterMessage, SnapshotMessage>;

class EngineInbox {
  public:
    EngineInbox(const EngineClock& clock, const ReplicaPlace& place)
        : clock_(clock),
          id_step_(static_cast<RequestId>(place.count)),
          next_request_(static_cast<RequestId>(place.index) + 1) {}

    // Any thread. A request without a seed gets a random one.
    RequestId submit(Request request, OutputListener listener);
    void cancel(RequestId id);
    void hold(RequestId id, bool is_held);
    // No request with it is submitted any more.
    void forget_adapter(int32_t adapter);
    // Ready when the cache has the new size. Throws unavailable after shut_down().
    std::future<void> resize(std::vector<int32_t> num_blocks);
    // Throws as resize().
    std::future<CacheReset> reset_cache();
    // Ready when files have all that they are to have, or a sequence is under way. Throws as
    // resize().
    std::future<void> write_out();
    // After shut_down() the promise is broken.
    std::future<Snapshot> snapshot(SnapshotDetail detail);

    // Any thread: ends await() for good.
    void shut_down();
    bool is_shut_down() const;
    // Drops the messages that were not taken; the promises in them are broken.
    void clear();

    // The engine thread: takes all messages. If there are none and there is no other work, waits
    // first, by `sleep`, which has to return when the event is notified. False after shut_down().
    bool await(std::vector<EngineMessage>& messages, bool has_work,
               const std::function<void(WakeEvent&)>& sleep);
    // Notified by shut_down(), and by messages while the engine thread sleeps.
    WakeEvent& wake_event() { return wake_event_; }

  private:
    // REQUIRES: the mutex is held.
    void post(EngineMessage message);

    const EngineClock& clock_;
    const RequestId id_step_;  // ids of a replica are alike modulo this
    WakeEvent wake_event_;
    mutable std::mutex mutex_;
    std::vector<EngineMessage> messages_;
    std::mt19937_64 seeds_{std::random_device{}()};
    RequestId next_request_;
    bool shut_down_ = false;
    bool asleep_ = false;  // the engine thread waits for the event
};

}  // namespace nvllm
