// A request in flight, of any kind.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "lib/request/request.h"
#include "lib/server/openai/response_json.h"
#include "lib/server/requests/request_timeouts.h"

namespace nvllm {
class Engine;
}

namespace nvllm::server {

// How a request ended, for counts.
enum class RequestEnd { finished, aborted, failed };

// For status reports.
struct RequestStats {
    std::string id;
    bool is_scheduled = false;
    double age_s = 0.0;
    int64_t prompt_tokens = 0;
    int64_t generated_tokens = 0;
    // Where its prompts are and under which ids; empty until they are submitted.
    const Engine* engine = nullptr;
    std::vector<RequestId> engine_ids = {};
};

class ActiveRequest {
  public:
    using Clock = std::chrono::steady_clock;

    virtual ~ActiveRequest() = default;
    // Ends the request if a timeout has passed. From any thread.
    virtual void check_deadlines(const RequestTimeouts& timeouts, Clock::time_point now) = 0;
    virtual Usage usage() const = 0;
    virtual RequestStats stats() const = 0;
};

// Runs once, when the engine has ended every part of the request; on the engine thread.
using RequestEndListener = std::function<void(const ActiveRequest&, RequestEnd)>;

}  // namespace nvllm::server
