// What requests are called: by the client's own id where it gave one, and uniquely in this server.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "lib/server/http/http_message.h"

namespace nvllm::server {

// Thread-safe.
class RequestIds {
  public:
    RequestIds();

    // Begins with the client's id, or with what this server is called; two requests of the same
    // client's id are still two.
    std::string next(const HttpRequest& head);
    // Responses bear the client's id as it knows it, else `name`.
    static HttpHeader header(const HttpRequest& head, const std::string& name);

  private:
    const std::string instance_;
    std::atomic<uint64_t> next_number_ = 1;
};

}  // namespace nvllm::server
