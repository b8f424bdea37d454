// Heads of responses as bytes.
#include "lib/server/http/http_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

namespace nvllm::server {
namespace {

struct StatusRow {
    int status;
    std::string_view phrase;
};

constexpr std::array kStatuses = {
    StatusRow{100, "Continue"},
    StatusRow{101, "Switching Protocols"},
    StatusRow{200, "OK"},
    StatusRow{204, "No Content"},
    StatusRow{400, "Bad Request"},
    StatusRow{401, "Unauthorized"},
    StatusRow{403, "Forbidden"},
    StatusRow{404, "Not Found"},
    StatusRow{405, "Method Not Allowed"},
    StatusRow{408, "Request Timeout"},
    StatusRow{409, "Conflict"},
    StatusRow{413, "Content Too Large"},
    StatusRow{414, "URI Too Long"},
    StatusRow{415, "Unsupported Media Type"},
    StatusRow{417, "Expectation Failed"},
    StatusRow{421, "Misdirected Request"},
    StatusRow{426, "Upgrade Required"},
    StatusRow{429, "Too Many Requests"},
    StatusRow{431, "Request Header Fields Too Large"},
    StatusRow{500, "Internal Server Error"},
    StatusRow{501, "Not Implemented"},
    StatusRow{503, "Service Unavailable"},
    StatusRow{504, "Gateway Timeout"},
    StatusRow{505, "HTTP Version Not Supported"},
};

char lower(char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

// RFC 9110, 5.6.7; made once a second for each thread.
const std::string& http_date() {
    thread_local std::time_t made_at = -1;
    thread_local std::string text;
    const std::time_t now = std::time(nullptr);
    if (now != made_at) {
        std::tm parts{};
        ::gmtime_r(&now, &parts);
        std::array<char, 40> buffer{};
        const size_t length =
            std::strftime(buffer.data(), buffer.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
        text.assign(buffer.data(), length);
        made_at = now;
    }
    return text;
}

}  // namespace

bool equal_ignoring_case(std::string_view one, std::string_view other) {
    return std::ranges::equal(one, other, {}, lower, lower);
}

std::string percent_decoded(std::string_view text) {
    std::string decoded;
    for (size_t i = 0; i < text.size(); ++i) {
        uint8_t byte = 0;
        const char* const digits = text.data() + i + 1;
        const bool is_escape = text[i] == '%' && i + 2 < text.size() &&
                               std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2;
        decoded += is_escape ? static_cast<char>(byte) : text[i];
        if (is_escape) i += 2;
    }
    return decoded;
}

std::optional<std::string> HttpRequest::authorization() const {
    if (const std::string* given = header("Authorization")) return *given;
    if (const std::string* key = header("x-api-key")) return "Bearer " + *key;
    return std::nullopt;
}

const std::string* HttpRequest::header(std::string_view name) const {
    const auto found = std::ranges::find_if(
        headers, [&](const HttpHeader& header) { return equal_ignoring_case(header.name, name); });
    return found == headers.end() ? nullptr : &found->value;
}

std::optional<std::string> HttpRequest::query_value(std::string_view name) const {
    std::string_view rest = query;
    while (!rest.empty()) {
        const std::string_view pair = rest.substr(0, rest.find('&'));
        rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
        const size_t equals = std::min(pair.find('='), pair.size());
        if (pair.substr(0, equals) != name) continue;
        return percent_decoded(pair.substr(std::min(equals + 1, pair.size())));
    }
    return std::nullopt;
}

std::string_view reason_phrase(int status) {
    const auto row = std::ranges::find(kStatuses, status, &StatusRow::status);
    return row == kStatuses.end() ? "Unknown" : row->phrase;
}

std::string response_head(const HttpResponse& response, std::optional<uint64_t> body_length,
                          int version, bool keep_alive) {
    std::string head;
    const auto out = std::back_inserter(head);
    fmt::format_to(out, "HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status,
                   reason_phrase(response.status), http_date());
    if (!response.content_type.empty()) {
        fmt::format_to(out, "Content-Type: {}\r\n", response.content_type);
    }
    for (const HttpHeader& header : response.headers) {
        fmt::format_to(out, "{}: {}\r\n", header.name, header.value);
    }
    if (body_length) {
        if (response.status != 204) fmt::format_to(out, "Content-Length: {}\r\n", *body_length);
    } else if (version >= 11) {
        head += "Transfer-Encoding: chunked\r\n";
    }
    if (!keep_alive) {
        head += "Connection: close\r\n";
    } else if (version < 11) {
        head += "Connection: keep-alive\r\n";
    }
    head += "\r\n";
    return head;
}

std::string chunk(std::string_view bytes) {
    return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

}  // namespace nvllm::server
