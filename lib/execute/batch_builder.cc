// From plan entries to token ids, positions, slots and block tables.
#include "lib/execute/batch_builder.h"

#include <algorithm>

namespace nvllm {
namespace {

ConstTensorView ids_view(const std::vector<int32_t>& values) {
    return {values.data(), DType::i32, {static_cast<int64_t>(values.size())}};
}

constexpr size_t kAlignment = 64;

// 0 for the token that a step in flight chooses.
int32_t token_at(const BatchRow& row, size_t position) {
    const size_t num_known = row.token_ids.size();
    if (position < num_known) return row.token_ids[position];
    return position - num_known < row.drafts.size() ? row.drafts[position - num_known] : 0;
}

size_t padded_bytes(const ConstTensorView& view) {
    const size_t bytes = static_cast<size_t>(view.numel()) * dtype_bytes(view.dtype);
    return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

BatchBuilder::BatchBuilder(std::span<const CacheLayout> groups, int32_t block_size,
                           const ComputeDevice& device, bool has_rope_choices, bool has_token_types,
                           bool has_adapters)
    : block_size_(block_size),
      has_rope_choices_(has_rope_choices),
      has_token_types_(has_token_types),
      has_adapters_(has_adapters),
      buffers_(groups.size()),
      tables_(groups.size()),
      device_(device) {
    for (size_t group = 0; group < groups.size(); ++group) {
        buffers_[group].is_state = groups[group].is_state();
    }
    keep_staging_buffers(2);
}

void BatchBuilder::keep_staging_buffers(size_t count) {
    if (count > staging_.size()) staging_.resize(count);
}

ForwardContext BatchBuilder::build(std::span<const BatchRow> rows, void* stream, size_t min_width) {
    for (std::vector<int32_t>* list :
         {&token_ids_, &positions_, &rope_choices_, &token_types_, &adapters_, &parents_,
          &tree_starts_, &query_starts_, &context_lengths_, &first_logit_rows_, &logit_rows_,
          &logit_adapters_}) {
        list->clear();
    }
    query_starts_.push_back(0);
    tree_starts_.push_back(0);
    for (const BatchRow& row : rows) add_row(row);
    logit_rows_.insert(logit_rows_.begin(), first_logit_rows_.begin(), first_logit_rows_.end());
    for (size_t group = 0; group < buffers_.size(); ++group) fill_group(group, rows, min_width);
    if (has_adapters_) {
        for (const int32_t row : logit_rows_) {
            logit_adapters_.push_back(adapters_[static_cast<size_t>(row)]);
        }
    }

    ForwardContext batch;
    batch.token_ids = ids_view(token_ids_);
    batch.rows.positions = ids_view(positions_);
    if (has_rope_choices_) batch.rows.rope_choices = ids_view(rope_choices_);
    if (has_token_types_) batch.rows.token_types = ids_view(token_types_);
    if (has_adapters_) batch.rows.adapters = ids_view(adapters_);
    if (!parents_.empty()) {
        NVLLM_CHECK(device_.is_cpu(), "trees of drafts are computed on the CPU");
        batch.rows.parents = ids_view(parents_);
        batch.rows.tree_start_loc = ids_view(tree_starts_);
    }
    batch.query_start_loc = ids_view(query_starts_);
    batch.seq_lens = ids_view(context_lengths_);
    batch.groups = tables_;
    logit_rows_view_ = ids_view(logit_rows_);
    if (has_adapters_) logit_adapters_view_ = ids_view(logit_adapters_);
    if (!device_.is_cpu()) send(batch, stream);
    return batch;
}

// Lays all views out in pinned memory as on the device.
void BatchBuilder::send(ForwardContext& batch, void* stream) {
    std::vector<ConstTensorView*> views = {&batch.token_ids, &batch.rows.positions,
                                           &batch.query_start_loc, &batch.seq_lens,
                                           &logit_rows_view_};
    if (has_rope_choices_) views.push_back(&batch.rows.rope_choices);
    if (has_token_types_) views.push_back(&batch.rows.token_types);
    if (has_adapters_) {
        views.push_back(&batch.rows.adapters);
        views.push_back(&logit_adapters_view_);
    }
    for (GroupTables& tables : tables_) {
        views.push_back(&tables.block_tables);
        views.push_back(&tables.slots);
    }
    size_t bytes = 0;
    for (const ConstTensorView* view : views) bytes += padded_bytes(*view);
    if (bytes > capacity_) {
        // What is computed may read the old memory.
        if (sent_ != nullptr) device_.synchronize(stream);
        capacity_ = 2 * bytes;
        sent_ = device_.allocate(capacity_);
        ++address_version_;
    }
    Staging& staging = next_staging();
    size_t offset = 0;
    for (ConstTensorView* view : views) {
        const auto* const values = view->as<std::byte>();
        std::copy_n(values, static_cast<size_t>(view->numel()) * dtype_bytes(view->dtype),
                    staging.memory.get() + offset);
        view->data = sent_.get() + offset;
        view->device = device_.id();
        offset += padded_bytes(*view);
    }
    device_.copy_in(stream, sent_.get(), staging.memory.get(), bytes);
    staging.sent.record(stream);
    staging.is_sent = true;
}

// As large as what it is copied to.
BatchBuilder::Staging& BatchBuilder::next_staging() {
    std::unique_ptr<Staging>& staging = staging_[turn_++ % staging_.size()];
    if (staging == nullptr) staging = std::make_unique<Staging>(device_);
    if (staging->is_sent) staging->sent.await();
    if (staging->capacity < capacity_) {
        staging->memory = device_.allocate_host(capacity_);
        staging->capacity = capacity_;
    }
    return *staging;
}

void BatchBuilder::add_row(const BatchRow& row) {
    NVLLM_CHECK(row.count > 0, "a plan entry computes at least one token");
    const size_t num_known = row.token_ids.size();
    const auto end = static_cast<size_t>(row.first + row.count);
    NVLLM_CHECK(!row.is_expected || (end > num_known && (row.count == 1 || end == num_known + 1)),
                "the last token of a row, and no other, is chosen by a step in flight");
    NVLLM_CHECK(row.is_expected || end <= num_known + row.drafts.size(),
                "a plan entry reaches past the known tokens");
    add_tree(row);
    const int32_t tree_begin = row.first + row.count - static_cast<int32_t>(depths_.size());
    for (int32_t place = row.first; place < row.first + row.count; ++place) {
        token_ids_.push_back(token_at(row, static_cast<size_t>(place)));
        const int32_t in_tree = place - tree_begin;
        const int32_t position =
            in_tree < 0 ? place : tree_begin - 1 + depths_[static_cast<size_t>(in_tree)];
        positions_.push_back(position);
        if (!has_token_types_) continue;
        token_types_.push_back(row.second_text > 0 && position >= row.second_text ? 1 : 0);
    }
    if (has_rope_choices_) rope_choices_.resize(positions_.size(), row.rope_choice);
    if (has_adapters_) adapters_.resize(positions_.size(), row.adapter_slot);
    query_starts_.push_back(static_cast<int32_t>(token_ids_.size()));
    context_lengths_.push_back(row.first + row.count);
    for (int32_t i = 0; i < row.num_leading_logits; ++i) {
        logit_rows_.push_back(static_cast<int32_t>(token_ids_.size()) - row.count + i);
    }
    std::vector<int32_t>& last = row.logits_first ? first_logit_rows_ : logit_rows_;
    for (int32_t i = row.num_last_logits; i > 0; --i) {
        last.push_back(static_cast<int32_t>(token_ids_.size()) - i);
    }
}

void BatchBuilder::add_tree(const BatchRow& row) {
    depths_.clear();
    for (const int32_t parent : row.parents) {
        depths_.push_back(parent == 0 ? 1 : depths_[static_cast<size_t>(parent - 1)] + 1);
        parents_.push_back(parent - 1);
    }
    tree_starts_.push_back(static_cast<int32_t>(parents_.size()));
    NVLLM_CHECK(row.parents.empty() || static_cast<size_t>(row.first + row.count) ==
                                           row.token_ids.size() + row.drafts.size(),
                "a row ends with its tree");
}

void BatchBuilder::fill_group(size_t group, std::span<const BatchRow> rows, size_t min_width) {
    GroupBuffers& buffers = buffers_[group];
    size_t width = min_width;
    for (const BatchRow& row : rows) width = std::max(width, row.block_tables[group].size());
    buffers.block_tables.assign(rows.size() * width, 0);
    buffers.slots.clear();
    for (size_t r = 0; r < rows.size(); ++r) {
        const BatchRow& row = rows[r];
        const std::vector<int32_t>& table = row.block_tables[group];
        NVLLM_CHECK(buffers.is_state ? table.size() == 1
                                     : table.size() * static_cast<size_t>(block_size_) >=
                                           static_cast<size_t>(row.first + row.count),
                    "a sequence has too few blocks for its plan entry");
        std::copy(table.begin(), table.end(),
                  buffers.block_tables.begin() + static_cast<ptrdiff_t>(r * width));
        if (buffers.is_state) continue;
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

}  // namespace nvllm
