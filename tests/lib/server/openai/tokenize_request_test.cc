// Bodies of /tokenize and /detokenize.
#include "lib/server/openai/tokenize_request.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace nvllm;
using namespace nvllm::server;
using Json = nlohmann::ordered_json;

namespace {

Result<TokenizeRequest> read(const char* body) {
    return read_tokenize_request(Json::parse(body), {});
}

std::string field_at_fault(const char* body) {
    const auto request = read(body);
    REQUIRE(!request);
    return request.fault().field;
}

}  // namespace

TEST_CASE("tokenize request: a text under either name") {
    const auto prompt = read(R"({"prompt": "a b"})");
    REQUIRE(prompt);
    CHECK(std::get<std::string>(prompt->input) == "a b");
    CHECK(prompt->add_special_tokens);
    CHECK(!prompt->return_token_strs);
    const auto content = read(R"({"content": "a", "return_token_strs": true})");
    REQUIRE(content);
    CHECK(!content->add_special_tokens);
    CHECK(content->return_token_strs);
    CHECK(read(R"({"content": "a", "add_special_tokens": true})")->add_special_tokens);
}

TEST_CASE("tokenize request: a chat") {
    const auto chat = read(R"({"messages": [{"role": "user", "content": "a"}]})");
    REQUIRE(chat);
    CHECK(std::holds_alternative<ChatPrompt>(chat->input));
    CHECK(field_at_fault(R"({"messages": [{"role": "user", "content": "a"}],
                             "add_special_tokens": true})") == "add_special_tokens");
}

TEST_CASE("tokenize request: faults name the field") {
    CHECK(field_at_fault("[1]") == "prompt");
    CHECK(field_at_fault("{}") == "prompt");
    CHECK(field_at_fault(R"({"content": 1})") == "content");
    CHECK(field_at_fault(R"({"prompt": "a", "add_special_tokens": 1})") == "add_special_tokens");
    CHECK(field_at_fault(R"({"prompt": "a", "return_token_strs": 1})") == "return_token_strs");
}

TEST_CASE("detokenize request: ids") {
    const auto ids = read_detokenize_request(Json::parse(R"({"tokens": [1, 2]})"));
    REQUIRE(ids);
    CHECK(*ids == std::vector<int32_t>{1, 2});
    CHECK(!read_detokenize_request(Json::parse("{}")));
    CHECK(!read_detokenize_request(Json::parse("[]")));
}
