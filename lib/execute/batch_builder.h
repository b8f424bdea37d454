// Lays a plan out as the index tensors a forward pass reads.
//
// The buffers live as long as the builder and are reused from step to step. For a device all of
// them go over in one copy.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "lib/model/model.h"

namespace nvllm {

// One sequence of the plan.
struct BatchRow {
    std::span<const int32_t> token_ids;  // all known tokens of the sequence
    std::span<const std::vector<int32_t>>
        block_tables;  // per cache group, enough for first + count positions; of states one slot
    int32_t first = 0;
    int32_t count = 0;
    int32_t num_leading_logits = 0;  // of the first tokens, so many want logits
    int32_t num_last_logits = 0;     // of the last tokens; none is among the leading ones then
    bool logits_first = false;       // the last tokens' before all that are not
    // The last token is chosen by a step in flight and not known here: 0 stands for it.
    bool is_expected = false;
    int32_t rope_choice = 0;               // as AddedSequence has it
    int32_t adapter_slot = 0;              // 0: none
    std::span<const int32_t> drafts = {};  // the tokens of the row after the known ones
    // Of as many of the last drafts, the row that each follows: 0 is the token before them, i the
    // i-th of them. The row ends with them then. Empty: each follows the one before.
    std::span<const int32_t> parents = {};
    int32_t second_text = 0;  // as PoolingParams has it
};

class BatchBuilder {
  public:
    // Groups of kind state have a slot a sequence and no slots of tokens.
    // Without `has_rope_choices` batches have no rope_choices, whatever rows say, without
    // `has_token_types` no token types, and without `has_adapters` no adapters.
    BatchBuilder(std::span<const CacheLayout> groups, int32_t block_size,
                 const ComputeDevice& device = {}, bool has_rope_choices = false,
                 bool has_token_types = false, bool has_adapters = false);

    // Fills a context with views that stay valid until the next build(). `context` and `kv` are
    // left to the caller. On a device it may be called while the last batch is computed in the same
    // stream. Block tables get at least `min_width` columns.
    ForwardContext build(std::span<const BatchRow> rows, void* stream = nullptr,
                         size_t min_width = 1);
    // Changes whenever batches get other addresses on the device.
    int64_t address_version() const { return address_version_; }
    // Host buffers to keep: with one more than there are batches in flight, build() waits for none
    // of them.
    void keep_staging_buffers(size_t count);

    // The indices in the batch of all tokens that want logits, in order but for `logits_first`.
    // int32 [rows].
    const ConstTensorView& logit_rows() const { return logit_rows_view_; }
    // The slots of their adapters, int32 [rows]; without data where batches have none.
    const ConstTensorView& logit_adapters() const { return logit_adapters_view_; }

  private:
    struct GroupBuffers {
        std::vector<int32_t> block_tables;
        std::vector<int64_t> slots;
        bool is_state = false;
    };
    // Pinned host memory, used in turn: one is filled while others are copied to the device.
    struct Staging {
        explicit Staging(const ComputeDevice& device) : sent(device) {}
        DeviceMemory memory;
        size_t capacity = 0;  // bytes
        Event sent;
        bool is_sent = false;
    };
    void add_row(const BatchRow& row);
    void add_tree(const BatchRow& row);
    void fill_group(size_t group, std::span<const BatchRow> rows, size_t min_width);
    void send(ForwardContext& batch, void* stream);
    Staging& next_staging();

    int32_t block_size_;
    bool has_rope_choices_;
    bool has_token_types_;
    bool has_adapters_;
    std::vector<int32_t> token_ids_;
    std::vector<int32_t> positions_;
    std::vector<int32_t> rope_choices_;
    std::vector<int32_t> token_types_;
    std::vector<int32_t> adapters_;
    std::vector<int32_t> logit_adapters_;
    std::vector<int32_t> parents_;      // of trees, as ops::PagedAttentionOptions
    std::vector<int32_t> tree_starts_;  // by sequence
    std::vector<int32_t> depths_;       // of a row's tree: 1 behind the token before it
    std::vector<int32_t> query_starts_;
    std::vector<int32_t> context_lengths_;
    std::vector<int32_t> first_logit_rows_;
    std::vector<int32_t> logit_rows_;
    std::vector<GroupBuffers> buffers_;
    std::vector<GroupTables> tables_;
    ConstTensorView logit_rows_view_;
    ConstTensorView logit_adapters_view_;
    ComputeDevice device_;
    std::vector<std::unique_ptr<Staging>> staging_;
    size_t turn_ = 0;
    DeviceMemory sent_;    // of the device, laid out alike
    size_t capacity_ = 0;  // bytes of it
    int64_t address_version_ = 0;
};

}  // namespace nvllm
