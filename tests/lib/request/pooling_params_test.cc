// Limits of pooling parameters.
#include "lib/request/pooling_params.h"

#include <doctest/doctest.h>

#include <string>

using namespace nvllm;

TEST_CASE("pooling parameters: as many dimensions as there are, at least one") {
    CHECK_FALSE(PoolingParams{}.check(8));
    for (const int32_t dimensions : {1, 7, 8}) {
        CHECK_FALSE(PoolingParams{.dimensions = dimensions}.check(8));
    }
    for (const int32_t dimensions : {-1, 0, 9}) {
        const auto fault = PoolingParams{.dimensions = dimensions}.check(8);
        REQUIRE(fault);
        CHECK(fault->message ==
              "dimensions is " + std::to_string(dimensions) + "; this model's vectors have 1 to 8");
    }
}

TEST_CASE("pooling parameters: which kinds read more than the last position") {
    CHECK_FALSE(PoolingParams{.kind = PoolingKind::last}.reads_early_positions());
    CHECK(PoolingParams{.kind = PoolingKind::mean}.reads_early_positions());
    CHECK(PoolingParams{.kind = PoolingKind::cls}.reads_early_positions());
    CHECK(std::string(pooling_kind_name(PoolingKind::mean)) == "mean");
}
