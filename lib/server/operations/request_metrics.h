// Follows one request from its submission to its last output and counts it: accepted once, ended
// once, whatever happens to it in between.
//
// Lives in the listener that Engine::submit is given, by a shared pointer. observe() is called on
// the engine thread, aborting() from any.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "lib/request/request_output.h"
#include "lib/server/operations/model_metrics.h"
#include "lib/server/operations/request_timeline.h"

namespace nvllm::server {

class RequestMetrics {
  public:
    // The request counts as accepted from here on. `metrics`, and `timeline` where it is not null,
    // outlive the meter.
    RequestMetrics(ModelMetrics& metrics, const Request& request,
                   RequestTimeline* timeline = nullptr);
    // A request that had no last output counts as aborted by the engine's end.
    ~RequestMetrics();
    RequestMetrics(const RequestMetrics&) = delete;
    RequestMetrics& operator=(const RequestMetrics&) = delete;

    // REQUIRES: each output of the request, in its order.
    void observe(const RequestOutput& output);
    // The request is about to be taken back: called before Engine::cancel(). The first cause
    // counts; none does when the request ends by itself meanwhile.
    void aborting(AbortCause cause);

  private:
    struct Continuation {
        int64_t num_tokens = 0;
        std::optional<double> last_output_s;  // with tokens
    };

    void count(const ContinuationOutput& part);
    void end(const RequestOutput& output);

    ModelMetrics& metrics_;
    RequestTimeline* timeline_;
    FinishedRequest request_;  // what is known so far
    std::vector<Continuation> continuations_;
    bool ended_ = false;
    std::atomic<AbortCause> cause_{AbortCause::unknown};
    std::atomic<double> abort_s_{0.0};  // on MonotonicClock; 0: it was not taken back
};

}  // namespace nvllm::server
