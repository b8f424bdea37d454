// Lines of a batch that may be computed, and those that say why not.
#include "lib/server/batches/batch_input.h"

#include <doctest/doctest.h>

#include <string>

namespace nvllm::server {
namespace {

constexpr const char* kEndpoint = "/v1/completions";

std::string line_of(const std::string& id, const std::string& body = R"({"prompt":"a"})") {
    return R"({"custom_id":")" + id + R"(","method":"POST","url":"/v1/completions","body":)" +
           body + "}";
}

std::string first_code(const std::string& content) {
    const BatchInput input = read_batch_input(content, kEndpoint);
    return input.errors.empty() ? "" : input.errors.front().code;
}

TEST_CASE("lines in their order, empty ones left out") {
    const BatchInput input = read_batch_input(
        line_of("a") + "\n\n" + line_of("b") + "\r\n  \n" + line_of("c"), kEndpoint);
    CHECK(input.errors.empty());
    REQUIRE(input.lines.size() == 3);
    CHECK(input.lines[1].custom_id == "b");
    CHECK(input.lines[1].body == R"({"prompt":"a"})");
}

TEST_CASE("what is wrong with a line is said with its number") {
    const BatchInput input =
        read_batch_input(line_of("a") + "\n{broken\n" + line_of("a"), kEndpoint);
    REQUIRE(input.errors.size() == 2);
    CHECK(input.errors[0].code == "invalid_json_line");
    CHECK(input.errors[0].line == 2);
    CHECK(input.errors[1].code == "duplicate_custom_id");
    CHECK(input.errors[1].line == 3);
}

TEST_CASE("lines that are refused") {
    CHECK(first_code("") == "empty_file");
    CHECK(first_code("\n \n") == "empty_file");
    CHECK(first_code("[]") == "invalid_json_line");
    CHECK(first_code(R"({"method":"POST"})") == "missing_required_parameter");
    CHECK(first_code(line_of("")) == "missing_required_parameter");
    CHECK(first_code(line_of(std::string(513, 'x'))) == "invalid_value");
    CHECK(first_code(R"({"custom_id":"a","method":"GET"})") == "invalid_method");
    CHECK(first_code(R"({"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{}})") ==
          "mismatched_endpoint");
    CHECK(first_code(
              R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{},"x":1})") ==
          "unknown_parameter");
    CHECK(first_code(line_of("a", "[]")) == "missing_required_parameter");
    CHECK(first_code(line_of("a", R"({"stream":true})")) == "invalid_value");
}

TEST_CASE("a file of broken lines ends with the first hundred faults") {
    std::string content;
    for (int i = 0; i < 1000; ++i) content += "{\n";
    CHECK(read_batch_input(content, kEndpoint).errors.size() == 100);
}

}  // namespace
}  // namespace nvllm::server
