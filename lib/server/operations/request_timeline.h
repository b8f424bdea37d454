// What happened to requests and steps lately, written as Chrome trace events for Perfetto
// (ui.perfetto.dev) and chrome://tracing.
//
// Two rings of fixed size, one of what happened to requests and one of steps: the oldest is
// forgotten first. One timeline an engine: times are on its clock. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/request/request_output.h"

namespace nvllm::server {

struct TimelineSizes {
    size_t request_events = 32768;  // a request makes about four
    size_t steps = 16384;
};

class RequestTimeline {
  public:
    explicit RequestTimeline(std::string engine_name, const TimelineSizes& sizes = {});

    // For the engine's step listener: the bar of the step, who was let in and who gave way.
    void observe_step(const StepRecord& step);
    // The request's first output with a token.
    void first_token(RequestId request, const RequestTimes& times);
    // The request's last output.
    void finished(RequestId request, const RequestTimes& times, FinishReason reason);

    // A JSON document: each request is a bar that holds its phases (queued, prefill, decode,
    // preempted, resumed), each step a bar of its own, and counters say how many sequences ran and
    // waited. A request whose beginning was forgotten begins with what is known of it, one that is
    // in flight ends where the trace does. One of several continuations is preempted as soon as one
    // of them is.
    std::string chrome_trace() const;

  private:
    // Of things at one time, in the order in which they happen.
    enum class Kind : uint8_t {
        queued,
        preempted,
        try_admit,
        first_token,
        stopped,
        ran_out,
        aborted,
        failed
    };
    struct RequestEvent {
        RequestId request = 0;
        double at_s = 0.0;
        Kind kind = Kind::queued;
    };
    struct Step {
        uint64_t plan_number = 0;
        double began_s = 0.0;
        double length_s = 0.0;
        int32_t num_sequences = 0;
        int32_t num_tokens = 0;
        int32_t num_running = 0;
        int32_t num_waiting = 0;
    };

    // The newest `size` of what was added. Not thread-safe.
    template <typename Item>
    class Ring {
      public:
        explicit Ring(size_t size) : size_(size) {}
        void add(const Item& item) {
            if (items_.size() < size_) {
                items_.push_back(item);
            } else if (size_ > 0) {
                items_[next_] = item;
                next_ = (next_ + 1) % size_;
            }
        }
        std::vector<Item> in_order() const {
            std::vector<Item> items(items_.begin() + static_cast<ptrdiff_t>(next_), items_.end());
            items.insert(items.end(), items_.begin(),
                         items_.begin() + static_cast<ptrdiff_t>(next_));
            return items;
        }

      private:
        size_t size_;
        std::vector<Item> items_;
        size_t next_ = 0;  // the oldest, once it is full
    };

    class Writer;

    std::string engine_name_;
    mutable std::mutex mutex_;
    Ring<RequestEvent> requests_;
    Ring<Step> steps_;
};

}  // namespace nvllm::server
