// A model over the current batch: embed, block(i), head. It knows tensors and no requests.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/context.h"
#include "kernels/ops/kv_cache.h"
#include "kernels/view.h"
#include "lib/checkpoint/model_config.h"
#include "lib/model/channel_flow.h"
#include "lib/parallel/step_cost.h"

namespace nvllm {

class StateJournal;
struct ExpertCounts;

// What the layers of one cache group store. They have one geometry and therefore share one block
// table (or one state slot) a sequence.
struct CacheLayout {
    enum class Kind : uint8_t {
        paged_kv,  // a key and a value of each KV head for each token
        latent,    // one vector of head_dim for each token; values are its first value_dim
        state,     // state_bytes for each sequence, however long it is
    };

    // Numbers among what is cached: a block's, or of the second thing that it caches one above all
    // blocks'.
    std::vector<int32_t> layers;
    int32_t kv_heads = 0;
    int32_t head_dim = 0;
    int64_t window = 0;  // positions a query attends to, itself included; 0: all
    Kind kind = Kind::paged_kv;
    // Of one layer, a multiple of four; 0 unless kind is state.
    int64_t state_bytes = 0;
    int32_t value_dim = 0;  // 0 unless kind is latent; kv_heads is 1 then

    bool is_state() const { return kind == Kind::state; }
    bool is_latent() const { return kind == Kind::latent; }
    // Vectors of head_dim that one layer stores of a token.
    int64_t vectors() const { return is_latent() ? kv_heads : 2 * int64_t{kv_heads}; }
    // Bytes of one token with the scales of its type, all layers of the group; 0 for states.
    int64_t bytes_per_token(DType dtype) const {
        if (is_state()) return 0;
        return static_cast<int64_t>(layers.size()) * vectors() *
               ops::kv_head_bytes(dtype, head_dim);
    }
    // Bytes of one sequence that do not grow with it, all layers of the group.
    int64_t bytes_per_state() const { return static_cast<int64_t>(layers.size()) * state_bytes; }

    bool operator==(const CacheLayout&) const = default;
    // Equal but for which layers.
    bool same_geometry(const CacheLayout& other) const {
        CacheLayout mine = *this;
        mine.layers = other.layers;
        return mine == other;
    }
};

// Of the entries of ForwardContext::kv, some of which may belong to no group.
size_t num_cached_layers(std::span<const CacheLayout> groups);

// Storage of one layer, as ops::write_kv() writes it; of a latent group `values` has no axes.
struct KvLayer {
    TensorView keys;
    TensorView values;
    // Of int8, float32 [blocks, kv_heads, block_size]; else without data.
    TensorView key_scales;
    TensorView value_scales;
    // Of a layer with states, which has nothing of the above: float32 [slots, values of a state],
    // slots with gaps between them.
    TensorView state;
    int32_t group = 0;  // -1: the layer is in none here
};

// Where the batch's keys and values are, for one cache group. Of a group with states the first
// column of the tables names each sequence's slot, and nothing is written by token.
struct GroupTables {
    ConstTensorView block_tables;  // int32 [sequences, max_blocks]
    ConstTensorView slots;         // int64 [tokens], where to write each token
};

// What each row of the batch has besides its token. Views of int32 [tokens] but for trees; those
// without data mean the same for all rows.
struct RowAttributes {
    ConstTensorView positions;     // in the text; rows of a draft tree count from its root
    ConstTensorView rope_choices;  // see Rotary::cos_sin(); without data: 0
    // Of draft trees, as ops::PagedAttentionOptions has them; without data: each row follows the
    // one before.
    ConstTensorView parents;         // int32 [rows of all trees]
    ConstTensorView tree_start_loc;  // int32 [sequences + 1]; without data: as query_start_loc
    ConstTensorView adapters;        // the slot of the sequence's adapter; without data: 0, none
    // Which of two texts the row is of, 0 or 1, in models with token types; without data: 0.
    ConstTensorView token_types;
};

// Hidden states that a pass gives in addition to its result, for a draft head over this model.
struct AuxHiddenStates {
    // After how many blocks each is taken; 0: the embeddings.
    std::span<const int64_t> layers;
    TensorView out;  // activations [tokens, layers * hidden], side by side in the order of `layers`
};

// Everything a forward pass needs to know about the batch. Rows of one sequence are adjacent and in
// order.
struct ForwardContext {
    const Context* context = nullptr;
    ConstTensorView token_ids;  // int32 [tokens]
    RowAttributes rows;
    ConstTensorView query_start_loc;  // int32 [sequences + 1]
    ConstTensorView seq_lens;         // int32 [sequences], this step's tokens included
    std::span<const GroupTables> groups;
    std::span<const KvLayer> kv;                  // by the numbers of CacheLayout::layers
    const AuxHiddenStates* aux_hidden = nullptr;  // filled by run_blocks(); null: none are wanted
    // Notes what ops do to states (state_journal.h); null: nothing of the batch is uncertain.
    StateJournal* journal = nullptr;

    int64_t tokens() const { return token_ids.dim(0); }
};

// Immutable weights and the order of ops over them. One forward pass at a time. All activations are
// float32 and come from the context's scratch arena: what embed returns lives until the caller
// resets the arena.
class Model {
  public:
    virtual ~Model() = default;

    virtual const ModelConfig& config() const = 0;
    virtual const std::vector<CacheLayout>& kv_groups() const = 0;
    virtual int32_t num_blocks() const = 0;

    // Once per step before embed: what all blocks share (RoPE tables of these positions).
    virtual void begin(const ForwardContext& batch) = 0;
    // float32 [tokens, hidden].
    virtual TensorView embed(const ForwardContext& batch) = 0;
    // Block `index` over hidden [tokens, hidden], in place; writes this layer's keys and values.
    virtual void block(int32_t index, const ForwardContext& batch, const TensorView& hidden) = 0;
    // Of the layers whose choices of experts are counted here, since the model was loaded.
    virtual std::vector<const ExpertCounts*> expert_counts() const { return {}; }
    // Layers whose experts are on all of the context's expert ranks.
    virtual int32_t num_spread_layers() const { return 0; }
    // What the experts here compute for a step of other replicas: all ranks of the expert group
    // call this, or compute a batch.
    virtual void take_part(const Context&) {}
    // What transformers calls last_hidden_state: hidden [rows, hidden] behind the final norm, where
    // there is one; float32, in scratch or `hidden` itself.
    virtual ConstTensorView last_hidden(const ForwardContext& batch,
                                        const ConstTensorView& hidden) = 0;
    // Final norm and output projection: hidden [rows, hidden] → logits float32 [rows, vocab].
    // REQUIRES: config().generates.
    virtual TensorView head(const ForwardContext& batch, const ConstTensorView& hidden) = 0;

    // Of a head of classes: hidden [rows, hidden] as last_hidden() returns it → float32 [rows,
    // labels] before any function. REQUIRES: config().labels has one.
    virtual TensorView classify(const ForwardContext&, const ConstTensorView& hidden);

    // Whether a pass on a device never waits for the host, so that a graph can hold it.
    virtual bool is_capturable() const = 0;
    // Of block `index`, in the order of computation; empty where the family states none.
    virtual std::span<const ChannelFlow> channel_flows(int32_t) const { return {}; }
    // Sequences whose positions all lie below it may take other rotary frequencies
    // (RowAttributes::rope_choices); 0: all sequences have the same.
    virtual int64_t original_context() const { return 0; }
    // Bytes of weights resident (mapped or owned).
    virtual size_t weight_bytes() const = 0;
    // What a step reads of the weights and sums with other ranks, block by block.
    virtual ModelCost cost() const = 0;
};

}  // namespace nvllm
