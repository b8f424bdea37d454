// Bytes of what cache groups store.
#include "lib/model/model.h"

#include <doctest/doctest.h>

namespace nvllm {
namespace {

TEST_CASE("cache layout: keys and values, latents and states") {
    CacheLayout layout;
    layout.layers = {0, 2, 5};
    layout.kv_heads = 4;
    layout.head_dim = 64;
    CHECK(layout.bytes_per_token(DType::bf16) == 3 * 2 * 4 * 64 * 2);
    CHECK(layout.bytes_per_state() == 0);
    // With a float32 scale for each head.
    CHECK(layout.bytes_per_token(DType::i8) == 3 * 2 * 4 * (64 + 4));

    layout.kind = CacheLayout::Kind::latent;
    layout.kv_heads = 1;
    layout.head_dim = 576;
    CHECK(layout.bytes_per_token(DType::bf16) == 3 * 576 * 2);

    layout.kind = CacheLayout::Kind::state;
    layout.state_bytes = 4096;
    CHECK(layout.bytes_per_token(DType::bf16) == 0);
    CHECK(layout.bytes_per_state() == 3 * 4096);
}

}  // namespace
}  // namespace nvllm
