// Three exchanges: how much, then rows and what is wanted of them, then results.
#include "lib/model/layers/spread_experts.h"

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
struct Wanted {
    int32_t row;     // among the rows that are sent to the rank
    int32_t expert;  // among those of the rank
    float weight;    // on what the expert reads, where inputs are weighted
};

// What one rank sends to another, or gets of it.
struct Parcel {
    int32_t rows = 0;
    int32_t wanted = 0;
};

// Of all ranks, in their order.
struct Parcels {
    std::vector<Parcel> of_rank;
    std::vector<int32_t> rows;   // of x, those that are sent
    std::vector<Wanted> wanted;  // by rank, expert and row
};

int64_t experts_of_rank(const MoeMlp& layer) { return layer.num_experts() / layer.share->ranks; }

// In the order of the experts, so that a rank's share lies together.
Parcels parcels_of(const MoeMlp& layer, int64_t rows, const TokensByExpert& sorted) {
    Parcels parcels;
    const int64_t of_rank = experts_of_rank(layer);
    std::vector<int32_t> place(static_cast<size_t>(rows));
    for (int64_t rank = 0; rank < layer.share->ranks; ++rank) {
        std::ranges::fill(place, -1);
        Parcel parcel;
        for (int64_t expert = rank * of_rank; expert < (rank + 1) * of_rank; ++expert) {
            for (int32_t i = sorted.starts[expert]; i < sorted.starts[expert + 1]; ++i) {
                int32_t& index = place[static_cast<size_t>(sorted.rows[i])];
                if (index < 0) {
                    index = parcel.rows++;
                    parcels.rows.push_back(sorted.rows[i]);
                }
                parcels.wanted.push_back(
                    {index, static_cast<int32_t>(expert - rank * of_rank), sorted.weights[i]});
                ++parcel.wanted;
            }
        }
        parcels.of_rank.push_back(parcel);
    }
    return parcels;
}

std::vector<size_t> sizes_of(const std::vector<Parcel>& parcels, int32_t Parcel::*count,
                             size_t bytes) {
    std::vector<size_t> sizes;
    for (const Parcel& parcel : parcels) {
        sizes.push_back(static_cast<size_t>(parcel.*count) * bytes);
    }
    return sizes;
}

int64_t total(const std::vector<Parcel>& parcels, int32_t Parcel::*count) {
    int64_t sum = 0;
    for (const Parcel& parcel : parcels) sum += parcel.*count;
    return sum;
}

// Of what came of all ranks: for each expert here, which rows it computes and where results go.
struct Received {
    std::vector<Parcel> of_rank;
    std::vector<Wanted> wanted;      // `row` among all rows that came
    std::vector<int32_t> by_expert;  // indices of `wanted`
    std::vector<int32_t> starts;     // of each expert in by_expert, and the end
};

void sort_received(const MoeMlp& layer, Received& received) {
    const auto experts = static_cast<size_t>(experts_of_rank(layer));
    int32_t first_row = 0;
    size_t index = 0;
    for (const Parcel& parcel : received.of_rank) {
        for (int32_t i = 0; i < parcel.wanted; ++i) received.wanted[index++].row += first_row;
        first_row += parcel.rows;
    }
    received.starts.assign(experts + 1, 0);
    for (const Wanted& one : received.wanted) {
        ++received.starts[static_cast<size_t>(one.expert) + 1];
    }
    std::partial_sum(received.starts.begin(), received.starts.end(), received.starts.begin());
    std::vector<int32_t> next = received.starts;
    received.by_expert.resize(received.wanted.size());
    for (size_t i = 0; i < received.wanted.size(); ++i) {
        const auto expert = static_cast<size_t>(received.wanted[i].expert);
        received.by_expert[static_cast<size_t>(next[expert]++)] = static_cast<int32_t>(i);
    }
}

// results[i] = what the expert of wanted[i] makes of its row.
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
                sources[i] = received.wanted[static_cast<size_t>(targets[i])].row;
                weights[i] = received.wanted[static_cast<size_t>(targets[i])].weight;
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

void spread_over_experts(const Context& context, const MoeMlp& layer, const ConstTensorView& x,
                         const Choices& choices, const TensorView& y) {
    const bool is_dry = context.is_dry_run();
    const int64_t rows = y.dim(0);
    const int64_t width = x.dim(1);
    const auto ranks = static_cast<int64_t>(layer.share->ranks);
    const int64_t per_row = layer.routing.experts_per_token;
    const TokensByExpert sorted = sort_by_expert(context, layer, rows, choices);
    Parcels sent;
    Received received;
    // The most that may come: all rows of all ranks, each for all its experts.
    int64_t rows_sent = rows * std::min(ranks, per_row);
    int64_t rows_received = rows * ranks;
    int64_t wanted_received = rows * ranks * std::min(per_row, experts_of_rank(layer));
    if (!is_dry) {
        sent = parcels_of(layer, rows, sorted);
        received.of_rank.resize(static_cast<size_t>(ranks));
        const RankGroup& group = *context.expert_ranks;
        group.all_to_all(context.stream, {sent.of_rank.data(), DType::i32, {ranks, 2}},
                         {received.of_rank.data(), DType::i32, {ranks, 2}});
        rows_sent = std::ssize(sent.rows);
        rows_received = total(received.of_rank, &Parcel::rows);
        wanted_received = total(received.of_rank, &Parcel::wanted);
        received.wanted.resize(static_cast<size_t>(wanted_received));
        group.exchange(context.stream, sent.wanted.data(),
                       sizes_of(sent.of_rank, &Parcel::wanted, sizeof(Wanted)),
                       received.wanted.data(),
                       sizes_of(received.of_rank, &Parcel::wanted, sizeof(Wanted)));
        sort_received(layer, received);
    }
    const size_t row_bytes = static_cast<size_t>(width) * dtype_bytes(context.activations);
    const TensorView outgoing = take_activations(context, {rows_sent, width});
    const TensorView incoming = take_activations(context, {rows_received, width});
    const TensorView made = take_activations(context, {wanted_received, width});
    const TensorView results = take_activations(context, {rows * per_row, width});
    if (!is_dry) {
        ops::gather_rows(context, x, {sent.rows.data(), DType::i32, {rows_sent}}, outgoing);
        context.expert_ranks->exchange(
            context.stream, outgoing.data, sizes_of(sent.of_rank, &Parcel::rows, row_bytes),
            incoming.data, sizes_of(received.of_rank, &Parcel::rows, row_bytes));
    }
    compute(context, layer, received, incoming, made);
    if (!is_dry) {
        context.expert_ranks->exchange(
            context.stream, made.data, sizes_of(received.of_rank, &Parcel::wanted, row_bytes),
            results.data, sizes_of(sent.of_rank, &Parcel::wanted, row_bytes));
    }
    add_results(context, layer, sorted, results, y);
}

}  // namespace nvllm
