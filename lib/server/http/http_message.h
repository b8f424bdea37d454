// What HTTP carries, as plain data: requests that were read in full and their responses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm::server {

struct HttpHeader {
    std::string name;
    std::string value;
};

struct HttpRequest {
    std::string method;  // "GET"
    std::string target;  // as sent: path and query
    std::string path;    // without the query
    std::string query;   // without the question mark
    std::vector<HttpHeader> headers;
    std::string body;
    int version = 11;  // 10 or 11
    bool keep_alive = true;

    // The first header of this name, in whatever case it was written; null when there is none.
    const std::string* header(std::string_view name) const;
    // The value of "?name=value", percent-decoded; nothing when it is not there.
    std::optional<std::string> query_value(std::string_view name) const;
    // The key as the header Authorization has it: "Bearer KEY". Where there is no such header, made
    // of x-api-key, by which clients of the Anthropic API send it.
    std::optional<std::string> authorization() const;
};

struct HttpResponse {
    int status = 200;
    std::string content_type = "application/json";
    std::vector<HttpHeader> headers;  // besides type, length and connection
    std::string body;
    bool closes = false;  // the connection ends after it
    // Of an error, for the log: its code, or else its type, and the field that is at fault.
    std::string error = {};
    std::string param = {};
    std::string message = {};
};

// "Not Found" for 404; "Unknown" for a status that this server never sends.
std::string_view reason_phrase(int status);

// The response's head, up to and with the empty line. `body_length` empty: a stream, chunked for
// HTTP/1.1 and ended by closing for 1.0.
std::string response_head(const HttpResponse& response, std::optional<uint64_t> body_length,
                          int version, bool keep_alive);

// One chunk of a chunked body.
std::string chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

// With "%2F" as "/"; what is no such escape stays.
std::string percent_decoded(std::string_view text);

bool equal_ignoring_case(std::string_view one, std::string_view other);

}  // namespace nvllm::server
