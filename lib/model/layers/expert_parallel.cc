// Three exchanges: how many, then rows and which experts compute them, then results.
#include "lib/model/layers/expert_parallel.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/collectives.h"
#include "kernels/ops/elementwise.h"
#include "kernels/ops/moe.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {
namespace {

// One expert of one row.
struct TokenExpert {
    int32_t row;   // among the rows that are sent to the rank
    int32_t slot;  // among those of the rank
    float weight;  // on what the expert reads, where inputs are weighted
};

// What one rank sends to another, or gets of it.
struct DispatchCounts {
    int32_t rows = 0;
    int32_t pairs = 0;
};

// Of all ranks, in their order.
struct Dispatch {
    std::vector<DispatchCounts> of_rank;
    std::vector<int32_t> rows;         // of x, those that are sent
    std::vector<TokenExpert> pairs;    // by slot and row
    std::vector<int32_t> row_of_pair;  // of x
    std::vector<int32_t> starts;       // of each slot in `pairs`, and the end
};

// Of an expert's rows a copy computes those whose number is `first` modulo the copies.
struct Turn {
    int32_t first = 0;
    int32_t copies = 1;
};

// Of each slot. Each rank that sends begins with another copy.
std::vector<Turn> turns_of(const MoeMlp::Share& share, size_t experts) {
    std::vector<int32_t> copies(experts);
    std::vector<Turn> turns;
    for (const int32_t expert : share.expert_of_slot) {
        turns.push_back({copies[static_cast<size_t>(expert)]++, 1});
    }
    for (size_t slot = 0; slot < turns.size(); ++slot) {
        Turn& turn = turns[slot];
        turn.copies = copies[static_cast<size_t>(share.expert_of_slot[slot])];
        turn.first = (turn.first + share.rank) % turn.copies;
    }
    return turns;
}

// By slot, so that a rank's share lies together.
Dispatch dispatch_of(const MoeMlp& layer, int64_t rows, const TokensByExpert& sorted) {
    Dispatch dispatch;
    const std::vector<Turn> turns =
        turns_of(*layer.share, static_cast<size_t>(layer.num_experts()));
    const int64_t slots = layer.share->slots_of_rank();
    std::vector<int32_t> index_of_row(static_cast<size_t>(rows));
    for (int64_t rank = 0; rank < layer.share->ranks; ++rank) {
        std::ranges::fill(index_of_row, -1);
        DispatchCounts counts;
        for (int64_t slot = 0; slot < slots; ++slot) {
            dispatch.starts.push_back(static_cast<int32_t>(dispatch.pairs.size()));
            const auto index_of_slot = static_cast<size_t>(rank * slots + slot);
            const int32_t expert = layer.share->expert_of_slot[index_of_slot];
            const auto [first, copies] = turns[index_of_slot];
            for (int32_t i = sorted.starts[expert] + first; i < sorted.starts[expert + 1];
                 i += copies) {
                int32_t& index = index_of_row[static_cast<size_t>(sorted.rows[i])];
                if (index < 0) {
                    index = counts.rows++;
                    dispatch.rows.push_back(sorted.rows[i]);
                }
                dispatch.pairs.push_back({index, static_cast<int32_t>(slot), sorted.weights[i]});
                dispatch.row_of_pair.push_back(sorted.rows[i]);
                ++counts.pairs;
            }
        }
        dispatch.of_rank.push_back(counts);
    }
    dispatch.starts.push_back(static_cast<int32_t>(dispatch.pairs.size()));
    return dispatch;
}

std::vector<size_t> sizes_of(const std::vector<DispatchCounts>& dispatch,
                             int32_t DispatchCounts::*count, size_t bytes) {
    std::vector<size_t> sizes;
    for (const DispatchCounts& counts : dispatch) {
        sizes.push_back(static_cast<size_t>(counts.*count) * bytes);
    }
    return sizes;
}

int64_t total(const std::vector<DispatchCounts>& dispatch, int32_t DispatchCounts::*count) {
    int64_t sum = 0;
    for (const DispatchCounts& counts : dispatch) sum += counts.*count;
    return sum;
}

// Of what came of all ranks: for each slot here, which rows it computes and where results go.
struct Received {
    std::vector<DispatchCounts> of_rank;
    std::vector<TokenExpert> pairs;  // `row` among all rows that came
    std::vector<int32_t> by_slot;    // indices of `pairs`
    std::vector<int32_t> starts;     // of each slot in by_slot, and the end
};

void sort_received(const MoeMlp& layer, Received& received) {
    const auto slots = static_cast<size_t>(layer.share->slots_of_rank());
    int32_t first_row = 0;
    size_t index = 0;
    for (const DispatchCounts& counts : received.of_rank) {
        for (int32_t i = 0; i < counts.pairs; ++i) received.pairs[index++].row += first_row;
        first_row += counts.rows;
    }
    received.starts.assign(slots + 1, 0);
    for (const TokenExpert& one : received.pairs) {
        ++received.starts[static_cast<size_t>(one.slot) + 1];
    }
    std::partial_sum(received.starts.begin(), received.starts.end(), received.starts.begin());
    std::vector<int32_t> next = received.starts;
    received.by_slot.resize(received.pairs.size());
    for (size_t i = 0; i < received.pairs.size(); ++i) {
        const auto slot = static_cast<size_t>(received.pairs[i].slot);
        received.by_slot[static_cast<size_t>(next[slot]++)] = static_cast<int32_t>(i);
    }
}

// results[i] = what the expert of pairs[i] makes of its row.
void compute(const Context& context, const MoeMlp& layer, const Received& received,
             const ConstTensorView& rows, const TensorView& results) {
    const int64_t width = rows.dim(1);
    const int64_t most = context.is_dry_run() ? results.dim(0) : 0;
    for (size_t expert = 0; expert < layer.experts.size(); ++expert) {
        const int32_t begin = context.is_dry_run() ? 0 : received.starts[expert];
        const int64_t count =
            context.is_dry_run() ? most : received.starts[expert + 1] - received.starts[expert];
        if (count == 0) continue;
        const ScratchArena::Scope scope(*context.scratch);
        int32_t* const sources = context.scratch->take_array<int32_t>(static_cast<size_t>(count));
        int32_t* const targets = context.scratch->take_array<int32_t>(static_cast<size_t>(count));
        float* const weights = context.scratch->take_array<float>(static_cast<size_t>(count));
        const TensorView gathered = take_activations(context, {count, width});
        const TensorView computed = take_activations(context, {count, width});
        if (!context.is_dry_run()) {
            for (int64_t i = 0; i < count; ++i) {
                targets[i] = received.by_slot[static_cast<size_t>(begin + i)];
                sources[i] = received.pairs[static_cast<size_t>(targets[i])].row;
                weights[i] = received.pairs[static_cast<size_t>(targets[i])].weight;
            }
        }
        ops::gather_rows(context, rows, {sources, DType::i32, {count}}, gathered);
        if (layer.weighs_inputs) {
            ops::scale_rows(context, {weights, DType::f32, {count}}, gathered);
        }
        layer.experts[expert].apply(context, gathered, ops::MatmulOutput::overwrite, computed);
        if (context.is_dry_run()) continue;
        for (int64_t i = 0; i < count; ++i) {
            ops::copy(context, computed.rows(i, 1), results.rows(targets[i], 1));
        }
    }
}

// What the experts gave, as it was sent, into the rows that it is of: in the order of the experts.
// Of one expert no row is in two slots.
void add_results(const Context& context, const MoeMlp& layer, Dispatch& sent,
                 const ConstTensorView& results, const TensorView& y) {
    float* const factors = context.scratch->take_array<float>(static_cast<size_t>(results.dim(0)));
    if (context.is_dry_run()) return;
    for (size_t i = 0; i < sent.pairs.size(); ++i) {
        factors[i] = layer.weighs_inputs ? 1.0f : sent.pairs[i].weight;
    }
    std::vector<int32_t> order(layer.share->expert_of_slot.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int32_t slot) {
        return layer.share->expert_of_slot[static_cast<size_t>(slot)];
    });
    for (const int32_t slot : order) {
        const int32_t first = sent.starts[static_cast<size_t>(slot)];
        const int32_t count = sent.starts[static_cast<size_t>(slot) + 1] - first;
        if (count == 0) continue;
        ops::add_weighted_rows(context, results.rows(first, count),
                               {sent.row_of_pair.data() + first, DType::i32, {count}},
                               {factors + first, DType::f32, {count}}, y);
    }
}

}  // namespace

void dispatch_and_combine(const Context& context, const MoeMlp& layer, const ConstTensorView& x,
                          const Choices& choices, const TensorView& y) {
    const bool is_dry = context.is_dry_run();
    const int64_t rows = y.dim(0);
    const int64_t width = x.dim(1);
    const auto ranks = static_cast<int64_t>(layer.share->ranks);
    const int64_t per_row = layer.routing.experts_per_token;
    const TokensByExpert sorted = sort_by_expert(context, layer, rows, choices);
    Dispatch sent;
    Received received;
    // The most that may come: all rows of all ranks, each for all its experts.
    int64_t rows_sent = rows * std::min(ranks, per_row);
    int64_t rows_received = rows * ranks;
    int64_t pairs_received = rows * ranks * std::min(per_row, layer.share->slots_of_rank());
    if (!is_dry) {
        sent = dispatch_of(layer, rows, sorted);
        received.of_rank.resize(static_cast<size_t>(ranks));
        const RankGroup& group = *context.expert_ranks;
        group.all_to_all(context.stream, {sent.of_rank.data(), DType::i32, {ranks, 2}},
                         {received.of_rank.data(), DType::i32, {ranks, 2}});
        rows_sent = std::ssize(sent.rows);
        rows_received = total(received.of_rank, &DispatchCounts::rows);
        pairs_received = total(received.of_rank, &DispatchCounts::pairs);
        received.pairs.resize(static_cast<size_t>(pairs_received));
        group.exchange(context.stream, sent.pairs.data(),
                       sizes_of(sent.of_rank, &DispatchCounts::pairs, sizeof(TokenExpert)),
                       received.pairs.data(),
                       sizes_of(received.of_rank, &DispatchCounts::pairs, sizeof(TokenExpert)));
        sort_received(layer, received);
    }
    const size_t row_bytes = static_cast<size_t>(width) * dtype_bytes(context.activations);
    const TensorView outgoing = take_activations(context, {rows_sent, width});
    const TensorView incoming = take_activations(context, {rows_received, width});
    const TensorView made = take_activations(context, {pairs_received, width});
    const TensorView results = take_activations(context, {rows * per_row, width});
    if (!is_dry) {
        ops::gather_rows(context, x, {sent.rows.data(), DType::i32, {rows_sent}}, outgoing);
        context.expert_ranks->exchange(
            context.stream, outgoing.data, sizes_of(sent.of_rank, &DispatchCounts::rows, row_bytes),
            incoming.data, sizes_of(received.of_rank, &DispatchCounts::rows, row_bytes));
    }
    compute(context, layer, received, incoming, made);
    if (!is_dry) {
        context.expert_ranks->exchange(
            context.stream, made.data,
            sizes_of(received.of_rank, &DispatchCounts::pairs, row_bytes), results.data,
            sizes_of(sent.of_rank, &DispatchCounts::pairs, row_bytes));
    }
    add_results(context, layer, sent,
                results.rows(0, is_dry ? results.dim(0) : std::ssize(sent.pairs)), y);
}

}  // namespace nvllm
