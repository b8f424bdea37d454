// Heads of answers as bytes.
#include "lib/server/http/http_message.h"

#include <doctest/doctest.h>

using namespace nvllm::server;

namespace {

std::string head(const HttpResponse& response, std::optional<uint64_t> length, int version = 11,
                 bool keep_alive = true) {
    const std::string text = response_head(response, length, version, keep_alive);
    const size_t date = text.find("Date: "), after = text.find("\r\n", date) + 2;
    return text.substr(0, date) + text.substr(after);
}

}  // namespace

TEST_CASE("heads: lengths, streams, and who ends the connection") {
    HttpResponse response;
    response.headers = {{"X", "y"}};
    CHECK(head(response, 5) ==
          "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX: y\r\nContent-Length: 5\r\n\r\n");
    response.headers.clear();
    CHECK(
        head(response, {}) ==
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n");
    CHECK(head(response, {}, 10, false) ==
          "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n");
    CHECK(head(response, 0, 10).ends_with("Content-Length: 0\r\nConnection: keep-alive\r\n\r\n"));
    response.status = 204;
    response.content_type.clear();
    CHECK(head(response, 0) == "HTTP/1.1 204 No Content\r\n\r\n");
    response.status = 599;
    CHECK(head(response, 0).starts_with("HTTP/1.1 599 Unknown\r\n"));
}

TEST_CASE("heads: the date is one of RFC 9110") {
    const std::string text = response_head({}, 0, 11, true);
    const size_t begin = text.find("Date: ") + 6;
    const std::string date = text.substr(begin, text.find("\r\n", begin) - begin);
    CHECK(date.size() == std::string("Sun, 06 Nov 1994 08:49:37 GMT").size());
    CHECK(date.ends_with(" GMT"));
}

TEST_CASE("chunks") {
    CHECK(chunk("abc") == "3\r\nabc\r\n");
    CHECK(chunk(std::string(16, 'a')) == "10\r\n" + std::string(16, 'a') + "\r\n");
}

TEST_CASE("percent escapes") {
    CHECK(percent_decoded("org%2Fname") == "org/name");
    CHECK(percent_decoded("%41%c3%A9%00") == std::string("A\xC3\xA9\0", 4));
    CHECK(percent_decoded("100%") == "100%");
    CHECK(percent_decoded("%4") == "%4");
    CHECK(percent_decoded("%4g%-1%+1% 1%%41") == "%4g%-1%+1% 1%A");
    CHECK(percent_decoded("") == "");
}

TEST_CASE("names of headers in any case") {
    HttpRequest request;
    request.headers = {{"Content-Type", "a"}, {"content-type", "b"}};
    CHECK(*request.header("CONTENT-TYPE") == "a");
    CHECK(request.header("Content-Typ") == nullptr);
    CHECK(equal_ignoring_case("AbZ-", "aBz-"));
    CHECK(!equal_ignoring_case("a", "ab"));
    CHECK(!equal_ignoring_case("[", "{"));
}
