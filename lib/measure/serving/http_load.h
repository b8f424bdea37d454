// Many streamed HTTP/1.1 requests at once, from one thread: when each was sent, what came when.
//
// The HTTP library (Boost.Beast) is seen by http_load.cc alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/system/http_client.h"

namespace nvllm {

// A POST whose answer is a stream of events.
struct HttpRequest {
    std::string body;
    double send_at_s = 0.0;  // seconds from the start of the run
};

struct HttpLoadOptions {
    ServerAddress server;
    std::string path;  // "/v1/completions"
    std::vector<HttpHeader> headers;
    std::optional<int32_t> max_concurrency;           // further requests wait, unsent
    double timeout_s = 21600.0;                       // from sending to the end of the answer
    std::function<void(size_t num_ended)> done = {};  // told now and then
};

// Times are seconds from the start of the run. Called on the thread of run_http_load.
class HttpLoadListener {
  public:
    virtual ~HttpLoadListener() = default;
    // The request begins: its connection is about to be made.
    virtual void sent(size_t index, double time_s) = 0;
    // One server-sent event's data. May throw Error: the request has failed.
    virtual void event(size_t index, double time_s, std::string_view data) = 0;
    // The answer is over. `error`: the connection failed or broke, the status was not 200, the time
    // ran out, or event() threw.
    virtual void ended(size_t index, double time_s, const std::optional<std::string>& error) = 0;
};

// Sends all of them, each on a connection of its own, in the order given; returns when the last
// has ended, or at once when a stop signal came; the seconds that took. Throws unavailable when the
// host's name is unknown, usage for a server at a Unix socket.
double run_http_load(std::span<const HttpRequest> requests, const HttpLoadOptions& options,
                     HttpLoadListener& listener);

}  // namespace nvllm
