// The adapters of a step, and which of them each row has: what the context of a model's layers
// points to.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/context.h"
#include "kernels/ops/lora.h"
#include "kernels/ops/matmul.h"
#include "kernels/view.h"

namespace nvllm {

// What an adapter has as a whole, beside its pairs.
struct LoraTable {
    enum class Kind : uint8_t {
        head,         // [vocabulary here, hidden]: instead of the head's matrix
        embedding,    // [vocabulary, hidden]: instead of the embeddings
        embedding_a,  // [vocabulary, rank]: of A of an adapted embedding, transposed
    };
    Kind kind = Kind::head;
    int32_t slot = 0;
    ConstTensorView values;
    float scale = 1.0f;  // of embedding_a
};

struct LoraBatch {
    ConstTensorView slots;                     // int32 [rows], as ops have them
    std::span<const ops::LoraLinear> linears;  // by target; one without pairs: nothing changes it
    std::span<const LoraTable> tables;         // of the adapters of these rows
    DType compute_type = DType::f32;           // of products with a head
};

// The context for some of the rows, with their adapters.
class GatheredAdapters {
  public:
    // rows: int32 [count], of the context's rows; `context` outlives it, and the memory is of its
    // scratch.
    GatheredAdapters(const Context& context, const ConstTensorView& rows);
    GatheredAdapters(const GatheredAdapters&) = delete;
    GatheredAdapters& operator=(const GatheredAdapters&) = delete;

    const Context& context() const { return context_; }

  private:
    Context context_;
    LoraBatch lora_;
};

// y[rows] += what adapters add to linear `target` of x. x: activations [rows, in]; y: the same type
// [rows, out], rows may be strided.
void add_adapters(const Context& context, int32_t target, const ConstTensorView& x,
                  const TensorView& y);

// The same of experts whose linears are one target, expert by expert. slots: of the rows, as
// ops::lora_expert_slots() gives them.
void add_expert_adapters(const Context& context, int32_t target, int64_t num_experts,
                         const ConstTensorView& slots, const ConstTensorView& x,
                         const TensorView& y);

// Logits of rows that have a head of their own, instead of those that the model's gave. x:
// activations [rows, hidden]; y: float32 [rows, vocabulary here].
void replace_head(const Context& context, const ConstTensorView& x, const TensorView& y);

// The same of embeddings: of a table of their own, or with what adapters add. `target`: that of the
// embeddings. token_ids: int32 [rows]; y: activations [rows, hidden].
void adapt_embedding(const Context& context, int32_t target, const ConstTensorView& token_ids,
                     float scale, const TensorView& y);

}  // namespace nvllm
