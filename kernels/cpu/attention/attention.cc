// Paged attention on the CPU, tile by tile with a running softmax (Milakov & Gimelshein 2018; Dao
// et al. 2022).
//
// A work item is one kv head of one sequence with a run of its queries, or several with few
// queries: all query heads of the group share the tile of keys and values that is upcast for them.
// Rows of a kv head are (query, head of the group) pairs. Positions are taken in segments, each
// with a softmax of its own, that are joined in their order; where there are fewer items than would
// keep all threads busy, each segment is an item.
#include "kernels/cpu/attention/attention.h"

#include "kernels/ops/cpu_ops.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "kernels/cpu/attention/attention_items.h"
#include "kernels/cpu/simd/rows.h"

namespace nvllm::cpu {
namespace {

constexpr int64_t kTile = ops::kAttentionTile;
constexpr int64_t kMaxLanes = 16;
int64_t padded_width(int64_t head_dim) { return divided_up(head_dim, kMaxLanes) * kMaxLanes; }

// Values that are dimensions of keys meet one by one: a tile of them is the tile of keys turned.
const AttentionMatmuls& products_for(DType cached, int64_t head_dim, bool keys_alone) {
    return !keys_alone && attention_compute_type(cached, head_dim) == DType::bf16
               ? kernels().attention_vnni_pairs
               : kernels().attention[kv_type_index(cached)];
}

// What a softmax has come to, row by row.
struct State {
    float* outputs;  // [rows, width], sums of values
    float* maximum;  // [rows]
    float* denominator;

    static int64_t num_floats(int64_t rows, int64_t width) { return rows * (width + 2); }

    State(float* memory, int64_t rows, int64_t width)
        : outputs(memory), maximum(outputs + rows * width), denominator(maximum + rows) {}
    // From row `first` on.
    State rows_from(int64_t first, int64_t width) const {
        State rest = *this;
        rest.outputs += first * width;
        rest.maximum += first;
        rest.denominator += first;
        return rest;
    }
    void clear(int64_t rows, int64_t width) const {
        std::fill_n(maximum, rows, std::numeric_limits<float>::lowest());
        std::fill_n(denominator, rows, 0.0f);
        std::fill_n(outputs, rows * width, 0.0f);
    }
};

// One thread's memory, all sizes in multiples of a cache line. Of the heads of an item all rows of
// the first come first, in queries and states; the others are used for one head after another.
struct Workspace {
    float* queries;     // [rows, width]
    float* scores;      // [rows, kTile]
    float* keys;        // [width, kTile]
    float* values;      // [kTile, width]
    float* correction;  // [rows], as all below
    int64_t* begin;
    int64_t* end;
    State segment;  // of the segment that is worked on
    State merged;   // of those before it

    static size_t bytes(int64_t rows, int64_t width) {
        const int64_t floats =
            rows * (width + kTile + 1) + 2 * kTile * width + 2 * State::num_floats(rows, width);
        return static_cast<size_t>(floats) * sizeof(float) +
               static_cast<size_t>(2 * rows) * sizeof(int64_t);
    }

    Workspace(std::byte* memory, int64_t rows, int64_t width)
        : Workspace(reinterpret_cast<float*>(memory), rows, width) {}

    // For a head whose rows begin at `first`.
    Workspace of_head(int64_t first, int64_t width) const {
        Workspace rest = *this;
        rest.queries += first * width;
        return rest;
    }

  private:
    Workspace(float* next, int64_t rows, int64_t width)
        : queries(std::exchange(next, next + rows * width)),
          scores(std::exchange(next, next + rows * kTile)),
          keys(std::exchange(next, next + kTile * width)),
          values(std::exchange(next, next + kTile * width)),
          correction(std::exchange(next, next + rows)),
          begin(reinterpret_cast<int64_t*>(std::exchange(next, next + 2 * rows))),
          end(reinterpret_cast<int64_t*>(std::exchange(next, next + 2 * rows))),
          segment(std::exchange(next, next + State::num_floats(rows, width)), rows, width),
          merged(next, rows, width) {}
};

int64_t rows_per_item(int64_t heads) {
    return divided_up(std::max(kAttentionRowsPerItem, heads), kMaxLanes) * kMaxLanes;
}

// Whose keys and values.
struct CachedHead {
    int64_t sequence;
    int64_t kv_head;
};

// Where a tile's positions lie for the first head of an item. Of positions that are not to be read,
// before and behind the others, it is where their neighbours lie.
struct TileOffsets {
    const std::byte* keys[kTile];  // of each vector of positions, where these fill blocks and heads
    const std::byte* values[kTile];
};

// A tile of an item, for one of its heads.
struct Place {
    const AttentionItem& item;
    int64_t tile;  // its first position
    int64_t kv_head;
    const TileOffsets& places;

    CachedHead head() const { return {item.sequence, kv_head}; }
};

// Rows of factors become words.
void pack(const AttentionBatch& batch, float* rows, int64_t stride, int64_t num_rows,
          int64_t count) {
    if (batch.products.pack != nullptr) batch.products.pack(rows, stride, num_rows, count);
}

// Where a position's values begin in keys or values; `step`: from one position of a block to the
// next, in values.
const void* position_at(const AttentionBatch& batch, const ConstTensorView& cache, int64_t step,
                        const CachedHead& head, int64_t position) {
    const int32_t* table =
        batch.block_tables.as<int32_t>() + head.sequence * batch.block_tables.stride(0);
    return element(cache.data, cache.dtype,
                   table[position / batch.block_size] * cache.stride(0) +
                       head.kv_head * cache.stride(1) + position % batch.block_size * step);
}

// Where lies what will be wanted next instead of a position of a tile.
int64_t wanted_instead(const AttentionBatch& batch, const Place& place, const Place& next,
                       int64_t position) {
    // Tables say nothing of what lies before the window.
    const int64_t first = std::max(next.item.begin, batch.first_visible(next.item.first_position));
    return next.item.place_of(
        std::clamp(next.tile + (position - place.tile), first, next.item.end - 1));
}

// Positions [begin, end) of an item in runs that lie together: body(position, place, count).
template <typename Body>
void for_each_run(const AttentionBatch& batch, const AttentionItem& item, int64_t begin,
                  int64_t end, Body body) {
    for (int64_t position = begin; position < end;) {
        const int64_t place = item.place_of(position);
        const int64_t moved_or_end = position < item.first_moved ? item.first_moved : position + 1;
        const int64_t count = std::min(
            {batch.block_size - place % batch.block_size, end - position, moved_or_end - position});
        body(position, place, count);
        position += count;
    }
}

// Words of queries and keys; those beyond the head's dimensions are zeros.
int64_t score_depth(const AttentionBatch& batch) {
    const AttentionMatmuls& products = batch.products;
    return divided_up(batch.head_dim / products.step, products.words_at_once) *
           products.words_at_once;
}

int64_t rows_of_head(const AttentionBatch& batch, const AttentionItem& item) {
    return item.num_queries * batch.group;
}
int64_t rows_of(const AttentionBatch& batch, const AttentionItem& item) {
    return batch.heads_per_item * rows_of_head(batch, item);
}

void load_queries(const AttentionBatch& batch, const AttentionItem& item, const Workspace& space) {
    float* row = space.queries;
    for (int64_t kv_head = item.kv_head; kv_head < item.kv_head + batch.heads_per_item; ++kv_head) {
        for (int64_t query = 0; query < item.num_queries; ++query) {
            const float* heads = batch.queries.as<float>() +
                                 (item.first_query + query) * batch.queries.stride(0) +
                                 kv_head * batch.group * batch.queries.stride(1);
            for (int64_t head = 0; head < batch.group; ++head, row += batch.width) {
                std::memcpy(row, heads + head * batch.queries.stride(1),
                            static_cast<size_t>(batch.head_dim) * sizeof(float));
            }
        }
    }
    const int64_t rows = rows_of(batch, item);
    pack(batch, space.queries, batch.width, rows, batch.head_dim);
    const int64_t depth = score_depth(batch);
    for (int64_t i = batch.head_dim / batch.products.step; i < depth; ++i) {
        for (int64_t r = 0; r < rows; ++r) space.queries[r * batch.width + i] = 0.0f;
        std::fill_n(space.keys + i * kTile, kTile, 0.0f);
    }
}

// The queries of an item that see anything of a tile.
struct MaskRange {
    int64_t first;
    int64_t count;
};

MaskRange queries_that_see(const AttentionBatch& batch, const AttentionItem& item, int64_t tile) {
    const int64_t window = batch.options.window;
    if (!batch.options.causal && window == 0) return {0, item.num_queries};
    const int64_t ahead = batch.options.causal ? 0 : window - 1;
    const int64_t first = std::max<int64_t>(0, tile - ahead - item.first_position);
    const int64_t last = tile + kTile - 1;  // of its positions
    int64_t end = item.num_queries;
    if (window > 0) {
        end = std::min(end, last + window - item.first_position);
    } else if (batch.options.chunk > 0) {
        const int64_t chunk_end = (last / batch.options.chunk + 1) * batch.options.chunk;
        end = std::min(end, chunk_end - item.first_position);
    }
    return {first, end - first};
}

void set_visible(const AttentionBatch& batch, const AttentionItem& item, int64_t tile,
                 const MaskRange& mask_range, const Workspace& space) {
    const int64_t length = batch.seq_lens[item.sequence];
    for (int64_t query = mask_range.first; query < mask_range.first + mask_range.count; ++query) {
        const int64_t position = item.first_position + query;
        const int64_t visible_end = batch.visible_end(position, length);
        for (int64_t row = query * batch.group; row < (query + 1) * batch.group; ++row) {
            space.begin[row] = std::clamp<int64_t>(batch.first_visible(position) - tile, 0, kTile);
            space.end[row] = std::clamp<int64_t>(visible_end - tile, 0, kTile);
        }
    }
}

// Of a tile: the positions [begin, end), by the rows of its queries that see any of them.
struct TileWork {
    const Place& place;
    const Place& next;
    int64_t begin;
    int64_t end;
    int64_t row;
    int64_t rows;
};

bool vectors_fill_blocks_and_heads(const AttentionBatch& batch) {
    const int64_t lanes = kernels().lanes;
    return batch.head_dim % lanes == 0 && batch.block_size % lanes == 0;
}

// Whether they multiply keys and values as these lie.
bool is_decode(const AttentionBatch& batch, int64_t rows) {
    return rows <= kFewAttentionRows && vectors_fill_blocks_and_heads(batch) && !batch.keys_alone();
}

void find_places(const AttentionBatch& batch, const AttentionItem& item, int64_t tile,
                 TileOffsets& places) {
    if (batch.keys_alone()) return;
    const CachedHead head{item.sequence, item.kv_head};
    const int64_t begin = std::max(tile, batch.first_visible(item.first_position));
    const int64_t end = std::min(tile + kTile, item.end);
    const int64_t value_bytes =
        batch.head_dim * static_cast<int64_t>(dtype_bytes(batch.value_cache.dtype));
    for_each_run(batch, item, begin, end, [&](int64_t position, int64_t place, int64_t count) {
        const auto* values = static_cast<const std::byte*>(
            position_at(batch, batch.value_cache, batch.head_dim, head, place));
        for (int64_t i = 0; i < count; ++i, values += value_bytes) {
            places.values[position - tile + i] = values;
        }
    });
    std::fill(places.values, places.values + (begin - tile), places.values[begin - tile]);
    std::fill(places.values + (end - tile), places.values + kTile, places.values[end - tile - 1]);
    if (!vectors_fill_blocks_and_heads(batch)) return;
    const int64_t lanes = kernels().lanes;
    for (int64_t vector = 0; vector < kTile / lanes; ++vector) {
        const int64_t first = std::clamp(tile + vector * lanes, begin / lanes * lanes, end - 1);
        places.keys[vector] = static_cast<const std::byte*>(
            position_at(batch, batch.key_cache, 1, head, first / lanes * lanes));
    }
}

ptrdiff_t head_bytes(const ConstTensorView& cache) {
    return static_cast<ptrdiff_t>(cache.stride(1) * static_cast<int64_t>(dtype_bytes(cache.dtype)));
}

// From part `first` on.
PlacedParts parts_of(const ConstTensorView& cache, const TileWork& work,
                     const std::byte* const (TileOffsets::*parts)[kTile], int64_t first) {
    const int64_t head = work.place.kv_head - work.place.item.kv_head;
    const int64_t next_head = work.next.kv_head - work.next.item.kv_head;
    return {work.place.places.*parts + first, head * head_bytes(cache),
            work.next.places.*parts + first, next_head * head_bytes(cache)};
}

void score_few(const AttentionBatch& batch, const TileWork& work, const Workspace& space) {
    const int64_t lanes = kernels().lanes;
    const int64_t tile = work.place.tile;
    const int64_t first = (work.begin - tile) / lanes;
    batch.products.decode_scores({space.queries + work.row * batch.width, batch.width, work.rows,
                                  batch.head_dim,
                                  parts_of(batch.key_cache, work, &TileOffsets::keys, first),
                                  batch.block_size, divided_up(work.end - tile, lanes) - first,
                                  space.scores + work.row * kTile + first * lanes, kTile});
}

// Keys are loaded block by block, side by side from the tile's first position on. What is wanted
// next is asked of memory meanwhile: blocks lie anywhere, so the processor cannot foresee them.
void score_many(const AttentionBatch& batch, const TileWork& work, const Workspace& space) {
    const AttentionMatmuls& products = batch.products;
    const Place& place = work.place;
    for_each_run(
        batch, place.item, work.begin, work.end,
        [&](int64_t position, int64_t lies_at, int64_t count) {
            const int64_t wanted = wanted_instead(batch, place, work.next, position);
            products.load_keys({position_at(batch, batch.key_cache, 1, place.head(), lies_at),
                                position_at(batch, batch.key_cache, 1, work.next.head(), wanted),
                                batch.block_size, batch.head_dim, count,
                                space.keys + (position - place.tile), kTile});
        });
    products.outer_product(space.queries + work.row * batch.width, batch.width, space.keys, kTile,
                           space.scores + work.row * kTile, kTile, work.rows, score_depth(batch),
                           kTile, nullptr);
}

// The tile of keys that score_many() loaded, turned: values of positions side by side. Positions
// that are not to be read become zeros.
void turn_keys(const AttentionBatch& batch, const TileWork& work, const Workspace& space) {
    constexpr int64_t block = 8;
    const int64_t begin = work.begin - work.place.tile;
    const int64_t end = work.end - work.place.tile;
    for (int64_t first = 0; first < batch.value_dim; first += block) {
        const int64_t count = std::min(block, batch.value_dim - first);
        for (int64_t position = 0; position < kTile; ++position) {
            const bool is_read = position >= begin && position < end;
            float* const values = space.values + position * batch.width + first;
            const float* const keys = space.keys + first * kTile + position;
            for (int64_t i = 0; i < count; ++i) values[i] = is_read ? keys[i * kTile] : 0.0f;
        }
    }
}

void add_values(const AttentionBatch& batch, const TileWork& work, bool few, const Workspace& space,
                const State& state) {
    const AttentionMatmuls& products = batch.products;
    if (batch.keys_alone()) {
        turn_keys(batch, work, space);
        products.outer_product(space.scores + work.row * kTile, kTile, space.values, batch.width,
                               state.outputs + work.row * batch.width, batch.width, work.rows,
                               kTile, padded_width(batch.value_dim), space.correction + work.row);
        return;
    }
    // As many words as are summed at once, from a multiple of their positions on.
    const int64_t together = products.step * products.words_at_once;
    const int64_t first = (work.begin - work.place.tile) / together * together;
    const int64_t positions = divided_up(work.end - work.place.tile - first, together) * together;
    const PlacedParts values = parts_of(batch.value_cache, work, &TileOffsets::values, first);
    const float* const weights = space.scores + work.row * kTile + first / products.step;
    const float* const correction = space.correction + work.row;
    float* const outputs = state.outputs + work.row * batch.width;
    if (few) {
        products.decode_matmul({weights, kTile, correction, work.rows, values, positions,
                                batch.head_dim, outputs, batch.width});
        return;
    }
    products.load_values({values, positions, batch.head_dim, space.values, batch.width});
    products.outer_product(weights, kTile, space.values, batch.width, outputs, batch.width,
                           work.rows, positions / products.step, batch.width, correction);
}

// What int8 positions of a tile are multiplied with: 1 for those that are not in [begin, end).
void scale_positions(const AttentionBatch& batch, const TensorView& scales, const TileWork& work,
                     float* rows) {
    alignas(64) float factors[kTile];
    std::fill_n(factors, kTile, 1.0f);
    const auto copy = [&](int64_t position, int64_t place, int64_t count) {
        const void* at = position_at(batch, scales, 1, work.place.head(), place);
        std::memcpy(factors + (position - work.place.tile), at,
                    static_cast<size_t>(count) * sizeof(float));
    };
    for_each_run(batch, work.place.item, work.begin, work.end, copy);
    kernels().scale_tile(rows, work.rows, factors);
}

// What joins the scores of a tile, which are still to be scaled.
void add_position_bias(const AttentionBatch& batch, const TileWork& work, float* scores) {
    const ConstTensorView& bias = batch.options.position_bias;
    const int64_t reach = bias.dim(1) / 2;
    const float factor = 1.0f / batch.score_scale;
    for (int64_t row = work.row; row < work.row + work.rows; ++row, scores += kTile) {
        const int64_t head = work.place.kv_head * batch.group + row % batch.group;
        const float* const of_head = bias.as<float>() + head * bias.dim(1);
        const int64_t query = work.place.item.first_position + row / batch.group;
        for (int64_t position = work.begin; position < work.end; ++position) {
            const int64_t column = std::clamp<int64_t>(reach + position - query, 0, 2 * reach);
            scores[position - work.place.tile] += factor * of_head[column];
        }
    }
}

void add_tile(const AttentionBatch& batch, const Place& place, int64_t begin, int64_t end,
              const Place& next, const Workspace& space, const State& state) {
    const AttentionItem& item = place.item;
    const int64_t tile = place.tile;
    const MaskRange mask_range = queries_that_see(batch, item, tile);
    const TileWork work{
        place, next, begin, end, mask_range.first * batch.group, mask_range.count * batch.group};
    // Keys lie position beside position, but for those of a branch.
    const bool few = is_decode(batch, work.rows) && end <= item.first_moved;
    const int64_t row = work.row;
    const bool scaled = batch.key_cache.dtype == DType::i8;
    float* const scores = space.scores + row * kTile;
    few ? score_few(batch, work, space) : score_many(batch, work, space);
    if (scaled) scale_positions(batch, batch.options.scales.keys, work, scores);
    if (batch.options.position_bias.data != nullptr) add_position_bias(batch, work, scores);
    set_visible(batch, item, tile, mask_range, space);
    kernels().softmax_tile({scores, work.rows, space.begin + row, space.end + row,
                            batch.score_scale, batch.options.soft_cap, state.maximum + row,
                            state.denominator + row, space.correction + row});
    const ops::KvScales& scales = batch.options.scales;
    if (scaled) {
        scale_positions(batch, batch.keys_alone() ? scales.keys : scales.values, work, scores);
    }
    pack(batch, scores, kTile, work.rows, kTile);
    add_values(batch, work, few, space, state);
}

// The tiles of an item in [begin, end). `after`: what the thread will probably do next.
void add_segment(const AttentionBatch& batch, const AttentionItem& item, int64_t begin, int64_t end,
                 const AttentionItem& after, const Workspace& space, const State& state) {
    state.clear(rows_of(batch, item), batch.width);
    const int64_t first = batch.first_visible(item.first_position);
    TileOffsets places[2];
    TileOffsets* here = places;
    TileOffsets* there = places + 1;
    find_places(batch, item, begin, *here);
    for (int64_t tile = begin; tile < end; tile += kTile, std::swap(here, there)) {
        const bool is_last = tile + kTile >= item.end;
        const AttentionItem& next_item = is_last ? after : item;
        const Place next_tile{next_item, is_last ? after.begin : tile + kTile, next_item.kv_head,
                              *there};
        find_places(batch, next_item, next_tile.tile, *there);
        for (int64_t head = 0; head < batch.heads_per_item; ++head) {
            const int64_t kv_head = item.kv_head + head;
            const Place place{item, tile, kv_head, *here};
            const Place next_head{item, tile, kv_head + 1, *here};
            const int64_t row = head * rows_of_head(batch, item);
            add_tile(batch, place, std::max(tile, first), std::min(tile + kTile, end),
                     head + 1 < batch.heads_per_item ? next_head : next_tile,
                     space.of_head(row, batch.width), state.rows_from(row, batch.width));
        }
    }
}

// `into` becomes the softmax over the positions of both.
void merge(const AttentionBatch& batch, const State& into, const State& next, int64_t rows) {
    kernels().merge_softmax({into.outputs, into.maximum, into.denominator, next.outputs,
                             next.maximum, next.denominator, rows, batch.width});
}

// What a head's sums are multiplied with at the end where there are sinks. Maxima are powers of
// two; a sink is natural.
float output_factor(const AttentionBatch& batch, int64_t head, float maximum, float denominator) {
    constexpr float log2_of_e = 1.44269504f;
    const float sink = batch.options.sinks.as<float>()[head] * log2_of_e;
    const float most = std::max(maximum, sink);
    const float kept = std::exp2(maximum - most);
    return batch.value_scale * kept / (denominator * kept + std::exp2(sink - most));
}

void store_outputs(const AttentionBatch& batch, const AttentionItem& item, const State& state) {
    const auto scale = kernels().scale;
    const bool has_sinks = batch.options.sinks.data != nullptr;
    const int64_t rows = rows_of(batch, item);
    const auto head_of = [&](int64_t row) {
        const int64_t kv_head = item.kv_head + row / rows_of_head(batch, item);
        return kv_head * batch.group + row % batch.group;
    };
    const auto out_of = [&](int64_t row) {
        const int64_t query = row % rows_of_head(batch, item) / batch.group;
        return batch.out.as<float>() + (item.first_query + query) * batch.out.stride(0) +
               head_of(row) * batch.value_dim;
    };
    for (int64_t row = 0; row < rows; ++row) {
        // Rows lie on pages of their own.
        constexpr int64_t kRowsAhead = 8;
        if (row + kRowsAhead < rows) {
            const float* const ahead = out_of(row + kRowsAhead);
            for (int64_t i = 0; i < batch.value_dim; i += 16) __builtin_prefetch(ahead + i, 1);
        }
        const int64_t head = head_of(row);
        float* const out = out_of(row);
        const float denominator = state.denominator[row];
        const float factor = has_sinks ? output_factor(batch, head, state.maximum[row], denominator)
                                       : batch.value_scale / denominator;
        scale(state.outputs + row * batch.width, factor, out, batch.value_dim);
    }
}

int64_t segment_end(const AttentionItem& item, int64_t begin) {
    const int64_t next = (begin / ops::kAttentionSegment + 1) * ops::kAttentionSegment;
    return std::min(next, item.end);
}

// All segments of an item, one after the other.
void run_item(const AttentionBatch& batch, const AttentionItem& item, const AttentionItem& after,
              const Workspace& space) {
    load_queries(batch, item, space);
    int64_t end = segment_end(item, item.begin);
    add_segment(batch, item, item.begin, end, after, space, space.merged);
    for (int64_t begin = end; begin < item.end; begin = end) {
        end = segment_end(item, begin);
        add_segment(batch, item, begin, end, after, space, space.segment);
        merge(batch, space.merged, space.segment, rows_of(batch, item));
    }
    store_outputs(batch, item, space.merged);
}

// Of a step of so many queries at most, however they are divided: that follows from its lengths.
void take_most(const Context& context, int64_t heads, int64_t head_dim) {
    const int64_t width = padded_width(head_dim);
    const auto num_threads = static_cast<size_t>(context.threads->num_threads());
    context.scratch->take(num_threads * Workspace::bytes(rows_per_item(heads), width));
    if (num_threads == 1) return;
    const int64_t states = State::num_floats(kMaxSegmentRowsPerHead * heads, width);
    context.scratch->take_array<float>(static_cast<size_t>(states));
}

}  // namespace

DType attention_compute_type(DType cached, int64_t head_dim) {
    const int64_t step = kernels().attention_vnni_pairs.step;
    const bool are_pairs = cached == DType::bf16 && step > 0 && head_dim % step == 0;
    return are_pairs ? DType::bf16 : DType::f32;
}

void paged_attention(const Context& context, const ConstTensorView& queries,
                     const ConstTensorView& key_cache, const ConstTensorView& value_cache,
                     const ConstTensorView& query_start_loc, const ConstTensorView& seq_lens,
                     const ConstTensorView& block_tables, const ops::PagedAttentionOptions& options,
                     const TensorView& out) {
    const int64_t kv_heads = key_cache.dim(1);
    const ScratchArena::Scope scope(*context.scratch);
    const int64_t num_sequences = seq_lens.dim(0);
    auto* const item_starts =
        context.scratch->take_array<int64_t>(static_cast<size_t>(num_sequences));
    if (context.is_dry_run()) return take_most(context, queries.dim(1), queries.dim(2));
    AttentionBatch batch{queries,
                         key_cache,
                         value_cache,
                         query_start_loc.as<int32_t>(),
                         seq_lens.as<int32_t>(),
                         block_tables,
                         options,
                         out,
                         num_sequences,
                         kv_heads,
                         queries.dim(1) / kv_heads,
                         queries.dim(2),
                         padded_width(queries.dim(2)),
                         options.value_dim > 0 ? options.value_dim : queries.dim(2),
                         key_cache.dim(3),
                         1,
                         false,
                         item_starts,
                         products_for(key_cache.dtype, queries.dim(2), options.value_dim > 0)};
    if (key_cache.dtype == DType::f8_e4m3) batch.score_scale *= options.scales.key;
    if (key_cache.dtype == DType::f8_e4m3) {
        batch.value_scale = batch.keys_alone() ? options.scales.key : options.scales.value;
    }
    ThreadPool& threads = *context.threads;
    divide(batch, threads.num_threads());
    set_item_starts(batch, item_starts);
    const int64_t num_items = batch.num_items();

    const int64_t rows = rows_per_item(queries.dim(1));
    const size_t thread_bytes = Workspace::bytes(rows, batch.width);
    auto* memory = static_cast<std::byte*>(
        context.scratch->take(thread_bytes * static_cast<size_t>(threads.num_threads())));
    const auto space_of = [&](int thread) {
        return Workspace(memory + static_cast<size_t>(thread) * thread_bytes, rows, batch.width);
    };
    const auto item_after = [&](int64_t i) {
        return find_item(batch, std::min(i + 1, num_items - 1));
    };
    if (!batch.segments_are_items) {
        threads.parallel_for(num_items, 1, [&](int64_t i, int64_t, int thread) {
            run_item(batch, find_item(batch, i), item_after(i), space_of(thread));
        });
        return;
    }
    const int64_t state_rows = batch.heads_per_item * batch.max_rows();
    const int64_t state_floats = State::num_floats(state_rows, batch.width);
    auto* const states =
        context.scratch->take_array<float>(static_cast<size_t>(num_items * state_floats));
    const auto state_of = [&](int64_t i) {
        return State(states + i * state_floats, state_rows, batch.width);
    };
    threads.parallel_for(num_items, 1, [&](int64_t i, int64_t, int thread) {
        const AttentionItem item = find_item(batch, i);
        const Workspace space = space_of(thread);
        load_queries(batch, item, space);
        add_segment(batch, item, item.begin, item.end, item_after(i), space, state_of(i));
    });
    const int64_t items_of_heads = batch.items_of_all_heads();
    threads.parallel_for(num_sequences * items_of_heads, 1, [&](int64_t i, int64_t, int) {
        const int64_t sequence = i / items_of_heads;
        const int64_t first = item_starts[sequence] + i % items_of_heads;
        if (batch.num_items(sequence) == 0) return;
        const AttentionItem item = find_item(batch, first);
        for (int64_t part = 1; part < batch.num_segments(sequence); ++part) {
            merge(batch, state_of(first), state_of(first + part * items_of_heads),
                  rows_of(batch, item));
        }
        store_outputs(batch, item, state_of(first));
    });
}

}  // namespace nvllm::cpu
