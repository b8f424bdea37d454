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
    int32_t row;     // among the rows that are sent to the rank
    int32_t expert;  // among those of the rank
    float weight;    // on what the expert reads, where inputs are weighted
};

// What one rank sends to another, or gets of it.
struct DispatchCounts {
    int32_t rows = 0;
    int32_t pairs = 0;
};

// Of all ranks, in their order.
struct Dispatch {
    std::vector<DispatchCounts> of_rank;
    std::vector<int32_t> rows;       // of x, those that are sent
    std::vector<TokenExpert> pairs;  // by rank, expert and row
};

int64_t experts_of_rank(const MoeMlp& layer) { return layer.num_experts() / layer.share->ranks; }

// In the order of the experts, so that a rank's share lies together.
Dispatch dispatch_of(const MoeMlp& layer, int64_t rows, const TokensByExpert& sorted) {
    Dispatch dispatch;
    const int64_t of_rank = experts_of_rank(layer);
    std::vector<int32_t> index_of_row(static_cast<size_t>(rows));
    for (int64_t rank = 0; rank < layer.share->ranks; ++rank) {
        std::ranges::fill(index_of_row, -1);
        DispatchCounts counts;
        for (int64_t expert = rank * of_rank; expert < (rank + 1) * of_rank; ++expert) {
            for (int32_t i = sorted.starts[expert]; i < sorted.starts[expert + 1]; ++i) {
                int32_t& index = index_of_row[static_cast<size_t>(sorted.rows[i])];
                if (index < 0) {
                    index = counts.rows++;
                    dispatch.rows.push_back(sorted.rows[i]);
                }
                dispatch.pairs.push_back(
                    {index, static_cast<int32_t>(expert - rank * of_rank), sorted.weights[i]});
                ++counts.pairs;
            }
        }
        dispatch.of_rank.push_back(counts);
    }
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

// Of what came of all ranks: for each expert here, which rows it computes and where results go.
struct Received {
    std::vector<DispatchCounts> of_rank;
    std::vector<TokenExpert> pairs;  // `row` among all rows that came
    std::vector<int32_t> by_expert;  // indices of `pairs`
    std::vector<int32_t> starts;     // of each expert in by_expert, and the end
};

void sort_received(const MoeMlp& layer, Received& received) {
    const auto experts = static_cast<size_t>(experts_of_rank(layer));
    int32_t first_row = 0;
    size_t index = 0;
    for (const DispatchCounts& counts : received.of_rank) {
        for (int32_t i = 0; i < counts.pairs; ++i) received.pairs[index++].row += first_row;
        first_row += counts.rows;
    }
    received.starts.assign(experts + 1, 0);
    for (const TokenExpert& one : received.pairs) {
        ++received.starts[static_cast<size_t>(one.expert) + 1];
    }
    std::partial_sum(received.starts.begin(), received.starts.end(), received.starts.begin());
    std::vector<int32_t> next = received.starts;
    received.by_expert.resize(received.pairs.size());
    for (size_t i = 0; i < received.pairs.size(); ++i) {
        const auto expert = static_cast<size_t>(received.pairs[i].expert);
        received.by_expert[static_cast<size_t>(next[expert]++)] = static_cast<int32_t>(i);
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
                targets[i] = received.by_expert[static_cast<size_t>(begin + i)];
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

// What the experts gave, sorted as the choices are, into the rows that they are of.
void add_results(const Context& context, const MoeMlp& layer, const TokensByExpert& sorted,
                 const ConstTensorView& results, const TensorView& y) {
    const int64_t all = results.dim(0);
    float* const ones = context.scratch->take_array<float>(static_cast<size_t>(all));
    if (context.is_dry_run()) return;
    std::fill_n(ones, all, 1.0f);
    for (int64_t expert = 0; expert < layer.num_experts(); ++expert) {
        const int64_t first = sorted.starts[expert];
        const int64_t count = sorted.starts[expert + 1] - first;
        if (count == 0) continue;
        const float* const weights = layer.weighs_inputs ? ones + first : sorted.weights + first;
        ops::add_weighted_rows(context, results.rows(first, count),
                               {sorted.rows + first, DType::i32, {count}},
                               {weights, DType::f32, {count}}, y);
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
    int64_t pairs_received = rows * ranks * std::min(per_row, experts_of_rank(layer));
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
    add_results(context, layer, sorted, results, y);
}

}  // namespace nvllm
