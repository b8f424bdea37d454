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

// Of what came of all ranks: what each slot here computes, slot by slot.
struct Received {
    std::vector<DispatchCounts> of_rank;
    std::vector<TokenExpert> pairs;  // as they came
    std::vector<int32_t> starts;     // of each slot, and the end
    std::vector<int32_t> rows;       // among all rows that came
    std::vector<float> weights;
    std::vector<int32_t> index_of_pair;
};

void sort_received(const MoeMlp& layer, Received& received) {
    const auto slots = static_cast<size_t>(layer.share->slots_of_rank());
    received.starts.assign(slots + 1, 0);
    for (const TokenExpert& one : received.pairs) {
        ++received.starts[static_cast<size_t>(one.slot) + 1];
    }
    std::partial_sum(received.starts.begin(), received.starts.end(), received.starts.begin());
    std::vector<int32_t> next = received.starts;
    const size_t count = received.pairs.size();
    received.rows.resize(count);
    received.weights.resize(count);
    received.index_of_pair.resize(count);
    int32_t first_row = 0;
    size_t pair = 0;
    for (const DispatchCounts& counts : received.of_rank) {
        for (int32_t i = 0; i < counts.pairs; ++i, ++pair) {
            const TokenExpert& one = received.pairs[pair];
            const int32_t index = next[static_cast<size_t>(one.slot)]++;
            received.rows[static_cast<size_t>(index)] = first_row + one.row;
            received.weights[static_cast<size_t>(index)] = one.weight;
            received.index_of_pair[pair] = index;
        }
        first_row += counts.rows;
    }
}

// What ranks tell each other of their rows. It lies on the host: collectives of devices take it
// through a device's memory, of which a dry run takes the most.
class HostExchange {
  public:
    HostExchange(const Context& context, int64_t most_sent, int64_t most_received)
        : context_(context),
          device_(context),
          scope_(*context.scratch),
          from_(take(most_sent)),
          to_(take(most_received)) {}

    void operator()(const void* from, const std::vector<size_t>& from_bytes, void* to,
                    const std::vector<size_t>& to_bytes) const {
        const RankGroup& group = *context_.expert_ranks;
        if (device_.is_cpu())
            return group.exchange(context_.stream, from, from_bytes, to, to_bytes);
        const auto sum = [](const std::vector<size_t>& sizes) {
            return std::accumulate(sizes.begin(), sizes.end(), size_t{0});
        };
        device_.copy_in(context_.stream, from_.data, from, sum(from_bytes));
        group.exchange(context_.stream, from_.data, from_bytes, to_.data, to_bytes);
        device_.copy_out(context_.stream, to, to_.data, sum(to_bytes));
        device_.synchronize(context_.stream);
    }

  private:
    TensorView take(int64_t bytes) const {
        return device_.is_cpu() ? TensorView() : take_values(context_, DType::u8, {bytes});
    }

    const Context& context_;
    ComputeDevice device_;
    ScratchArena::Scope scope_;
    TensorView from_;
    TensorView to_;
};

// results[i] = what the expert of pairs[i] makes of its row.
void compute(const Context& context, const MoeMlp& layer, const Received& received,
             const ConstTensorView& rows, const TensorView& results) {
    const int64_t all = results.dim(0);
    const int64_t width = rows.dim(1);
    const ConstTensorView sources = placed(context, received.rows.data(), DType::i32, all);
    const ConstTensorView weights = placed(context, received.weights.data(), DType::f32, all);
    const ConstTensorView places = placed(context, received.index_of_pair.data(), DType::i32, all);
    const TensorView by_slot = take_activations(context, {all, width});
    for (size_t expert = 0; expert < layer.experts.size(); ++expert) {
        const int64_t begin = context.is_dry_run() ? 0 : received.starts[expert];
        const int64_t count = context.is_dry_run() ? all : received.starts[expert + 1] - begin;
        if (count == 0) continue;
        const ScratchArena::Scope scope(*context.scratch);
        const TensorView gathered = take_activations(context, {count, width});
        ops::gather_rows(context, rows, sources.rows(begin, count), gathered);
        if (layer.weighs_inputs) {
            ops::scale_rows(context, weights.rows(begin, count), gathered);
        }
        layer.experts[expert].apply(context, gathered, ops::MatmulOutput::overwrite,
                                    by_slot.rows(begin, count));
    }
    if (all > 0) ops::gather_rows(context, by_slot, places, results);
}

// What the experts gave, as it was sent, into the rows that it is of: in the order of the experts.
// Of one expert no row is in two slots.
void add_results(const Context& context, const MoeMlp& layer, const Dispatch& sent,
                 const ConstTensorView& results, const TensorView& y) {
    std::vector<float> factors;
    for (const TokenExpert& pair : sent.pairs) {
        factors.push_back(layer.weighs_inputs ? 1.0f : pair.weight);
    }
    const ConstTensorView weights = placed(context, factors.data(), DType::f32, results.dim(0));
    const ConstTensorView rows =
        placed(context, sent.row_of_pair.data(), DType::i32, results.dim(0));
    if (context.is_dry_run()) return;
    std::vector<int32_t> order(layer.share->expert_of_slot.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](int32_t slot) {
        return layer.share->expert_of_slot[static_cast<size_t>(slot)];
    });
    for (const int32_t slot : order) {
        const int32_t first = sent.starts[static_cast<size_t>(slot)];
        const int32_t count = sent.starts[static_cast<size_t>(slot) + 1] - first;
        if (count == 0) continue;
        ops::add_weighted_rows(context, results.rows(first, count), rows.rows(first, count),
                               weights.rows(first, count), y);
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
    {
        constexpr auto kPairBytes = static_cast<int64_t>(sizeof(TokenExpert));
        constexpr auto kCountBytes = static_cast<int64_t>(sizeof(DispatchCounts));
        const HostExchange exchange(context,
                                    std::max(ranks * kCountBytes, rows * per_row * kPairBytes),
                                    std::max(ranks * kCountBytes, pairs_received * kPairBytes));
        if (!is_dry) {
            sent = dispatch_of(layer, rows, sorted);
            received.of_rank.resize(static_cast<size_t>(ranks));
            const std::vector<size_t> counts(static_cast<size_t>(ranks), sizeof(DispatchCounts));
            exchange(sent.of_rank.data(), counts, received.of_rank.data(), counts);
            rows_sent = std::ssize(sent.rows);
            rows_received = total(received.of_rank, &DispatchCounts::rows);
            pairs_received = total(received.of_rank, &DispatchCounts::pairs);
            received.pairs.resize(static_cast<size_t>(pairs_received));
            exchange(sent.pairs.data(),
                     sizes_of(sent.of_rank, &DispatchCounts::pairs, sizeof(TokenExpert)),
                     received.pairs.data(),
                     sizes_of(received.of_rank, &DispatchCounts::pairs, sizeof(TokenExpert)));
            sort_received(layer, received);
        }
    }
    const size_t row_bytes = static_cast<size_t>(width) * dtype_bytes(context.activations);
    const TensorView outgoing = take_activations(context, {rows_sent, width});
    const TensorView incoming = take_activations(context, {rows_received, width});
    const TensorView made = take_activations(context, {pairs_received, width});
    const TensorView results = take_activations(context, {rows * per_row, width});
    const ConstTensorView sources = placed(context, sent.rows.data(), DType::i32, rows_sent);
    if (!is_dry) {
        if (rows_sent > 0) ops::gather_rows(context, x, sources, outgoing);
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
