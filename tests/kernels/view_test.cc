// Tests of layout arithmetic.
#include "kernels/view.h"

#include "testing.h"

using namespace nvllm;

TEST_CASE("rows, columns, reshape and split") {
    std::vector<float> values(24);
    for (size_t i = 0; i < 24; ++i) values[i] = static_cast<float>(i);
    const TensorView all = testing::view(values, {4, 6});
    CHECK(all.contiguous());
    CHECK(all.rows(1, 2).as<float>()[0] == 6);
    const TensorView right = all.columns(4, 2);
    CHECK(right.as<float>()[0] == 4);
    CHECK(!right.contiguous());
    CHECK(right.stride(0) == 6);
    const TensorView heads = all.columns(2, 4).split_last(2);
    CHECK(heads.rank == 3);
    CHECK(heads.stride(0) == 6);
    CHECK(heads.stride(1) == 2);
    CHECK(all.reshaped({2, 12}).dim(1) == 12);
    CHECK_THROWS_AS(right.reshaped({8}), Error);
    CHECK_THROWS_AS(all.rows(3, 2), Error);
    CHECK(all.describe() == "float32[4, 6]");
}
