// An active request for vectors: texts in, and out what its route makes of a vector for each.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/server/http/http_transaction.h"
#include "lib/server/models/hosted_model.h"
#include "lib/server/operations/request_metrics.h"
#include "lib/server/requests/active_request.h"
#include "lib/server/requests/admission_permit.h"

namespace nvllm::server {

// A text that was computed.
struct PooledText {
    int64_t num_tokens = 0;
    std::vector<float> vector;
};

// What a route says of its response.
struct PoolingRoute {
    std::string_view id_prefix;  // "embd-"
    // The JSON of the texts, in the order in which they were prepared.
    std::function<std::string(const std::string& id, std::span<const PooledText> texts)> write;
    const char* advice = "ask for fewer texts at once";  // when it takes too long
};

class ActivePooling final : public ActiveRequest,
                            public std::enable_shared_from_this<ActivePooling> {
  public:
    ActivePooling(PoolingRoute route, std::shared_ptr<HostedModel> model,
                  std::shared_ptr<HttpTransaction> transaction, AdmissionPermit permit,
                  RequestEndListener on_end);

    // Submits one request for each text.
    void start(std::vector<Request> prepared);

    void check_deadlines(const RequestTimeouts& timeouts, Clock::time_point now) override;
    Usage usage() const override;
    RequestStats stats() const override;

  private:
    struct Text {
        RequestId request = 0;
        std::shared_ptr<RequestMetrics> metrics;
        bool is_finished = false;
    };

    void gather(size_t number, RequestOutput&& output);
    // With the mutex held, all three.
    void release();
    void cancel_unfinished(AbortCause cause);
    Usage usage_locked() const;
    void fail(const ApiError& error, AbortCause cause);
    HttpResponse response() const;
    std::string id() const;

    const PoolingRoute route_;
    const std::shared_ptr<HostedModel> model_;
    const std::shared_ptr<HttpTransaction> transaction_;
    const RequestEndListener on_end_;
    const Clock::time_point begun_ = Clock::now();

    mutable std::mutex mutex_;
    AdmissionPermit permit_;
    std::vector<Text> texts_;
    std::vector<PooledText> pooled_;  // one for each
    size_t num_open_ = 0;
    bool has_responded_ = false;
    RequestEnd end_ = RequestEnd::finished;
};

}  // namespace nvllm::server
