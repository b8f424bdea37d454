// Tests of which GPUs a list of architectures is for.
#include "kernels/cuda/runtime/architectures.h"

#include "../testing.h"

using nvllm::cuda::is_compiled_for;

TEST_CASE("code for an architecture serves its generation, its text all later ones") {
    CHECK(is_compiled_for("80", 8, 0));
    CHECK(is_compiled_for("80", 8, 9));
    CHECK(is_compiled_for("80", 12, 0));
    CHECK(!is_compiled_for("80", 7, 5));
    CHECK(is_compiled_for("80-virtual", 9, 0));
    CHECK(is_compiled_for("80-real;90a", 8, 6));
    CHECK(is_compiled_for("80-real;90a", 9, 0));
    CHECK(is_compiled_for("80,90a-real,120a-real", 12, 0));
    CHECK(!is_compiled_for("80-real;90a", 10, 0));
    CHECK(!is_compiled_for("90a-real", 8, 0));
    CHECK(!is_compiled_for("89-real", 8, 6));
}
