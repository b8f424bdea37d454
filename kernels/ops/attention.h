// Attention of a batch of sequences over paged key-value storage.
#pragma once

#include "kernels/context.h"
#include "kernels/ops/kv_cache.h"
#include "kernels/view.h"

namespace nvllm::ops {

struct PagedAttentionOptions {
    float scale = 1.0f;  // factor on q · k, usually 1 / sqrt(head_dim)
    // A query sees the last `window` positions, itself included; where attention is not causal as
    // many after it too, itself included. 0: all.
    int64_t window = 0;
    float soft_cap = 0.0f;  // scores become cap * tanh(score / cap); 0: off
    bool causal = true;     // false: a query also sees the positions after its own
    KvScales scales = {};   // as given to write_kv()
    // Values are the first so many dimensions of keys, and their scales those of keys; value_cache
    // has no axes then. 0: they are stored themselves.
    int64_t value_dim = 0;
    // float32 [heads], contiguous: a score that joins each head's denominator and weighs no value
    // (an attention sink). data == nullptr: none.
    ConstTensorView sinks = {};
    // float32 [heads, 2 * reach + 1], contiguous, of any reach: what joins a head's score, before
    // the cap, of a position that lies d after the query's, in column reach + d; of those further
    // away, the outermost column (Raffel et al. 2020, T5). data == nullptr: nothing.
    ConstTensorView position_bias = {};
    // Of sequences whose last rows are no text but a tree of drafts, whose slots follow each other:
    // int32 [rows of all trees], of each row the row of its sequence's tree that it follows, which
    // comes before it, or -1. A row then sees what was cached before the tree, the rows it descends
    // from, and itself. Sequences with trees of more than kMaxTreeRows rows are texts, and so is
    // one where each row follows the one before. Causal attention; on a device without a window and
    // chunks. data == nullptr: all are texts.
    ConstTensorView parents = {};
    // int32 [sequences + 1]: where the rows of each sequence's tree begin in `parents`. They end
    // with the sequence; some of them may be cached already, and some queries may lie before them.
    // data == nullptr: as query_start_loc. On a device it is always so.
    ConstTensorView tree_start_loc = {};
    // A query sees positions from the last multiple of it on (Llama 4); 0: all. Not with a window.
    int64_t chunk = 0;
};

// For every sequence s and every query row t of it at position p: softmax over the cached positions
// (p - window, p], or (p - window, p + window) when attention is not causal, as far as the sequence
// has them.
//
//   queries          activations [tokens, heads, head_dim], rows may be strided; the rows of
//   sequence s are
//                    [query_start_loc[s], query_start_loc[s + 1])
//   key_cache, value_cache   as write_kv() writes them; heads is a multiple of kv_heads, and query
//   head
//                    h reads kv head h / (heads / kv_heads). Keys of the queries themselves are
//                    written already.
//   query_start_loc     int32 [sequences + 1]
//   seq_lens  int32 [sequences]: cached positions including the queries of this step; the
//   last query of the
//                    sequence is at position seq_lens[s] - 1
//   block_tables     int32 [sequences, max_blocks]: physical block of each run of block_size
//   positions. Entries wholly
//                    before the window may hold anything.
//   out              the type of queries [tokens, heads, head_dim], contiguous; where value_cache
//   has
//                    no axes [tokens, heads, value_dim]
//
// Sums have one order for each query, whatever else is in the batch, how the prompt was cut, how
// large blocks are and how many threads run: a score is the sum over head_dim in ascending order by
// fused multiply-add; positions are taken in tiles of kAttentionTile at absolute multiples of it;
// each tile updates a running maximum, denominator and output (Milakov & Gimelshein 2018). These
// begin anew at multiples of kAttentionSegment, and segments are merged in ascending order, so that
// threads may share a long context (Dao et al. 2023, Flash-Decoding). Within a tile probabilities
// join the denominator as a balanced binary tree (position l with l + 32, and so on) and values
// join the output in ascending order by fused multiply-add. Keys and values, both of one type, are
// upcast to float32; queries and probabilities are not rounded. Where they are bfloat16, head_dim
// is even and the CPU's instruction set multiplies pairs of such, queries and probabilities are
// rounded to bfloat16 and pairs take the place of single products: those of dimensions 2 i and
// 2 i + 1, and of positions so; denominators are sums of what was not rounded. Of float8_e4m3 the
// scale of keys joins `scale`, that of values multiplies the output; of int8 a score is multiplied
// with its position's scale of keys, a probability with that of values before it weighs the value
// (not in the denominator). A sink joins at the very end. On the CPU a row of a tree has the
// bits of a text: what it descends from is taken where its positions would be in one. On a device
// what it does not see lies at its own slot's position in a tile and weighs nothing.
void paged_attention(const Context& context, const ConstTensorView& queries,
                     const ConstTensorView& key_cache, const ConstTensorView& value_cache,
                     const ConstTensorView& query_start_loc, const ConstTensorView& seq_lens,
                     const ConstTensorView& block_tables, const PagedAttentionOptions& options,
                     const TensorView& out);

constexpr int64_t kMaxTreeRows = 64;
constexpr int64_t kAttentionTile = 64;
constexpr int64_t kAttentionSegment = 1024;

}  // namespace nvllm::ops
