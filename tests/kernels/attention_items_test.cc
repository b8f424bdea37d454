// How attention's work is divided: what lies together is read together, as long as all threads stay
// busy.
#include "kernels/cpu/attention/attention_items.h"

#include <cstdint>
#include <vector>

#include "testing.h"

using namespace nvllm;

namespace {

struct Division {
    int64_t heads_per_item;
    bool segments_are_items;
    int64_t num_items;
};

// Sequences of so many positions, of which one is computed, with 8 kv heads of two heads each.
Division divided(const std::vector<int32_t>& seq_lens, int num_threads) {
    const auto num_sequences = static_cast<int64_t>(seq_lens.size());
    std::vector<int32_t> query_start_loc;
    for (int64_t s = 0; s <= num_sequences; ++s) query_start_loc.push_back(static_cast<int32_t>(s));
    const ConstTensorView none;
    const TensorView no_output;
    const ops::PagedAttentionOptions options;
    const cpu::AttentionMatmuls products{};
    cpu::AttentionBatch batch{.queries = none,
                              .key_cache = none,
                              .value_cache = none,
                              .query_start_loc = query_start_loc.data(),
                              .seq_lens = seq_lens.data(),
                              .block_tables = none,
                              .options = options,
                              .out = no_output,
                              .num_sequences = num_sequences,
                              .kv_heads = 8,
                              .group = 2,
                              .head_dim = 128,
                              .width = 128,
                              .value_dim = 128,
                              .block_size = 16,
                              .heads_per_item = 1,
                              .segments_are_items = false,
                              .item_starts = nullptr,
                              .products = products};
    cpu::divide(batch, num_threads);
    return {batch.heads_per_item, batch.segments_are_items, batch.num_items()};
}

}  // namespace

TEST_CASE("all heads lie together where each thread gets as many segments") {
    const Division division = divided({4 * 1024 + 100}, 2);
    CHECK(division.segments_are_items);
    CHECK(division.heads_per_item == 8);
    CHECK(division.num_items == 5);
}

TEST_CASE("heads are divided where threads would wait for one another") {
    const Division odd = divided({5 * 1024}, 2);
    CHECK(odd.heads_per_item == 4);
    CHECK(odd.num_items == 10);
    const Division long_rest = divided({4 * 1024 + 500}, 2);
    CHECK(long_rest.heads_per_item == 4);
    const Division few_segments = divided({4 * 1024}, 4);
    CHECK(few_segments.heads_per_item == 4);
    CHECK(few_segments.num_items == 8);
}

TEST_CASE("many sequences are items as they are") {
    const Division division = divided({300, 2000, 40, 1100, 900, 80, 4096, 1}, 2);
    CHECK(!division.segments_are_items);
    CHECK(division.heads_per_item == 8);
    CHECK(division.num_items == 8);
}
