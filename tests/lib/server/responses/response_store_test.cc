// Kept responses: bounds, owners, the order in which they go.
#include "lib/server/responses/response_store.h"

#include <doctest/doctest.h>

using namespace nvllm::server;

TEST_CASE("response store: owners see their own") {
    ResponseStore store({});
    store.put("a", "r", {"of a", "[]"});
    store.put("b", "r", {"of b", "[]"});
    CHECK(store.find("a", "r")->body == "of a");
    CHECK(store.find("b", "r")->body == "of b");
    CHECK(store.find("", "r") == nullptr);
    CHECK(!store.erase("c", "r"));
    CHECK(store.erase("a", "r"));
    CHECK(!store.erase("a", "r"));
    CHECK(store.find("a", "r") == nullptr);
    CHECK(store.find("b", "r") != nullptr);
}

TEST_CASE("response store: the least recently used go first") {
    ResponseStore store({.max_stored_responses = 2});
    store.put("", "1", {"one", ""});
    store.put("", "2", {"two", ""});
    CHECK(store.find("", "1") != nullptr);
    store.put("", "3", {"three", ""});
    CHECK(store.find("", "2") == nullptr);
    CHECK(store.find("", "1") != nullptr);
    store.put("", "1", {"one again", ""});
    CHECK(store.find("", "1")->body == "one again");
    CHECK(store.find("", "3") != nullptr);
}

TEST_CASE("response store: bytes are bounded") {
    ResponseStore store({.max_stored_responses = 100, .max_stored_response_bytes = 4000});
    store.put("", "large", {std::string(5000, 'x'), ""});
    CHECK(store.find("", "large") == nullptr);
    for (const char* id : {"1", "2", "3", "4"}) store.put("", id, {std::string(900, 'x'), ""});
    CHECK(store.find("", "1") == nullptr);
    CHECK(store.find("", "4") != nullptr);
}

TEST_CASE("response store: switched off nothing is kept") {
    ResponseStore store({.max_stored_responses = 0});
    CHECK(!store.is_on());
    store.put("", "1", {"one", ""});
    CHECK(store.find("", "1") == nullptr);
}
