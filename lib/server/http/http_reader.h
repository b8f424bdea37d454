// Bytes of a connection to requests, under limits; knows no socket.
//
// A request that breaks a rule of RFC 9112, or a limit, is refused once and for all: what follows
// on its connection cannot be told apart any more, so the connection has to end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/server/http/api_error.h"
#include "lib/server/http/http_message.h"

namespace nvllm::server {

struct HttpLimits {
    uint64_t max_header_bytes = 16 * 1024;  // request line and headers together
    int32_t max_headers = 100;
    uint64_t max_target_bytes = 8 * 1024;
    uint64_t max_body_bytes = uint64_t{16} << 20;
};

class HttpReader {
  public:
    enum class Stage { head, body, done, refused };

    explicit HttpReader(const HttpLimits& limits);
    ~HttpReader();
    HttpReader(const HttpReader&) = delete;
    HttpReader& operator=(const HttpReader&) = delete;

    // Takes what arrived. Bytes behind a request are kept for the next.
    void feed(std::string_view bytes);

    Stage stage() const { return stage_; }
    bool has_bytes() const { return !bytes_.empty(); }
    // Nothing of a request has arrived: an end of the connection here is no fault.
    bool is_between_requests() const { return stage_ == Stage::head && bytes_.empty(); }

    // From Stage::body on: all but the body, which may still come.
    const HttpRequest& head() const { return request_; }
    // The client waits for "100 Continue" before it sends the body.
    bool expects_continue() const { return expects_continue_; }
    // As announced; empty when chunked.
    std::optional<uint64_t> announced_body_bytes() const { return announced_body_bytes_; }

    // REQUIRES: Stage::done. Gives the request and begins with the next one.
    HttpRequest take();

    // REQUIRES: Stage::refused.
    const ApiError& error() const { return error_; }

  private:
    struct Parser;

    void advance();
    bool read_head();
    void read_body();
    void check_head(std::string_view head);
    void check_fields();
    void refuse(int status, std::string message, std::string code = {});

    const HttpLimits& limits_;
    Stage stage_ = Stage::head;
    std::string bytes_;            // not consumed yet
    size_t searched_ = 0;          // of bytes_, holding no end of a head
    uint64_t raw_body_bytes_ = 0;  // with what frames the chunks
    std::unique_ptr<Parser> parser_;
    HttpRequest request_;
    bool expects_continue_ = false;
    std::optional<uint64_t> announced_body_bytes_;
    ApiError error_;
};

}  // namespace nvllm::server
