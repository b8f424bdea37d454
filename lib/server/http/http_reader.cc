// Boost.Beast's parser behind checks that it leaves to its users.
#include "lib/server/http/http_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <new>
#include <stdexcept>

#include "lib/server/http/memory_reserve.h"

namespace nvllm::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr std::string_view kEndOfHead = "\r\n\r\n";
// A chunked body may be this large before its framing is checked, and then be framing to this
// share at most (the rule of picohttpparser).
constexpr uint64_t kSmallBody = 100 * 1024;
constexpr double kMaxFraming = 0.8;
// A chunk's size line with its extensions, and trailers.
constexpr size_t kLongestChunkHead = 8 * 1024;
// "0\r\n\r\n": so much is always still to come in an unfinished body of chunks, and Beast's parser
// takes it for granted.
constexpr size_t kShortestEndOfChunks = 5;

// A line feed without a carriage return before it, which some parsers take for the end of a line.
bool has_bare_line_feed(std::string_view bytes) {
    for (size_t i = bytes.find('\n'); i != std::string_view::npos; i = bytes.find('\n', i + 1)) {
        if (i == 0 || bytes[i - 1] != '\r') return true;
    }
    return false;
}

// Line breaks that parsers read differently are how requests are smuggled: only CRLF counts, and
// no header goes on in the next line.
std::optional<std::string> misleading_bytes(std::string_view head) {
    for (size_t i = 0; i < head.size(); ++i) {
        if (head[i] == '\0') return "the request's head holds a NUL byte";
        if (head[i] == '\n' && (i == 0 || head[i - 1] != '\r')) {
            return "a line of the request's head ends without a carriage return";
        }
        const bool folds =
            head[i] == '\n' && i + 1 < head.size() && (head[i + 1] == ' ' || head[i + 1] == '\t');
        if (folds) return "a header goes on in the next line, which is not allowed";
    }
    return std::nullopt;
}

std::string_view target_of(std::string_view head) {
    const std::string_view line = head.substr(0, head.find('\r'));
    const size_t begin = std::min(line.find(' '), line.size());
    const std::string_view rest = line.substr(std::min(begin + 1, line.size()));
    return rest.substr(0, rest.find(' '));
}

void set_target(HttpRequest& request, std::string_view target) {
    request.target = target;
    // A proxy's absolute form: only the path counts.
    if (const size_t scheme = target.find("://");
        scheme != std::string_view::npos && target[0] != '/') {
        const size_t path = target.find('/', scheme + 3);
        target = path == std::string_view::npos ? "/" : target.substr(path);
    }
    const size_t mark = std::min(target.find('?'), target.size());
    request.path = target.substr(0, mark);
    request.query = target.substr(std::min(mark + 1, target.size()));
}

}  // namespace

struct HttpReader::Parser : http::request_parser<http::string_body> {};

HttpReader::HttpReader(const HttpLimits& limits) : limits_(limits) {}
HttpReader::~HttpReader() = default;

void HttpReader::feed(std::string_view bytes) {
    if (stage_ == Stage::refused) return;
    try {
        const WithoutReserve without;
        bytes_ += bytes;
        advance();
    } catch (const std::bad_alloc&) {
        refuse(503, "");
        error_ = out_of_memory();
    }
}

void HttpReader::advance() {
    if (stage_ == Stage::head && !read_head()) return;
    if (stage_ == Stage::body) read_body();
}

void HttpReader::refuse(int status, std::string message, std::string code) {
    stage_ = Stage::refused;
    error_.status = status;
    error_.message = std::move(message);
    error_.code = std::move(code);
    parser_.reset();
    bytes_ = {};
}

// True when the head is there and right.
bool HttpReader::read_head() {
    // Empty lines before a request are skipped (RFC 9112, 2.2).
    size_t empty = 0;
    while (std::string_view(bytes_).substr(empty).starts_with("\r\n")) empty += 2;
    bytes_.erase(0, empty);
    const size_t from = searched_ < kEndOfHead.size() ? 0 : searched_ - kEndOfHead.size();
    const size_t end = bytes_.find(kEndOfHead, from);
    const bool is_whole = end != std::string::npos;
    const size_t length = is_whole ? end + kEndOfHead.size() : bytes_.size();
    const std::string_view head(bytes_.data(), std::min<size_t>(length, limits_.max_header_bytes));
    searched_ = bytes_.size();
    if (const auto wrong = misleading_bytes(head)) {
        refuse(400, *wrong);
        return false;
    }
    if (target_of(head).size() > limits_.max_target_bytes) {
        refuse(414, fmt::format("the request's target is longer than {} bytes",
                                limits_.max_target_bytes));
        return false;
    }
    if (length > limits_.max_header_bytes) {
        refuse(431,
               fmt::format("the request's head is longer than {} bytes", limits_.max_header_bytes));
        return false;
    }
    if (!is_whole) return false;
    check_head(head);
    return stage_ == Stage::body;
}

void HttpReader::check_head(std::string_view head) {
    const auto lines = static_cast<int32_t>(std::ranges::count(head, '\n')) - 2;
    if (lines > limits_.max_headers) {
        refuse(431, fmt::format("the request has {} headers; at most {} are taken", lines,
                                limits_.max_headers));
        return;
    }
    parser_ = std::make_unique<Parser>();
    parser_->header_limit(static_cast<uint32_t>(limits_.max_header_bytes) + 1);
    parser_->body_limit(limits_.max_body_bytes);
    parser_->eager(true);
    boost::system::error_code wrong;
    const size_t consumed = parser_->put(asio::buffer(head), wrong);
    if (wrong == http::error::body_limit) {
        refuse(413,
               fmt::format("the request's body is larger than {} bytes", limits_.max_body_bytes),
               "request_too_large");
        return;
    }
    if (wrong == http::error::bad_version) {
        refuse(505, "only HTTP/1.0 and HTTP/1.1 are spoken here");
        return;
    }
    if ((wrong && wrong != http::error::need_more) || !parser_->is_header_done()) {
        refuse(400, "the request's head is not valid HTTP/1.1");
        return;
    }
    const auto& message = parser_->get();
    request_ = HttpRequest{};
    request_.method = message.method_string();
    request_.version = static_cast<int>(message.version());
    request_.keep_alive = message.keep_alive();
    set_target(request_, message.target());
    for (const auto& field : message) {
        request_.headers.push_back({std::string(field.name_string()), std::string(field.value())});
    }
    const std::string* expect = request_.header("Expect");
    expects_continue_ =
        request_.version >= 11 && expect != nullptr && equal_ignoring_case(*expect, "100-continue");
    announced_body_bytes_.reset();
    if (const auto length = parser_->content_length()) announced_body_bytes_ = *length;
    bytes_.erase(0, consumed);
    searched_ = 0;
    raw_body_bytes_ = 0;
    stage_ = Stage::body;
    check_fields();
}

// Stricter than the standard: what another parser in front could read otherwise is refused.
void HttpReader::check_fields() {
    const auto count_of = [&](std::string_view name) {
        return std::ranges::count_if(request_.headers, [&](const HttpHeader& header) {
            return equal_ignoring_case(header.name, name);
        });
    };
    const auto hosts = count_of("Host");
    if (hosts > 1 || (hosts == 0 && request_.version >= 11)) {
        refuse(400, "the request needs exactly one Host header");
        return;
    }
    const std::string* expect = request_.header("Expect");
    if (expect != nullptr && !equal_ignoring_case(*expect, "100-continue")) {
        refuse(417, "nothing can be expected but 100-continue");
        return;
    }
    const std::string* length = request_.header("Content-Length");
    if (length != nullptr && (count_of("Content-Length") > 1 ||
                              length->find_first_not_of("0123456789") != std::string::npos)) {
        refuse(400, "the request's length must be one number");
        return;
    }
    const std::string* encoding = request_.header("Transfer-Encoding");
    if (encoding != nullptr && request_.version < 11) {
        refuse(400, "HTTP/1.0 knows no transfer encodings");
        return;
    }
    if (encoding != nullptr && !equal_ignoring_case(*encoding, "chunked")) {
        refuse(501, "of transfer encodings only 'chunked' is understood");
    }
}

void HttpReader::read_body() {
    size_t consumed = 0;
    const size_t least = announced_body_bytes_ ? 1 : kShortestEndOfChunks;
    while (!parser_->is_done() && bytes_.size() - consumed >= least) {
        boost::system::error_code wrong;
        size_t taken = 0;
        try {
            taken = parser_->put(asio::buffer(bytes_.data() + consumed, bytes_.size() - consumed),
                                 wrong);
        } catch (const std::length_error&) {
            refuse(431, "a field behind the request's body is too long");
            return;
        }
        consumed += taken;
        if (wrong == http::error::body_limit) {
            refuse(
                413,
                fmt::format("the request's body is larger than {} bytes", limits_.max_body_bytes),
                "request_too_large");
            return;
        }
        if (wrong && wrong != http::error::need_more) {
            refuse(400, "the request's body is not framed as HTTP/1.1 asks for");
            return;
        }
        if (taken == 0) break;
    }
    raw_body_bytes_ += consumed;
    bytes_.erase(0, consumed);
    const bool is_chunked = !announced_body_bytes_;
    // What is left frames the next chunk.
    if (is_chunked && !parser_->is_done() && bytes_.size() > kLongestChunkHead) {
        refuse(400, "a chunk's size line is too long");
        return;
    }
    // Less than the parser is given may be of a chunk itself.
    const bool is_framing = bytes_.size() >= kShortestEndOfChunks;
    if (is_chunked && !parser_->is_done() && is_framing && has_bare_line_feed(bytes_)) {
        refuse(400, "a line between chunks ends without a carriage return");
        return;
    }
    const auto framing = static_cast<double>(raw_body_bytes_ - parser_->get().body().size());
    if (is_chunked && raw_body_bytes_ > kSmallBody &&
        framing > kMaxFraming * static_cast<double>(raw_body_bytes_)) {
        refuse(400, "the request's body comes in chunks that are too small");
        return;
    }
    if (parser_->is_done()) stage_ = Stage::done;
}

HttpRequest HttpReader::take() {
    NVLLM_CHECK(stage_ == Stage::done, "no request is complete");
    request_.body = std::move(parser_->get().body());
    parser_.reset();
    stage_ = Stage::head;
    HttpRequest request = std::move(request_);
    searched_ = 0;
    if (!bytes_.empty()) advance();
    return request;
}

}  // namespace nvllm::server
