// Layers with states on the CPU.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/cpu/simd/rows.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::cpu {
namespace {

// Columns of a head's state that one thread computes: with a key of 128 dimensions 16 KB.
constexpr int64_t kColumns = 32;
constexpr int64_t kMostTaps = 64;

struct Sequence {
    int64_t begin;  // of its rows
    int64_t end;
    bool is_new;  // no token came before
    int64_t slot;
};

Sequence sequence_of(const ops::StateRows& rows, int64_t index, int64_t num_slots) {
    const auto* const starts = rows.query_start_loc.as<int32_t>();
    const int64_t slot = rows.slots.as<int32_t>()[index * rows.slots.stride(0)];
    NVLLM_CHECK(slot >= 0 && slot < num_slots, "no state slot " + std::to_string(slot));
    const int64_t begin = starts[index];
    const int64_t end = starts[index + 1];
    return {begin, end, rows.seq_lens.as<int32_t>()[index] == end - begin, slot};
}

int64_t num_sequences(const ops::StateRows& rows) { return rows.seq_lens.dim(0); }

// One sequence's rows of x, before and in this step; null: zeros.
class ConvRows {
  public:
    ConvRows(const ConstTensorView& x, const TensorView& states, const Sequence& sequence)
        : x_(x), sequence_(sequence), kept_(states.dim(1)), channels_(states.dim(2)) {
        if (sequence.is_new) return;
        state_ = states.as<float>() + sequence.slot * states.stride(0);
    }

    // `index` from the step's first row of the sequence on, negative for those before.
    const float* row(int64_t index) const {
        if (index >= 0) return x_.as<float>() + (sequence_.begin + index) * x_.stride(0);
        return state_ == nullptr ? nullptr : state_ + (kept_ + index) * channels_;
    }

  private:
    const ConstTensorView& x_;
    const Sequence& sequence_;
    int64_t kept_;
    int64_t channels_;
    const float* state_ = nullptr;
};

// Rows move to the front in ascending order: none is overwritten before it was read.
void keep_last_rows(const ConvRows& rows, const Sequence& sequence, const TensorView& states) {
    const int64_t kept = states.dim(1);
    const int64_t channels = states.dim(2);
    const auto bytes = static_cast<size_t>(channels) * sizeof(float);
    float* const state = states.as<float>() + sequence.slot * states.stride(0);
    for (int64_t i = 0; i < kept; ++i) {
        const float* const row = rows.row(sequence.end - sequence.begin - kept + i);
        if (row == nullptr) {
            std::memset(state + i * channels, 0, bytes);
        } else {
            std::memmove(state + i * channels, row, bytes);
        }
    }
}

float log_of_one_plus_exp(float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); }

}  // namespace

void causal_conv1d(const Context& context, const ConstTensorView& x,
                   const ops::ConvWeights& weights, const ops::StateRows& rows,
                   const TensorView& states, const TensorView& out) {
    const ConstTensorView& weight = weights.taps;
    const float* const bias = weights.bias.rank > 0 ? weights.bias.as<float>() : nullptr;
    const int64_t taps = weight.dim(0);
    NVLLM_CHECK(taps <= kMostTaps, "causal_conv1d: too many taps");
    const int64_t channels = x.dim(1);
    const auto kernel = kernels().conv_row;
    for (int64_t index = 0; index < num_sequences(rows); ++index) {
        const Sequence sequence = sequence_of(rows, index, states.dim(0));
        const ConvRows inputs(x, states, sequence);
        parallel_rows(context, sequence.end - sequence.begin, channels * taps, [&](int64_t token) {
            const float* read[kMostTaps];
            for (int64_t tap = 0; tap < taps; ++tap) read[tap] = inputs.row(token - taps + 1 + tap);
            kernel(read, weight.as<float>(), bias, taps,
                   out.as<float>() + (sequence.begin + token) * out.stride(0), channels);
        });
        keep_last_rows(inputs, sequence, states);
    }
}

void l2_norm(const Context& context, const ConstTensorView& x, float epsilon, float scale,
             const TensorView& out) {
    const RowIndex source(x);
    const RowIndex target(out);
    const auto kernel = kernels().l2_norm;
    parallel_rows(context, source.count(), source.width(), [&](int64_t row) {
        kernel(x.as<float>() + source.offset(row), epsilon, scale,
               out.as<float>() + target.offset(row), source.width());
    });
}

void state_gates(const Context& context, const ConstTensorView& a, const ConstTensorView& b,
                 const ops::GateWeights& weights, const TensorView& decay,
                 const TensorView& update) {
    // An exponential costs as much as some ten other values.
    constexpr int64_t kCost = 32;
    const int64_t heads = weights.a_log.dim(0);
    const int64_t width = a.dim(1);
    const int64_t decays = width / heads;
    const bool has_updates = b.rank > 0;
    parallel_rows(context, a.dim(0), width * kCost, [&](int64_t token) {
        const float* const a_row = a.as<float>() + token * a.stride(0);
        float* const update_row = update.as<float>() + token * heads;
        for (int64_t i = 0; i < width; ++i) {
            const float step = std::max(
                log_of_one_plus_exp(a_row[i] + weights.dt_bias.as<float>()[i]), weights.least_step);
            decay.as<float>()[token * width + i] =
                std::exp(-std::exp(weights.a_log.as<float>()[i / decays]) * step);
            if (!has_updates) update_row[i] = step;
        }
        if (!has_updates) return;
        const float* const b_row = b.as<float>() + token * b.stride(0);
        for (int64_t head = 0; head < heads; ++head) {
            update_row[head] = 1.0f / (1.0f + std::exp(-b_row[head]));
        }
    });
}

void linear_attention(const Context& context, const ops::LinearAttentionInput& input,
                      const ops::StateRows& rows, const TensorView& states, const TensorView& out) {
    const int64_t heads = states.dim(1);
    const int64_t key_dim = states.dim(2);
    const int64_t value_dim = states.dim(3);
    const int64_t heads_per_key = heads / input.keys.dim(1);
    const int64_t parts = divided_up(value_dim, kColumns);
    const int64_t decays = input.decay.rank == 3 ? key_dim : 1;  // of a head
    const auto kernel = kernels().linear_attention;
    const auto compute = [&](int64_t item) {
        const int64_t first = item % parts * kColumns;
        const int64_t head = item / parts % heads;
        const Sequence sequence = sequence_of(rows, item / parts / heads, states.dim(0));
        const int64_t key_head = head / heads_per_key;
        const auto from = [&](const ConstTensorView& view, int64_t of_head, int64_t column) {
            return view.as<float>() + sequence.begin * view.stride(0) + of_head * view.stride(1) +
                   column;
        };
        LinearAttentionColumns columns;
        columns.tokens = sequence.end - sequence.begin;
        columns.key_dim = key_dim;
        columns.columns = std::min(kColumns, value_dim - first);
        columns.queries = from(input.queries, key_head, 0);
        columns.query_stride = input.queries.stride(0);
        columns.keys = from(input.keys, key_head, 0);
        columns.key_stride = input.keys.stride(0);
        columns.values = from(input.values, head, first);
        columns.value_stride = input.values.stride(0);
        const int64_t first_gate = sequence.begin * heads + head;
        columns.decay = input.decay.as<float>() + first_gate * decays;
        columns.decay_stride = heads * decays;
        columns.by_dimension = input.decay.rank == 3;
        columns.update = input.update.as<float>() + first_gate;
        columns.update_stride = heads;
        columns.is_delta = input.is_delta;
        columns.skip = input.skip.rank > 0 ? input.skip.as<float>()[head] : 0.0f;
        columns.state = states.as<float>() + sequence.slot * states.stride(0) +
                        head * key_dim * value_dim + first;
        columns.state_stride = value_dim;
        columns.out =
            out.as<float>() + sequence.begin * out.stride(0) + head * out.stride(1) + first;
        columns.out_stride = out.stride(0);
        if (sequence.is_new) {
            for (int64_t i = 0; i < key_dim; ++i) {
                std::memset(columns.state + i * value_dim, 0,
                            static_cast<size_t>(columns.columns) * sizeof(float));
            }
        }
        kernel(columns);
    };
    context.threads->parallel_for(num_sequences(rows) * heads * parts, 1,
                                  [&](int64_t begin, int64_t end, int) {
                                      for (int64_t item = begin; item < end; ++item) compute(item);
                                  });
}

}  // namespace nvllm::cpu
