// The ops over rows, as plain loops.
#include <algorithm>
#include <cmath>

#include "ops.h"
#include "values.h"

namespace example {
namespace {

float apply(nvllm::ops::Activation function, float x) {
    switch (function) {
        case nvllm::ops::Activation::silu:
            return x / (1.0f + std::exp(-x));
        case nvllm::ops::Activation::gelu:
            return 0.5f * x * (1.0f + std::erf(x * 0.70710678f));
        case nvllm::ops::Activation::gelu_tanh:
            return 0.5f * x * (1.0f + std::tanh(0.79788456f * (x + 0.044715f * x * x * x)));
        case nvllm::ops::Activation::relu:
            return x > 0.0f ? x : 0.0f;
        case nvllm::ops::Activation::sigmoid:
            return 1.0f / (1.0f + std::exp(-x));
    }
    return x;
}

// visit(first element of a row of x, of the same row of y, and of out).
template <typename Visit>
void for_each_row(const ViewLayout& x, const ViewLayout& y, const ViewLayout& out, Visit&& visit) {
    const int64_t inner = x.rank == 3 ? x.dim(1) : 1;
    for (int64_t row = 0; row < x.dim(0) * inner; ++row) {
        const auto start = [&](const ViewLayout& view) {
            return row / inner * view.stride(0) +
                   (view.rank == 3 ? row % inner * view.stride(1) : 0);
        };
        visit(start(x), start(y), start(out));
    }
}

template <typename Visit>
void for_each_row(const ViewLayout& x, const ViewLayout& out, Visit&& visit) {
    for_each_row(x, x, out, [&](int64_t from, int64_t, int64_t to) { visit(from, to); });
}

}  // namespace

void activation(const Context&, nvllm::ops::Activation function, const ConstTensorView& x,
                const TensorView& out) {
    for_each_element(x, out, [&](int64_t from, int64_t to) {
        store(out.data, out.dtype, to, apply(function, load(x.data, x.dtype, from)));
    });
}

void gated_activation(const Context&, nvllm::ops::Activation function, const ConstTensorView& gate,
                      const ConstTensorView& up, const TensorView& out) {
    const int64_t width = out.dim(out.rank - 1);
    for_each_row(gate, up, out, [&](int64_t of_gate, int64_t of_up, int64_t to) {
        for (int64_t i = 0; i < width; ++i) {
            const float factor = apply(function, load(gate.data, gate.dtype, of_gate + i));
            store(out.data, out.dtype, to + i, factor * load(up.data, up.dtype, of_up + i));
        }
    });
}

void clamped_swiglu(const Context&, float alpha, float limit, nvllm::ops::GateOrder order,
                    const ConstTensorView& gate_up, const TensorView& out) {
    const bool in_pairs = order == nvllm::ops::GateOrder::pairs;
    for (int64_t row = 0; row < out.dim(0); ++row) {
        for (int64_t i = 0; i < out.dim(1); ++i) {
            const int64_t gate_column = in_pairs ? 2 * i : i;
            const int64_t up_column = in_pairs ? 2 * i + 1 : out.dim(1) + i;
            const float gate = std::min(get(gate_up, {row, gate_column}), limit);
            const float up = std::clamp(get(gate_up, {row, up_column}), -limit, limit);
            set(out, {row, i}, gate / (1.0f + std::exp(-alpha * gate)) * (up + 1.0f));
        }
    }
}

void add(const Context&, const ConstTensorView& x, const TensorView& y) {
    for_each_element(x, y, [&](int64_t from, int64_t to) {
        store(y.data, y.dtype, to, load(y.data, y.dtype, to) + load(x.data, x.dtype, from));
    });
}

void soft_cap(const Context&, float cap, const TensorView& x) {
    for_each_element(x, x, [&](int64_t at, int64_t) {
        store(x.data, x.dtype, at, cap * std::tanh(load(x.data, x.dtype, at) / cap));
    });
}

void scale(const Context&, float factor, const TensorView& x) {
    for_each_element(x, x, [&](int64_t at, int64_t) {
        store(x.data, x.dtype, at, factor * load(x.data, x.dtype, at));
    });
}

void scale_rows(const Context&, const ConstTensorView& factors, const TensorView& x) {
    for (int64_t row = 0; row < x.dim(0); ++row) {
        for (int64_t i = 0; i < x.dim(1); ++i) {
            set(x, {row, i}, get(factors, {row}) * get(x, {row, i}));
        }
    }
}

void gather_rows(const Context&, const ConstTensorView& x, const ConstTensorView& rows,
                 const TensorView& out) {
    for (int64_t row = 0; row < out.dim(0); ++row) {
        for (int64_t i = 0; i < out.dim(1); ++i) {
            set(out, {row, i}, get(x, {index_at(rows, row), i}));
        }
    }
}

void convert(const Context&, const ConstTensorView& x, const TensorView& out) {
    for (int64_t i = 0; i < x.numel(); ++i) {
        store(out.data, out.dtype, i, load(x.data, x.dtype, i));
    }
}

void embedding(const Context&, const ConstTensorView& table, const ConstTensorView& ids,
               float scale, const TensorView& out, const nvllm::ops::TableRows& rows) {
    for (int64_t row = 0; row < out.dim(0); ++row) {
        const int64_t id = index_at(ids, row) - rows.first;
        const bool exists = id >= 0 && id < table.dim(0);
        for (int64_t i = 0; i < out.dim(1); ++i) {
            set(out, {row, i}, exists ? get(table, {id, i}) * scale : 0.0f);
        }
    }
}

void add_weighted_rows(const Context&, const ConstTensorView& x, const ConstTensorView& rows,
                       const ConstTensorView& weights, const TensorView& y) {
    for (int64_t row = 0; row < x.dim(0); ++row) {
        const int64_t to = index_at(rows, row);
        for (int64_t i = 0; i < x.dim(1); ++i) {
            set(y, {to, i}, get(y, {to, i}) + get(weights, {row}) * get(x, {row, i}));
        }
    }
}

void rms_norm(const Context&, const ConstTensorView& x, const ConstTensorView& weight,
              const nvllm::ops::RmsNormOptions& options, const TensorView& out) {
    const int64_t width = x.dim(x.rank - 1);
    for_each_row(x, out, [&](int64_t from, int64_t to) {
        double squares = 0.0;
        for (int64_t i = 0; i < width; ++i) {
            const double value = load(x.data, x.dtype, from + i);
            squares += value * value;
        }
        const double scale =
            1.0 / std::sqrt(squares / static_cast<double>(width) + options.epsilon);
        for (int64_t i = 0; i < width; ++i) {
            const double factor = scale * (get(weight, {i}) + options.weight_offset);
            const double value = load(x.data, x.dtype, from + i) * factor;
            store(out.data, out.dtype, to + i, static_cast<float>(value));
        }
    });
}

void layer_norm(const Context&, const ConstTensorView& x, const ConstTensorView& weight,
                const ConstTensorView& bias, float epsilon, const TensorView& out) {
    const int64_t width = x.dim(x.rank - 1);
    const auto count = static_cast<double>(width);
    for_each_row(x, out, [&](int64_t from, int64_t to) {
        double sum = 0.0;
        for (int64_t i = 0; i < width; ++i) sum += load(x.data, x.dtype, from + i);
        const double mean = sum / count;
        double squares = 0.0;
        for (int64_t i = 0; i < width; ++i) {
            const double away = load(x.data, x.dtype, from + i) - mean;
            squares += away * away;
        }
        const double scale = 1.0 / std::sqrt(squares / count + epsilon);
        for (int64_t i = 0; i < width; ++i) {
            const double value = (load(x.data, x.dtype, from + i) - mean) * scale;
            const double shift = bias.data != nullptr ? get(bias, {i}) : 0.0f;
            store(out.data, out.dtype, to + i,
                  static_cast<float>(value * get(weight, {i}) + shift));
        }
    });
}

void rope_cos_sin(const Context&, const ConstTensorView& positions,
                  const ConstTensorView& inverse_frequencies, float attention_scaling,
                  const TensorView& cosines, const TensorView& sines,
                  const ConstTensorView& choices) {
    for (int64_t row = 0; row < cosines.dim(0); ++row) {
        const int64_t choice = choices.data != nullptr ? index_at(choices, row) : 0;
        for (int64_t i = 0; i < cosines.dim(1); ++i) {
            const float frequency = choices.data != nullptr ? get(inverse_frequencies, {choice, i})
                                                            : get(inverse_frequencies, {i});
            const float angle = static_cast<float>(index_at(positions, row)) * frequency;
            set(cosines, {row, i}, std::cos(angle) * attention_scaling);
            set(sines, {row, i}, std::sin(angle) * attention_scaling);
        }
    }
}

void rope(const Context&, const ConstTensorView& cosines, const ConstTensorView& sines,
          nvllm::ops::RopePairs pairs, const TensorView& x) {
    const int64_t half = cosines.dim(1);
    const bool interleaved = pairs == nvllm::ops::RopePairs::interleaved;
    for (int64_t row = 0; row < x.dim(0); ++row) {
        for (int64_t head = 0; head < x.dim(1); ++head) {
            for (int64_t i = 0; i < half; ++i) {
                const int64_t first = interleaved ? 2 * i : i;
                const int64_t second = interleaved ? 2 * i + 1 : i + half;
                const float a = get(x, {row, head, first});
                const float b = get(x, {row, head, second});
                const float cosine = get(cosines, {row, i});
                const float sine = get(sines, {row, i});
                set(x, {row, head, first}, a * cosine - b * sine);
                set(x, {row, head, second}, b * cosine + a * sine);
            }
        }
    }
}

void position_factors(const Context&, const ConstTensorView& positions, float beta,
                      int64_t original, int64_t offset, const TensorView& factors) {
    for (int64_t row = 0; row < factors.dim(0); ++row) {
        const int64_t turns = (index_at(positions, row) + offset) / original;
        set(factors, {row}, 1.0f + beta * std::log(1.0f + static_cast<float>(turns)));
    }
}

}  // namespace example
