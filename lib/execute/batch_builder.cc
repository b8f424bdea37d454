// From plan entries to token ids, positions, slots and block tables.
#include "lib/execute/batch_builder.h"

#include <algorithm>

namespace nvllm {
namespace {

ConstTensorView ids_view(const std::vector<int32_t>& values) {
    return {values.data(), DType::i32, {static_cast<int64_t>(values.size())}};
}

}  // namespace

BatchBuilder::BatchBuilder(size_t num_groups, int32_t block_size)
    : block_size_(block_size), buffers_(num_groups), tables_(num_groups) {}

ForwardContext BatchBuilder::build(std::span<const BatchRow> rows) {
    for (std::vector<int32_t>* list :
         {&token_ids_, &positions_, &query_starts_, &context_lengths_, &logit_rows_}) {
        list->clear();
    }
    query_starts_.push_back(0);
    for (const BatchRow& row : rows) add_row(row);
    for (size_t group = 0; group < buffers_.size(); ++group) fill_group(group, rows);

    ForwardContext batch;
    batch.token_ids = ids_view(token_ids_);
    batch.positions = ids_view(positions_);
    batch.query_starts = ids_view(query_starts_);
    batch.context_lengths = ids_view(context_lengths_);
    batch.groups = tables_;
    return batch;
}

void BatchBuilder::add_row(const BatchRow& row) {
    NVLLM_CHECK(row.count > 0, "a plan entry computes at least one token");
    NVLLM_CHECK(static_cast<size_t>(row.first + row.count) <= row.token_ids.size(),
                "a plan entry reaches past the known tokens");
    for (int32_t position = row.first; position < row.first + row.count; ++position) {
        token_ids_.push_back(row.token_ids[static_cast<size_t>(position)]);
        positions_.push_back(position);
    }
    query_starts_.push_back(static_cast<int32_t>(token_ids_.size()));
    context_lengths_.push_back(row.first + row.count);
    for (int32_t i = 0; i < row.num_leading_logits; ++i) {
        logit_rows_.push_back(static_cast<int32_t>(token_ids_.size()) - row.count + i);
    }
    if (row.wants_logits) logit_rows_.push_back(static_cast<int32_t>(token_ids_.size()) - 1);
}

void BatchBuilder::fill_group(size_t group, std::span<const BatchRow> rows) {
    GroupBuffers& buffers = buffers_[group];
    size_t width = 1;
    for (const BatchRow& row : rows) width = std::max(width, row.block_tables[group].size());
    buffers.block_tables.assign(rows.size() * width, 0);
    buffers.slots.clear();
    for (size_t r = 0; r < rows.size(); ++r) {
        const BatchRow& row = rows[r];
        const std::vector<int32_t>& table = row.block_tables[group];
        NVLLM_CHECK(table.size() * static_cast<size_t>(block_size_) >=
                        static_cast<size_t>(row.first + row.count),
                    "a sequence has too few blocks for its plan entry");
        std::copy(table.begin(), table.end(),
                  buffers.block_tables.begin() + static_cast<ptrdiff_t>(r * width));
        for (int32_t position = row.first; position < row.first + row.count; ++position) {
            const int64_t block = table[static_cast<size_t>(position / block_size_)];
            buffers.slots.push_back(block * block_size_ + position % block_size_);
        }
    }
    const auto sequences = static_cast<int64_t>(rows.size());
    tables_[group].block_tables = ConstTensorView(buffers.block_tables.data(), DType::i32,
                                                  {sequences, static_cast<int64_t>(width)});
    tables_[group].slots = ConstTensorView(buffers.slots.data(), DType::i64,
                                           {static_cast<int64_t>(buffers.slots.size())});
}

ConstTensorView BatchBuilder::logit_rows() const { return ids_view(logit_rows_); }

}  // namespace nvllm
