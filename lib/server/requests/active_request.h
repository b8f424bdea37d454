// A call under way, whatever it is for.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "lib/server/openai/response_json.h"
#include "lib/server/requests/request_timeouts.h"

namespace nvllm::server {

// How a call ended, for counts.
enum class RequestEnd { finished, aborted, failed };

// For people who look.
struct RequestStats {
    std::string id;
    bool is_scheduled = false;
    double age_s = 0.0;
    int64_t prompt_tokens = 0;
    int64_t generated_tokens = 0;
};

class ActiveRequest {
  public:
    using Clock = std::chrono::steady_clock;

    virtual ~ActiveRequest() = default;
    // Ends what is past its time. From any thread.
    virtual void check_deadlines(const RequestTimeouts& timeouts, Clock::time_point now) = 0;
    virtual Usage usage() const = 0;
    virtual RequestStats stats() const = 0;
};

// Runs once, when every request of the call has ended in the engine; on the engine thread.
using RequestEndListener = std::function<void(const ActiveRequest&, RequestEnd)>;

}  // namespace nvllm::server
