// Plans laid out as index tensors: positions, slots, tables, rows that get logits.
#include "lib/execute/batch_builder.h"

#include <doctest/doctest.h>

using namespace nvllm;

namespace {

const std::vector<CacheLayout> kOneGroup(1);

template <typename T>
std::vector<T> values(const ConstTensorView& view) {
    return {view.as<T>(), view.as<T>() + view.numel()};
}

}  // namespace

TEST_CASE("a chunk, a decode and a whole prompt in one batch") {
    const std::vector<int32_t> first_ids = {10, 11, 12, 13, 14, 15, 16};
    const std::vector<int32_t> second_ids = {20, 21, 22};
    const std::vector<std::vector<int32_t>> first_tables = {{5, 2}};
    const std::vector<std::vector<int32_t>> second_tables = {{7}};
    BatchBuilder builder(kOneGroup, 4);
    const std::vector<BatchRow> rows = {
        {first_ids, first_tables, 3, 3, 2, false},
        {second_ids, second_tables, 2, 1, 0, true},
        {second_ids, second_tables, 0, 3, 0, true},
    };
    const ForwardContext batch = builder.build(rows);
    CHECK(values<int32_t>(batch.token_ids) == std::vector<int32_t>{13, 14, 15, 22, 20, 21, 22});
    CHECK(values<int32_t>(batch.rows.positions) == std::vector<int32_t>{3, 4, 5, 2, 0, 1, 2});
    CHECK(values<int32_t>(batch.query_start_loc) == std::vector<int32_t>{0, 3, 4, 7});
    CHECK(values<int32_t>(batch.seq_lens) == std::vector<int32_t>{6, 3, 3});
    CHECK(values<int64_t>(batch.groups[0].slots) == std::vector<int64_t>{23, 8, 9, 30, 28, 29, 30});
    CHECK(batch.groups[0].block_tables.dim(1) == 2);
    CHECK(values<int32_t>(batch.groups[0].block_tables) == std::vector<int32_t>{5, 2, 7, 0, 7, 0});
    CHECK(values<int32_t>(builder.logit_rows()) == std::vector<int32_t>{0, 1, 3, 6});
}

TEST_CASE("rope choices are each token's, and are there only where the model has them") {
    const std::vector<int32_t> ids = {1, 2, 3};
    const std::vector<std::vector<int32_t>> tables = {{0}};
    std::vector<BatchRow> rows(3, BatchRow{ids, tables, 0, 3});
    rows[1].first = 2;
    rows[1].count = 1;
    rows[1].rope_choice = 1;
    BatchBuilder plain(kOneGroup, 4);
    CHECK(plain.build(rows).rows.rope_choices.data == nullptr);
    BatchBuilder builder(kOneGroup, 4, {}, true);
    CHECK(values<int32_t>(builder.build(rows).rows.rope_choices) ==
          std::vector<int32_t>{0, 0, 0, 1, 0, 0, 0});
}

TEST_CASE("rows of logits that are asked for first stand before the others") {
    const std::vector<int32_t> ids = {1, 2, 3};
    const std::vector<std::vector<int32_t>> tables = {{0}};
    BatchBuilder builder(kOneGroup, 4);
    const std::vector<BatchRow> rows = {
        {ids, tables, 0, 3, 2, true, false},
        {ids, tables, 2, 1, 0, true, true},
        {ids, tables, 2, 1, 0, true, false},
        {ids, tables, 1, 2, 1, true, true},
    };
    builder.build(rows);
    CHECK(values<int32_t>(builder.logit_rows()) == std::vector<int32_t>{3, 6, 0, 1, 2, 4, 5});
}

TEST_CASE("a token that is expected leaves its place open") {
    const std::vector<int32_t> ids = {1, 2, 3};
    const std::vector<std::vector<int32_t>> tables = {{6}};
    BatchBuilder builder(kOneGroup, 4);
    const ForwardContext batch =
        builder.build(std::vector<BatchRow>{{ids, tables, 3, 1, 0, true, true, true}});
    CHECK(values<int32_t>(batch.token_ids) == std::vector<int32_t>{0});
    CHECK(values<int32_t>(batch.seq_lens) == std::vector<int32_t>{4});
    CHECK_THROWS_AS(builder.build(std::vector<BatchRow>{{ids, tables, 2, 1, 0, true, true, true}}),
                    Error);
}

TEST_CASE("steps in flight may choose several tokens before the row") {
    const std::vector<int32_t> ids = {1, 2, 3};
    const std::vector<std::vector<int32_t>> tables = {{6, 7}};
    BatchBuilder builder(kOneGroup, 4);
    const ForwardContext batch =
        builder.build(std::vector<BatchRow>{{ids, tables, 5, 1, 0, true, true, true}});
    CHECK(values<int32_t>(batch.token_ids) == std::vector<int32_t>{0});
    CHECK(values<int32_t>(batch.rows.positions) == std::vector<int32_t>{5});
    CHECK_THROWS_AS(builder.build(std::vector<BatchRow>{{ids, tables, 3, 2, 0, true, true, true}}),
                    Error);
}

TEST_CASE("drafts follow the known tokens, and each of their rows gets logits") {
    const std::vector<int32_t> ids = {1, 2, 3};
    const std::vector<int32_t> drafts = {40, 41};
    const std::vector<std::vector<int32_t>> tables = {{6, 7}};
    BatchBuilder builder(kOneGroup, 4);
    BatchRow row{ids, tables, 1, 4, 0, true};
    row.drafts = drafts;
    row.num_last_logits = 3;
    const ForwardContext batch = builder.build(std::vector<BatchRow>{{ids, tables, 2, 1}, row});
    CHECK(values<int32_t>(batch.token_ids) == std::vector<int32_t>{3, 2, 3, 40, 41});
    CHECK(values<int32_t>(batch.rows.positions) == std::vector<int32_t>{2, 1, 2, 3, 4});
    CHECK(values<int32_t>(builder.logit_rows()) == std::vector<int32_t>{2, 3, 4});
    row.count = 5;
    CHECK_THROWS_AS(builder.build(std::vector<BatchRow>{row}), Error);
}

TEST_CASE("rows of a tree are at the positions of their depth, in slots one after the other") {
    const std::vector<int32_t> ids = {1, 2, 3};
    const std::vector<int32_t> drafts = {40, 41, 42, 43};
    const std::vector<int32_t> parents = {0, 1, 0};  // of the last three
    const std::vector<std::vector<int32_t>> tables = {{6, 7}};
    BatchBuilder builder(kOneGroup, 4);
    BatchRow row{ids, tables, 2, 5};
    row.drafts = drafts;
    row.parents = parents;
    const std::vector<BatchRow> rows{{ids, tables, 2, 1}, row};
    const ForwardContext batch = builder.build(rows);
    CHECK(values<int32_t>(batch.token_ids) == std::vector<int32_t>{3, 3, 40, 41, 42, 43});
    CHECK(values<int32_t>(batch.rows.positions) == std::vector<int32_t>{2, 2, 3, 4, 5, 4});
    CHECK(values<int64_t>(batch.groups[0].slots) == std::vector<int64_t>{26, 26, 27, 28, 29, 30});
    CHECK(values<int32_t>(batch.rows.parents) == std::vector<int32_t>{-1, 0, -1});
    CHECK(values<int32_t>(batch.rows.tree_start_loc) == std::vector<int32_t>{0, 0, 3});
    CHECK(builder.build(std::vector<BatchRow>{{ids, tables, 2, 1}}).rows.parents.data == nullptr);
    row.count = 4;
    CHECK_THROWS_AS(builder.build(std::vector<BatchRow>{row}), Error);
}

TEST_CASE("block tables are as wide as was asked for") {
    const std::vector<int32_t> ids = {1, 2, 3};
    const std::vector<std::vector<int32_t>> tables = {{6}};
    BatchBuilder builder(kOneGroup, 4);
    const std::vector<BatchRow> rows = {{ids, tables, 2, 1, 0, true}};
    const ForwardContext batch = builder.build(rows, nullptr, 4);
    CHECK(values<int32_t>(batch.groups[0].block_tables) == std::vector<int32_t>{6, 0, 0, 0});
}

TEST_CASE("a group with states has a slot a sequence, whatever the lengths") {
    std::vector<CacheLayout> groups(2);
    groups[1].kind = CacheLayout::Kind::state;
    const std::vector<int32_t> ids = {1, 2, 3, 4, 5};
    const std::vector<std::vector<int32_t>> first = {{0, 1, 2}, {6}}, second = {{3}, {2}};
    BatchBuilder builder(groups, 2);
    const ForwardContext batch =
        builder.build(std::vector<BatchRow>{{ids, first, 1, 4}, {ids, second, 0, 1}});
    CHECK(values<int32_t>(batch.groups[1].block_tables) == std::vector<int32_t>{6, 2});
    CHECK(batch.groups[1].slots.numel() == 0);
    CHECK(values<int64_t>(batch.groups[0].slots) == std::vector<int64_t>{1, 2, 3, 4, 6});
    const std::vector<std::vector<int32_t>> without = {{3}, {}};
    CHECK_THROWS_AS(builder.build(std::vector<BatchRow>{{ids, without, 0, 1}}), Error);
}

TEST_CASE("a plan that reaches past known tokens or blocks is our own mistake") {
    const std::vector<int32_t> ids = {1, 2, 3};
    const std::vector<std::vector<int32_t>> tables = {{0}};
    BatchBuilder builder(kOneGroup, 2);
    CHECK_THROWS_AS(builder.build(std::vector<BatchRow>{{ids, tables, 2, 2, 0, true}}), Error);
    CHECK_THROWS_AS(builder.build(std::vector<BatchRow>{{ids, tables, 0, 3, 0, true}}), Error);
}
