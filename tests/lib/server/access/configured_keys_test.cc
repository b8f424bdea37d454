// Keys that a configuration names.
#include "lib/server/access/configured_keys.h"

#include <doctest/doctest.h>

#include "kernels/error.h"

using namespace nvllm;
using namespace nvllm::server;

TEST_CASE("configured keys: keys are numbered, and an empty one is refused") {
    KeyOptions options;
    CHECK(!options.has_key());
    CHECK(configured_keys(options).empty());
    options.api_keys = {"one", "two"};
    CHECK(options.has_key());
    const auto keys = configured_keys(options);
    REQUIRE(keys.size() == 2);
    CHECK(keys[1].name == "api-key-2");
    options.api_keys.emplace_back();
    CHECK_THROWS_AS(configured_keys(options), Error);
}
