// Bytes to requests: what is right, what is refused, and that it makes no difference how the bytes
// are cut.
#include "lib/server/http/http_reader.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "kernels/error.h"

using namespace nvllm;
using namespace nvllm::server;

namespace {

struct Outcome {
    std::vector<std::string> requests;  // "POST /a 3:abc"
    int status = 0;                     // of the refusal; 0: none
    bool is_waiting = false;            // for more bytes of a request

    bool operator==(const Outcome&) const = default;
};

std::string text_of(const HttpRequest& request) {
    return request.method + " " + request.target + " " + std::to_string(request.body.size()) + ":" +
           request.body;
}

void take_all(HttpReader& reader, Outcome& outcome) {
    while (reader.stage() == HttpReader::Stage::done)
        outcome.requests.push_back(text_of(reader.take()));
}

// `cuts`: after how many bytes each piece ends, ascending.
Outcome read(std::string_view bytes, const std::vector<size_t>& cuts = {}) {
    const HttpLimits limits;
    HttpReader reader(limits);
    Outcome outcome;
    size_t begin = 0;
    std::vector<size_t> ends = cuts;
    ends.push_back(bytes.size());
    for (const size_t end : ends) {
        reader.feed(bytes.substr(begin, end - begin));
        begin = end;
        take_all(reader, outcome);
    }
    const bool is_refused = reader.stage() == HttpReader::Stage::refused;
    if (is_refused) outcome.status = reader.error().status;
    outcome.is_waiting = !is_refused && !reader.is_between_requests();
    return outcome;
}

std::string repeated(const std::string& text, size_t count) {
    std::string all;
    for (size_t i = 0; i < count; ++i) all += text;
    return all;
}

std::string get(const std::string& fields) {
    return "GET / HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n";
}

std::string post(const std::string& fields, const std::string& body) {
    return "POST /a HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n" + body;
}

std::string chunked(const std::string& body) {
    return post("Transfer-Encoding: chunked\r\n", body);
}

std::string with_length(const std::string& length, const std::string& body = "abc") {
    return post("Content-Length: " + length + "\r\n", body);
}

const std::string kNul(1, '\0');

}  // namespace

TEST_CASE("http reader: requests that are right") {
    struct Good {
        std::string bytes;
        std::vector<std::string> requests;
    };
    const std::vector<Good> cases = {
        {get(""), {"GET / 0:"}},
        {"GET / HTTP/1.0\r\n\r\n", {"GET / 0:"}},
        {"\r\n\r\n\r\n" + get(""), {"GET / 0:"}},
        {"GET /a/b?c=%20&d HTTP/1.1\r\nhOSt:x\r\n\r\n", {"GET /a/b?c=%20&d 0:"}},
        {"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", {"OPTIONS * 0:"}},
        {"GET http://x/a HTTP/1.1\r\nHost: x\r\n\r\n", {"GET http://x/a 0:"}},
        {get("X:\r\nY: \t a b \t\r\nZ: \xff\r\n"), {"GET / 0:"}},
        {get(repeated("X: y\r\n", 99)), {"GET / 0:"}},
        {get("") + get("") + get(""), {"GET / 0:", "GET / 0:", "GET / 0:"}},
        {with_length("3"), {"POST /a 3:abc"}},
        {with_length("003"), {"POST /a 3:abc"}},
        {with_length("0", ""), {"POST /a 0:"}},
        {with_length("3") + get("") + with_length("1", "\n"),
         {"POST /a 3:abc", "GET / 0:", "POST /a 1:\n"}},
        {with_length("3") + "\r\n" + get(""), {"POST /a 3:abc", "GET / 0:"}},
        {with_length("3", "\r\n\r"), {"POST /a 3:\r\n\r"}},
        {post("Expect: 100-continue\r\nContent-Length: 3\r\n", "abc"), {"POST /a 3:abc"}},
        {chunked("0\r\n\r\n"), {"POST /a 0:"}},
        {chunked("3\r\nabc\r\n0\r\n\r\n"), {"POST /a 3:abc"}},
        {chunked("3\r\nabc\r\n1\r\n\n\r\n2\r\nde\r\n00\r\n\r\n") + get(""),
         {"POST /a 6:abc\nde", "GET / 0:"}},
        {chunked("A\r\n0123456789\r\n0a\r\n0123456789\r\n0\r\n\r\n"),
         {"POST /a 20:01234567890123456789"}},
        {chunked("3;a=b;c=\"d\"\r\nabc\r\n0;e\r\n\r\n"), {"POST /a 3:abc"}},
        {chunked("3\r\nabc\r\n0\r\nX: y\r\nZ: a\r\n\r\n") + get(""), {"POST /a 3:abc", "GET / 0:"}},
        {post("transfer-encoding: Chunked\r\n", "0\r\n\r\n"), {"POST /a 0:"}},
    };
    for (const Good& good : cases) {
        CAPTURE(good.bytes);
        CHECK(read(good.bytes) == Outcome{good.requests});
    }
}

namespace {

struct Refused {
    std::string bytes;
    int status;
};

const std::vector<Refused>& refused_cases() {
    static const std::vector<Refused> cases = {
        // The length of the body.
        {post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
        {post("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", "0\r\n\r\n"), 400},
        {post("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"), 400},
        {post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), 400},
        {post("Content-Length: 3\r\ncontent-length: 3\r\n", "abc"), 400},
        {post("Content-Length : 3\r\n", "abc"), 400},
        {with_length("3, 3"), 400},
        {with_length("3,4"), 400},
        {with_length("-1", ""), 400},
        {with_length("+3"), 400},
        {with_length("0x3"), 400},
        {with_length(""), 400},
        {with_length("3 3"), 400},
        {with_length("3.0"), 400},
        {with_length("three"), 400},
        {with_length("99999999999999999999", ""), 400},
        {with_length("18446744073709551619"), 400},
        {with_length("16777217", ""), 413},
        {with_length("18446744073709551615", ""), 413},
        {post("Transfer-Encoding: gzip\r\n", ""), 501},
        {post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 501},
        {post("Transfer-Encoding: chunked, gzip\r\n", "0\r\n\r\n"), 501},
        {post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 501},
        {post("Transfer-Encoding: identity\r\n", ""), 501},
        {post("Transfer-Encoding: \x0b"
              "chunked\r\n",
              "0\r\n\r\n"),
         400},
        {post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400},
        {post("Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n", "0\r\n\r\n"), 400},
        {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        // Chunks.
        {chunked("g\r\nabc\r\n0\r\n\r\n"), 400},
        {chunked("-3\r\nabc\r\n0\r\n\r\n"), 400},
        {chunked("+3\r\nabc\r\n0\r\n\r\n"), 400},
        {chunked("0x3\r\nabc\r\n0\r\n\r\n"), 400},
        {chunked("\r\nabc\r\n0\r\n\r\n"), 400},
        {chunked(" 3\r\nabc\r\n0\r\n\r\n"), 400},
        {chunked("3 \r\nabc\r\n0\r\n\r\n"), 400},
        {chunked("3\nabc\n0\n\n"), 400},
        {chunked("3\rXabc\r\n0\r\n\r\n"), 400},
        {chunked("3\r\nabcd\r\n0\r\n\r\n"), 400},
        {chunked("3\r\nabc0\r\n\r\n"), 400},
        {chunked("3;a\nb\r\nabc\r\n0\r\n\r\n"), 400},
        {chunked("10000000000000003\r\nabc\r\n0\r\n\r\n"), 400},
        {chunked("1000001\r\nabc"), 413},
        {chunked("fffffffffffffff0\r\nabc"), 413},
        {chunked("3;" + std::string(1'000'000, 'a') + "\r\nabc\r\n0\r\n\r\n"), 400},
        {chunked(repeated("1\r\na\r\n", 100'000) + "0\r\n\r\n"), 400},
        {chunked(repeated("1;" + std::string(7000, 'a') + "\r\na\r\n", 30) + "0\r\n\r\n"), 400},
        {chunked("0\r\nContent-Length: 5\r\n\r\n"), 400},
        {chunked("0\r\nX y\r\n\r\n"), 400},
        {chunked("0\r\n" + repeated("X: y\r\n", 20'000) + "\r\n"), 400},
        // Lines of the head.
        {get("X: a\r\n b\r\n"), 400},
        {get("X: a\r\n\tb\r\n"), 400},
        {"GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400},
        {"GET / HTTP/1.1\nHost: x\r\n\r\n", 400},
        {"GET / HTTP/1.1\nHost: x\n\n", 400},
        {"\n" + get(""), 400},
        {get("X: a\nY: b\r\n"), 400},
        {get("X: a\rY: b\r\n"), 400},
        {"GET /\r HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {get("X: a" + kNul + "\r\n"), 400},
        {"GET /" + kNul + " HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {kNul + get(""), 400},
        {get("X: a\x01\r\n"), 400},
        {get("X: a\x7f\r\n"), 400},
        {get("X\r\n"), 400},
        {get(": x\r\n"), 400},
        {get("X(y): x\r\n"), 400},
        {get("X : x\r\n"), 400},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400},
        {get("Host: x\r\n"), 400},
        {get("host: y\r\n"), 400},
        // The request line.
        {"GET /\r\n\r\n", 400},
        // What cannot be met (RFC 9110, 10.1.1).
        {get("Expect: 200-maybe\r\n"), 417},
        {post("Expect: 100-continue, x\r\nContent-Length: 1\r\n", "a"), 417},
        {"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {" GET / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"GET  HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"G@T / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"GET /a\x01 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
        {"\x16\x03\x01\x02\x01\r\n\r\n", 400},
        {"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", 505},
        {"GET / HTTP/1.1 \r\nHost: x\r\n\r\n", 505},
        {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},
        {"GET / HTTP/1.2\r\nHost: x\r\n\r\n", 505},
        {"GET / http/1.1\r\nHost: x\r\n\r\n", 505},
        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
        // Sizes.
        {get(repeated("X: y\r\n", 100)), 431},
        {get("X: " + std::string(16'384, 'a') + "\r\n"), 431},
        {std::string(20'000, 'a'), 431},
        {get(std::string(20'000, 'a')), 431},
        {"GET /" + std::string(8192, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n", 414},
        {"GET /" + std::string(20'000, 'a'), 414},
    };
    return cases;
}

}  // namespace

TEST_CASE("http reader: requests that are refused, with nothing of what follows them") {
    for (const Refused& refused : refused_cases()) {
        CAPTURE(refused.bytes.substr(0, 200));
        CHECK(read(refused.bytes + get("")) == Outcome{{}, refused.status});
        CHECK(read(get("") + refused.bytes) == Outcome{{"GET / 0:"}, refused.status});
    }
}

TEST_CASE("http reader: how the bytes are cut makes no difference") {
    std::vector<std::string> cases = {
        with_length("3") + get("X: y\r\n") + "\r\n" +
            chunked("2;a\r\nab\r\n1\r\nc\r\n0\r\nX: y\r\n\r\n"),
        get("") + get("") + with_length("0", "") + "GET /half HTTP/1.1\r\nHost",
        chunked("3\r\nabc\r\n2\r\n"),
        chunked("3\r\nabc\r\n1\r\n\n\r\n2\r\n\n\n\r\n0\r\n\r\n"),
    };
    for (const Refused& refused : refused_cases()) {
        if (refused.bytes.size() < 500) cases.push_back(get("") + refused.bytes + get(""));
    }
    for (const std::string& bytes : cases) {
        CAPTURE(bytes);
        const Outcome whole = read(bytes);
        std::vector<size_t> everywhere;
        for (size_t cut = 1; cut < bytes.size(); ++cut) {
            everywhere.push_back(cut);
            CHECK(read(bytes, {cut}) == whole);
        }
        CHECK(read(bytes, everywhere) == whole);
    }
}

TEST_CASE("http reader: large ones in small pieces are refused as whole ones are") {
    for (const Refused& refused : refused_cases()) {
        if (refused.bytes.size() < 500) continue;
        std::vector<size_t> cuts;
        for (size_t cut = 1000; cut < refused.bytes.size(); cut += 1000) cuts.push_back(cut);
        CAPTURE(refused.bytes.substr(0, 200));
        CHECK(read(refused.bytes, cuts) == Outcome{{}, refused.status});
    }
}

TEST_CASE("http reader: half a request waits") {
    for (const std::string bytes :
         {"G", "GET / HTTP/1.1\r\nHost: x\r\n", "GET / HTTP/1.1\r\nHost: x\r\n\r"}) {
        CHECK(read(bytes) == Outcome{{}, 0, true});
    }
    CHECK(read(with_length("4")) == Outcome{{}, 0, true});
    CHECK(read(chunked("3\r\nabc\r\n")) == Outcome{{}, 0, true});
    CHECK(read("") == Outcome{});
    CHECK(read("\r\n") == Outcome{});
}

TEST_CASE("http reader: the head is known before the body") {
    const HttpLimits limits;
    HttpReader reader(limits);
    reader.feed("POST /v1/x?y=z HTTP/1.1\r\nHost: a\r\nexpect: 100-Continue\r\n");
    CHECK(reader.stage() == HttpReader::Stage::head);
    reader.feed("Content-Length: 3\r\n\r\n");
    CHECK(reader.stage() == HttpReader::Stage::body);
    CHECK(reader.head().path == "/v1/x");
    CHECK(reader.head().query == "y=z");
    CHECK(*reader.head().header("HOST") == "a");
    CHECK(reader.head().header("Cookie") == nullptr);
    CHECK(reader.expects_continue());
    CHECK(reader.announced_body_bytes() == 3);
    reader.feed("abcGET");
    CHECK(reader.stage() == HttpReader::Stage::done);
    CHECK(reader.take().body == "abc");
    CHECK(reader.has_bytes());
    CHECK(!reader.is_between_requests());
}

TEST_CASE("http reader: whether the connection is kept") {
    const auto keeps = [](const std::string& bytes) {
        const HttpLimits limits;
        HttpReader reader(limits);
        reader.feed(bytes);
        return reader.take().keep_alive;
    };
    CHECK(keeps(get("")));
    CHECK(!keeps(get("Connection: close\r\n")));
    CHECK(!keeps(get("Connection: x, Close\r\n")));
    CHECK(!keeps("GET / HTTP/1.0\r\n\r\n"));
    CHECK(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST_CASE("http reader: paths of absolute targets") {
    const auto path = [](const std::string& target) {
        const HttpLimits limits;
        HttpReader reader(limits);
        reader.feed("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n");
        const HttpRequest request = reader.take();
        return request.path + "?" + request.query;
    };
    CHECK(path("http://x/a?b") == "/a?b");
    CHECK(path("http://x") == "/?");
    CHECK(path("/a?u=http://y/z") == "/a?u=http://y/z");
    CHECK(path("/a??b") == "/a??b");
    CHECK(path("?b") == "?b");
}

TEST_CASE("http reader: limits are the given ones, to the byte") {
    const HttpLimits limits{
        .max_header_bytes = 64, .max_headers = 2, .max_target_bytes = 8, .max_body_bytes = 4};
    const auto status = [&](const std::string& bytes) {
        HttpReader reader(limits);
        reader.feed(bytes);
        return reader.stage() == HttpReader::Stage::refused ? reader.error().status : 0;
    };
    CHECK(status("GET /2345678 HTTP/1.1\r\nHost: x\r\n\r\n") == 0);
    CHECK(status("GET /23456789 HTTP/1.1\r\nHost: x\r\n\r\n") == 414);
    CHECK(status(get("X: " + std::string(64 - get("X: \r\n").size(), 'y') + "\r\n")) == 0);
    CHECK(status(get("X: " + std::string(65 - get("X: \r\n").size(), 'y') + "\r\n")) == 431);
    CHECK(status(get("X: y\r\n")) == 0);
    CHECK(status(get("X: y\r\nY: z\r\n")) == 431);
    CHECK(status(with_length("4", "abcd")) == 0);
    CHECK(status(with_length("5", "abcde")) == 413);
    CHECK(status("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
                 "chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n") == 0);
    CHECK(status("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab") == 413);
}

TEST_CASE("http reader: a body of megabytes in one-byte chunks of framing is not held") {
    const HttpLimits limits;
    HttpReader reader(limits);
    reader.feed(chunked(""));
    size_t fed = 0;
    for (; fed < 10'000'000 && reader.stage() == HttpReader::Stage::body; fed += 6)
        reader.feed("1\r\na\r\n");
    CHECK(reader.stage() == HttpReader::Stage::refused);
    CHECK(fed < 200'000);
}
