// Lays a plan out as the index tensors a forward pass reads.
//
// The buffers live as long as the builder and are reused from step to step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/model/model.h"

namespace nvllm {

// What the builder has to know of one sequence of the plan.
struct BatchRow {
    std::span<const int32_t> token_ids;  // all known tokens of the sequence
    std::span<const std::vector<int32_t>>
        block_tables;  // per cache group, enough for first + count positions
    int32_t first = 0;
    int32_t count = 0;
    int32_t num_leading_logits = 0;  // of the first tokens, so many want logits
    bool wants_logits = false;       // of the last token; it is not among the leading ones then
};

class BatchBuilder {
  public:
    BatchBuilder(size_t num_groups, int32_t block_size);

    // Fills a context with views that stay valid until the next build(). `kernels` and `kv` are
    // left to the caller.
    ForwardContext build(std::span<const BatchRow> rows);

    // The places in the batch of all tokens that want logits, in order. int32 [rows].
    ConstTensorView logit_rows() const;

  private:
    struct GroupBuffers {
        std::vector<int32_t> block_tables;
        std::vector<int64_t> slots;
    };
    void add_row(const BatchRow& row);
    void fill_group(size_t group, std::span<const BatchRow> rows);

    int32_t block_size_;
    std::vector<int32_t> token_ids_;
    std::vector<int32_t> positions_;
    std::vector<int32_t> query_starts_;
    std::vector<int32_t> context_lengths_;
    std::vector<int32_t> logit_rows_;
    std::vector<GroupBuffers> buffers_;
    std::vector<GroupTables> tables_;
};

}  // namespace nvllm
