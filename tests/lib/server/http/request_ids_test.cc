// What requests are called, and what answers call them.
#include "lib/server/http/request_ids.h"

#include <doctest/doctest.h>

#include <string>

using namespace nvllm::server;

namespace {

HttpRequest named(const std::string& id) {
    HttpRequest head;
    head.headers.push_back({"X-Request-Id", id});
    return head;
}

}  // namespace

TEST_CASE("request names: a client's id is kept and made unique") {
    RequestIds names;
    const HttpRequest head = named("order_7.a");
    const std::string first = names.next(head);
    CHECK(first.starts_with("order_7.a-"));
    CHECK(names.next(head) != first);
    const HttpHeader header = RequestIds::header(head, first);
    CHECK(header.name == "x-request-id");
    CHECK(header.value == "order_7.a");
}

TEST_CASE("request names: without an id the answer bears the one that was made") {
    RequestIds names;
    const std::string first = names.next({});
    CHECK(first != names.next({}));
    CHECK(RequestIds::header({}, first).value == first);
    RequestIds others;
    CHECK(others.next({}) != first);
}

TEST_CASE("request names: what would not do in a log is no id") {
    RequestIds names;
    for (const std::string& id : {std::string(), std::string(129, 'x'), std::string("a b"),
                                  std::string("a\"b"), std::string("\xc3\xa4")}) {
        CHECK(RequestIds::header(named(id), "made").value == "made");
        CHECK_FALSE(names.next(named(id)).starts_with(id + "-"));
    }
    CHECK(RequestIds::header(named(std::string(128, 'x')), "made").value == std::string(128, 'x'));
}
