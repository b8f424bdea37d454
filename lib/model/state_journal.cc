// Copies of rows, and the ops over them.
#include "lib/model/state_journal.h"

#include <utility>

#include "kernels/error.h"
#include "kernels/ops/elementwise.h"
#include "lib/model/layers/scratch.h"

namespace nvllm {
namespace {

// The parts of a row's input that are given.
ops::LinearAttentionInput rows_of(const ops::LinearAttentionInput& input, int64_t first,
                                  int64_t count) {
    ops::LinearAttentionInput part = input;
    for (ConstTensorView* const of_rows :
         {&part.queries, &part.keys, &part.values, &part.decay, &part.update}) {
        *of_rows = of_rows->rows(first, count);
    }
    return part;
}

}  // namespace

void StateJournal::begin(const Context& context, std::vector<UncertainRows> rows) {
    // What grew frees memory that a step in flight may use.
    if (kept_.num_growths() != num_growths_) ComputeDevice(context).synchronize(context.stream);
    num_growths_ = kept_.num_growths();
    kept_.reset();
    noted_.clear();
    rows_ = std::move(rows);
    num_rows_ = 0;
    for (const UncertainRows& of_sequence : rows_) num_rows_ += of_sequence.count;
}

ConstTensorView StateJournal::keep(const Context& context, const ConstTensorView& x) {
    ViewLayout layout = x;
    layout.shape[0] = num_rows_;
    int64_t values = 1;
    for (int axis = layout.rank - 1; axis >= 0; --axis) {
        layout.strides[static_cast<size_t>(axis)] = values;
        values *= layout.shape[static_cast<size_t>(axis)];
    }
    const TensorView copy(kept_.take(static_cast<size_t>(values) * dtype_bytes(x.dtype)), layout);
    int64_t begin = 0;
    for (const UncertainRows& rows : rows_) {
        ops::copy(context, x.rows(rows.first, rows.count), copy.rows(begin, rows.count));
        begin += rows.count;
    }
    return copy;
}

void StateJournal::note_convolution(const Context& context, int32_t group, const ConstTensorView& x,
                                    const ops::ConvWeights& weights, const TensorView& states) {
    noted_.push_back({group, states, Convolution{keep(context, x), weights}});
}

void StateJournal::note_attention(const Context& context, int32_t group,
                                  const ops::LinearAttentionInput& input,
                                  const TensorView& states) {
    ops::LinearAttentionInput copy = input;
    for (ConstTensorView* const of_rows :
         {&copy.queries, &copy.keys, &copy.values, &copy.decay, &copy.update}) {
        *of_rows = keep(context, *of_rows);
    }
    noted_.push_back({group, states, copy});
}

void StateJournal::repeat(const Context& context, size_t index, int64_t count) {
    const UncertainRows& rows = rows_[index];
    NVLLM_CHECK(count > 0 && count <= rows.count, "a step is done again over rows that it had");
    int64_t first = 0;
    for (size_t before = 0; before < index; ++before) first += rows_[before].count;

    const ScratchArena::Scope scope(*context.scratch);
    std::vector<int32_t> numbers = {0, static_cast<int32_t>(count),
                                    static_cast<int32_t>(rows.num_before + count)};
    numbers.insert(numbers.end(), rows.slots.begin(), rows.slots.end());
    const TensorView sent = take_values(context, DType::i32, {std::ssize(numbers)});
    ComputeDevice(context).copy_in(context.stream, sent.data, numbers.data(),
                                   numbers.size() * sizeof(int32_t));
    for (const Noted& noted : noted_) {
        const ScratchArena::Scope inner(*context.scratch);
        const ops::StateRows of_op = {sent.rows(0, 2), sent.rows(2, 1),
                                      sent.rows(3 + noted.group, 1).reshaped({1, 1})};
        if (const auto* const convolution = std::get_if<Convolution>(&noted.op)) {
            const ConstTensorView x = convolution->x.rows(first, count);
            ops::causal_conv1d(context, x, convolution->weights, of_op, noted.states,
                               take_values(context, x.dtype, {count, x.dim(1)}));
        } else {
            const ops::LinearAttentionInput input =
                rows_of(std::get<ops::LinearAttentionInput>(noted.op), first, count);
            const ConstTensorView& values = input.values;
            ops::linear_attention(
                context, input, of_op, noted.states,
                take_values(context, values.dtype, {count, values.dim(1), values.dim(2)}));
        }
    }
}

}  // namespace nvllm
