// Paged attention on the CPU, tile by tile with a running softmax (Milakov & Gimelshein 2018; Dao
// et al. 2022).
//
// A work item is one kv head of one sequence with a run of its queries: all query heads of the
// group share the tile of keys and values that is widened for them. Rows of an item are (query,
// head of the group) pairs.
#include "kernels/cpu/attention.h"

#include <cstring>
#include <limits>
#include <utility>

#include "kernels/cpu/rows.h"

namespace nvllm::cpu {
namespace {

constexpr int64_t kTile = ops::kAttentionTile;
constexpr int64_t kRowsPerItem = 192;
constexpr int64_t kMaxLanes = 16;

int64_t divided_up(int64_t value, int64_t by) { return (value + by - 1) / by; }

int64_t padded_width(int64_t head_dim) { return divided_up(head_dim, kMaxLanes) * kMaxLanes; }

// One thread's memory, all sizes in multiples of a cache line.
struct Workspace {
    float* queries;  // [rows, width]
    float* outputs;  // [rows, width]
    float* scores;   // [rows, kTile]
    float* keys;     // [width, kTile]
    float* values;   // [kTile, width]
    float* maximum;  // [rows], as all below
    float* denominator;
    float* correction;
    int64_t* begin;
    int64_t* end;

    static size_t bytes(int64_t rows, int64_t width) {
        const int64_t floats = rows * (2 * width + kTile + 3) + 2 * kTile * width;
        return static_cast<size_t>(floats) * sizeof(float) +
               static_cast<size_t>(2 * rows) * sizeof(int64_t);
    }

    Workspace(std::byte* memory, int64_t rows, int64_t width) {
        auto* next = reinterpret_cast<float*>(memory);
        const auto floats = [&next](int64_t count) { return std::exchange(next, next + count); };
        queries = floats(rows * width);
        outputs = floats(rows * width);
        scores = floats(rows * kTile);
        keys = floats(kTile * width);
        values = floats(kTile * width);
        maximum = floats(rows);
        denominator = floats(rows);
        correction = floats(rows);
        begin = reinterpret_cast<int64_t*>(next);
        end = begin + rows;
    }
};

int64_t rows_per_item(int64_t heads) {
    return divided_up(std::max(kRowsPerItem, heads), kMaxLanes) * kMaxLanes;
}

struct Batch {
    const ConstTensorView& queries;
    const ConstTensorView& key_cache;
    const ConstTensorView& value_cache;
    const int32_t* query_starts;
    const int32_t* context_lengths;
    const ConstTensorView& block_tables;
    const ops::PagedAttentionOptions& options;
    const TensorView& out;

    int64_t num_sequences;
    int64_t kv_heads;
    int64_t group;  // query heads of one kv head
    int64_t head_dim;
    int64_t width;  // head_dim padded
    int64_t block_size;
    const int64_t* item_starts;  // [num_sequences]: items of the sequences before each

    int64_t queries_per_item() const { return std::max<int64_t>(1, kRowsPerItem / group); }
    int64_t num_queries(int64_t sequence) const {
        return query_starts[sequence + 1] - query_starts[sequence];
    }
    int64_t num_items(int64_t sequence) const {
        return divided_up(num_queries(sequence), queries_per_item()) * kv_heads;
    }
};

struct Item {
    int64_t sequence;
    int64_t kv_head;
    int64_t first_query;  // row of `queries`
    int64_t num_queries;
    int64_t first_position;  // of the first query
    int64_t end;             // the first position that none of its queries sees
};

Item find_item(const Batch& batch, int64_t index) {
    const int64_t* after =
        std::upper_bound(batch.item_starts, batch.item_starts + batch.num_sequences, index);
    const int64_t sequence = after - batch.item_starts - 1;
    index -= batch.item_starts[sequence];
    const int64_t run = index / batch.kv_heads * batch.queries_per_item();
    const int64_t num_queries = batch.num_queries(sequence);
    const int64_t length = batch.context_lengths[sequence];
    const int64_t count = std::min(batch.queries_per_item(), num_queries - run);
    const int64_t first_position = length - num_queries + run;
    return {
        sequence, index % batch.kv_heads, batch.query_starts[sequence] + run,
        count,    first_position,         batch.options.causal ? first_position + count : length};
}

// A tile of an item.
struct Place {
    const Item& item;
    int64_t tile;  // its first position
};

// Value 0 of a kv head in a position's block of keys or of values.
int64_t first_value(const Batch& batch, const ConstTensorView& cache, const Item& item,
                    int64_t position) {
    const int32_t* table =
        batch.block_tables.as<int32_t>() + item.sequence * batch.block_tables.stride(0);
    return table[position / batch.block_size] * cache.stride(0) + item.kv_head * cache.stride(1);
}

const void* keys_at(const Batch& batch, const Item& item, int64_t position) {
    const ConstTensorView& cache = batch.key_cache;
    return element(cache.data, cache.dtype,
                   first_value(batch, cache, item, position) + position % batch.block_size);
}

const void* values_at(const Batch& batch, const Item& item, int64_t position) {
    const ConstTensorView& cache = batch.value_cache;
    return element(
        cache.data, cache.dtype,
        first_value(batch, cache, item, position) + position % batch.block_size * batch.head_dim);
}

int64_t first_visible(const Batch& batch, int64_t position) {
    return batch.options.window > 0 ? std::max<int64_t>(0, position + 1 - batch.options.window) : 0;
}

// Positions [begin, end) of a tile block by block: body(position, count, the position that will be
// wanted next instead).
template <typename Body>
void for_each_run(const Batch& batch, const Place& place, int64_t begin, int64_t end,
                  const Place& next, Body body) {
    for (int64_t position = begin; position < end;) {
        const int64_t count =
            std::min(batch.block_size - position % batch.block_size, end - position);
        const int64_t wanted = next.tile + (position - place.tile);
        // Tables say nothing of what lies before the window.
        const int64_t first = first_visible(batch, next.item.first_position);
        body(position, count, std::clamp(wanted, first, next.item.end - 1));
        position += count;
    }
}

// Positions from the tile's first on side by side in every row. What is wanted next is asked of
// memory meanwhile: blocks lie anywhere, so the processor cannot foresee them.
void load_keys(const Batch& batch, const Place& place, int64_t begin, int64_t end,
               const Place& next, float* keys) {
    const auto widen = kernels().widen_rows[float_type_index(batch.key_cache.dtype)];
    for_each_run(batch, place, begin, end, next,
                 [&](int64_t position, int64_t count, int64_t wanted) {
                     widen({keys_at(batch, place.item, position), batch.block_size,
                            keys_at(batch, next.item, wanted), keys + (position - place.tile),
                            kTile, batch.head_dim, count});
                 });
}

// A row for each position from the tile's first on.
void load_values(const Batch& batch, const Place& place, int64_t begin, int64_t end,
                 const Place& next, float* values) {
    const auto widen = kernels().widen_rows[float_type_index(batch.value_cache.dtype)];
    for_each_run(batch, place, begin, end, next,
                 [&](int64_t position, int64_t count, int64_t wanted) {
                     widen({values_at(batch, place.item, position), batch.head_dim,
                            values_at(batch, next.item, wanted),
                            values + (position - place.tile) * batch.width, batch.width, count,
                            batch.head_dim});
                 });
}

void load_queries(const Batch& batch, const Item& item, const Workspace& space) {
    float* row = space.queries;
    for (int64_t query = 0; query < item.num_queries; ++query) {
        const float* heads = batch.queries.as<float>() +
                             (item.first_query + query) * batch.queries.stride(0) +
                             item.kv_head * batch.group * batch.queries.stride(1);
        for (int64_t head = 0; head < batch.group; ++head, row += batch.width) {
            std::memcpy(row, heads + head * batch.queries.stride(1),
                        static_cast<size_t>(batch.head_dim) * sizeof(float));
        }
    }
    const int64_t rows = item.num_queries * batch.group;
    std::fill_n(space.maximum, rows, std::numeric_limits<float>::lowest());
    std::fill_n(space.denominator, rows, 0.0f);
    std::fill_n(space.outputs, rows * batch.width, 0.0f);
}

// The queries of an item that see anything of a tile.
struct Seeing {
    int64_t first;
    int64_t count;
};

Seeing queries_that_see(const Batch& batch, const Item& item, int64_t tile) {
    if (!batch.options.causal) return {0, item.num_queries};
    const int64_t first = std::max<int64_t>(0, tile - item.first_position);
    const int64_t window = batch.options.window;
    const int64_t end =
        window > 0 ? std::min(item.num_queries, tile + kTile - 1 + window - item.first_position)
                   : item.num_queries;
    return {first, end - first};
}

void set_visible(const Batch& batch, const Item& item, int64_t tile, const Seeing& seeing,
                 const Workspace& space) {
    for (int64_t query = seeing.first; query < seeing.first + seeing.count; ++query) {
        const int64_t position = item.first_position + query;
        const int64_t visible_end = batch.options.causal ? position + 1 : item.end;
        for (int64_t row = query * batch.group; row < (query + 1) * batch.group; ++row) {
            space.begin[row] = std::clamp<int64_t>(first_visible(batch, position) - tile, 0, kTile);
            space.end[row] = std::clamp<int64_t>(visible_end - tile, 0, kTile);
        }
    }
}

void add_tile(const Batch& batch, const Place& place, int64_t begin, int64_t end, const Place& next,
              const Workspace& space) {
    const auto& [item, tile] = place;
    const Kernels& kernel = kernels();
    const Seeing seeing = queries_that_see(batch, item, tile);
    const int64_t row = seeing.first * batch.group;
    const int64_t rows = seeing.count * batch.group;
    float* const scores = space.scores + row * kTile;
    load_keys(batch, place, begin, end, next, space.keys);
    kernel.outer_product(space.queries + row * batch.width, batch.width, space.keys, kTile, scores,
                         kTile, rows, batch.head_dim, kTile, nullptr);
    load_values(batch, place, begin, end, next, space.values);
    set_visible(batch, item, tile, seeing, space);
    kernel.softmax_tile({scores, rows, space.begin + row, space.end + row, batch.options.scale,
                         batch.options.soft_cap, space.maximum + row, space.denominator + row,
                         space.correction + row});
    kernel.outer_product(scores + (begin - tile), kTile,
                         space.values + (begin - tile) * batch.width, batch.width,
                         space.outputs + row * batch.width, batch.width, rows, end - begin,
                         batch.width, space.correction + row);
}

void store_outputs(const Batch& batch, const Item& item, const Workspace& space) {
    const auto scale = kernels().scale;
    for (int64_t query = 0; query < item.num_queries; ++query) {
        for (int64_t head = 0; head < batch.group; ++head) {
            const int64_t row = query * batch.group + head;
            float* out = batch.out.as<float>() + (item.first_query + query) * batch.out.stride(0) +
                         (item.kv_head * batch.group + head) * batch.head_dim;
            scale(space.outputs + row * batch.width, 1.0f / space.denominator[row], out,
                  batch.head_dim);
        }
    }
}

int64_t first_tile(const Batch& batch, const Item& item) {
    return first_visible(batch, item.first_position) / kTile * kTile;
}

// `after`: what the thread will probably do next.
void run_item(const Batch& batch, const Item& item, const Item& after, const Workspace& space) {
    load_queries(batch, item, space);
    const int64_t first = first_visible(batch, item.first_position);
    for (int64_t tile = first_tile(batch, item); tile < item.end; tile += kTile) {
        const Place next = tile + kTile < item.end ? Place{item, tile + kTile}
                                                   : Place{after, first_tile(batch, after)};
        add_tile(batch, {item, tile}, std::max(tile, first), std::min(tile + kTile, item.end), next,
                 space);
    }
    store_outputs(batch, item, space);
}

}  // namespace

void paged_attention(const Context& context, const ConstTensorView& queries,
                     const ConstTensorView& key_cache, const ConstTensorView& value_cache,
                     const ConstTensorView& query_starts, const ConstTensorView& context_lengths,
                     const ConstTensorView& block_tables, const ops::PagedAttentionOptions& options,
                     const TensorView& out) {
    const int64_t kv_heads = key_cache.dim(1);
    const ScratchArena::Scope scope(*context.scratch);
    const int64_t num_sequences = context_lengths.dim(0);
    auto* const item_starts =
        context.scratch->take_array<int64_t>(static_cast<size_t>(num_sequences));
    const Batch batch{queries,
                      key_cache,
                      value_cache,
                      query_starts.as<int32_t>(),
                      context_lengths.as<int32_t>(),
                      block_tables,
                      options,
                      out,
                      num_sequences,
                      kv_heads,
                      queries.dim(1) / kv_heads,
                      queries.dim(2),
                      padded_width(queries.dim(2)),
                      value_cache.dim(2),
                      item_starts};
    int64_t num_items = 0;
    for (int64_t sequence = 0; sequence < num_sequences; ++sequence) {
        item_starts[sequence] = num_items;
        num_items += batch.num_items(sequence);
    }
    const int64_t rows = rows_per_item(queries.dim(1));
    const size_t thread_bytes = Workspace::bytes(rows, batch.width);
    const int num_threads = context.threads->num_threads();
    auto* memory = static_cast<std::byte*>(
        context.scratch->take(thread_bytes * static_cast<size_t>(num_threads)));
    context.threads->parallel_for(num_items, 1, [&](int64_t i, int64_t, int thread) {
        const Workspace space(memory + static_cast<size_t>(thread) * thread_bytes, rows,
                              batch.width);
        // The other threads will have taken as many items when this one takes its next.
        const Item after = find_item(batch, std::min(i + num_threads, num_items - 1));
        run_item(batch, find_item(batch, i), after, space);
    });
}

size_t paged_attention_scratch_bytes(int64_t sequences, int64_t heads, int64_t head_dim,
                                     int num_threads) {
    const int64_t starts = divided_up(sequences, kMaxLanes) * kMaxLanes;  // whole lines
    return static_cast<size_t>(starts) * sizeof(int64_t) +
           Workspace::bytes(rows_per_item(heads), padded_width(head_dim)) *
               static_cast<size_t>(num_threads);
}

}  // namespace nvllm::cpu
