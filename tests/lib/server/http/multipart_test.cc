// Forms as clients send them, and broken ones.
#include "lib/server/http/multipart.h"

#include <doctest/doctest.h>

#include "lib/server/http/http_message.h"

namespace nvllm::server {
namespace {

constexpr const char* kType = "multipart/form-data; boundary=xyz";

TEST_CASE("fields of a form") {
    const std::string body =
        "--xyz\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
        "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\".jsonl\"\r\n"
        "Content-Type: application/octet-stream\r\n\r\none\r\ntwo\r\n\r\n--xyz--\r\n";
    const auto form = read_form(kType, body);
    REQUIRE(form.ok());
    REQUIRE(form->size() == 2);
    CHECK((*form)[0].name == "purpose");
    CHECK((*form)[0].content == "batch");
    CHECK((*form)[0].file_name.empty());
    CHECK((*form)[1].file_name == "a \"b\".jsonl");
    CHECK((*form)[1].content == "one\r\ntwo\r\n");
}

TEST_CASE("a boundary in quotes, a head in small letters") {
    const std::string body =
        "--a b\r\ncontent-disposition: form-data; name=file; filename=x\r\n\r\n\r\n--a b--";
    const auto form = read_form("Multipart/Form-Data; charset=utf-8; boundary=\"a b\"", body);
    REQUIRE(form.ok());
    REQUIRE(form->size() == 1);
    CHECK((*form)[0].name == "file");
    CHECK((*form)[0].content.empty());
}

TEST_CASE("forms that cannot be read") {
    const auto refused = [](const char* type, const std::string& body) {
        return !read_form(type, body).ok();
    };
    CHECK(refused("application/json", "{}"));
    CHECK(refused("multipart/form-data", "--xyz--"));
    CHECK(refused(kType, ""));
    CHECK(refused(kType, "--xyz"));
    CHECK(refused(kType, "--xyz\r\n"));
    CHECK(refused(kType, "--xyz\r\nContent-Disposition: form-data; name=a\r\n\r\nb"));
    CHECK(refused(kType, "--xyz\r\nno head\r\n--xyz--"));
    CHECK(refused(kType, "--xyz\r\nContent-Disposition: form-data\r\n\r\nb\r\n--xyz--"));
    CHECK(refused(kType,
                  "--xyz\r\nContent-Disposition: form-data; name=\"a\r\n\r\nb\r\n--xyz"
                  "abc"));
}

TEST_CASE("values of a query") {
    HttpRequest request;
    request.query = "limit=20&after=a%20b&empty&limit=3";
    CHECK(request.query_value("limit") == "20");
    CHECK(request.query_value("after") == "a b");
    CHECK(request.query_value("empty") == "");
    CHECK(!request.query_value("lim"));
}

}  // namespace
}  // namespace nvllm::server
