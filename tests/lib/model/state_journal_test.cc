// States that are taken back have the bits of a step over the rows that stay.
#include "lib/model/state_journal.h"

#include <doctest/doctest.h>

#include <random>

#include "kernels/host/thread_pool.h"

namespace nvllm {
namespace {

constexpr int64_t kChannels = 6;
constexpr int64_t kTaps = 3;
constexpr int64_t kHeads = 2;
constexpr int64_t kDim = 4;
constexpr int64_t kSlots = 3;
constexpr int64_t kRows = 9;

std::vector<float> random_values(size_t count, uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> between(-1.0f, 1.0f);
    std::vector<float> values(count);
    for (float& value : values) value = between(random);
    return values;
}

// Both ops over two sequences: rows 0 to 4 of a step are the first's, in slot 2, and the others the
// second's, in slot 0; five and eleven tokens came before.
struct Step {
    Step() {
        context.scratch = &arena;
        context.threads = &threads;
    }

    ConstTensorView view(const std::vector<float>& values, int64_t first, int64_t count,
                         std::initializer_list<int64_t> of_row) const {
        int64_t width = 1;
        for (const int64_t size : of_row) width *= size;
        const float* const begin = values.data() + first * width;
        return of_row.size() == 1
                   ? ConstTensorView(begin, DType::f32, {count, *of_row.begin()})
                   : ConstTensorView(begin, DType::f32,
                                     {count, *of_row.begin(), *(of_row.begin() + 1)});
    }

    void run(const std::vector<int32_t>& starts, const std::vector<int32_t>& lengths,
             const std::vector<int32_t>& slots, int64_t first, StateJournal* journal) {
        const auto sequences = static_cast<int64_t>(slots.size());
        const int64_t count = starts.back();
        const ops::StateRows rows = {{starts.data(), DType::i32, {sequences + 1}},
                                     {lengths.data(), DType::i32, {sequences}},
                                     {slots.data(), DType::i32, {sequences, 1}}};
        const ops::ConvWeights weights = {{taps.data(), DType::f32, {kTaps, kChannels}}, {}};
        const TensorView of_conv(conv_states.data(), DType::f32, {kSlots, kTaps - 1, kChannels});
        const TensorView of_heads(states.data(), DType::f32, {kSlots, kHeads, kDim, kDim});
        const ConstTensorView in = view(x, first, count, {kChannels});
        const ops::LinearAttentionInput input = {view(queries, first, count, {kHeads, kDim}),
                                                 view(keys, first, count, {kHeads, kDim}),
                                                 view(values, first, count, {kHeads, kDim}),
                                                 view(decay, first, count, {kHeads}),
                                                 view(update, first, count, {kHeads}),
                                                 true,
                                                 {}};
        std::vector<float> out(static_cast<size_t>(kRows * kHeads * kDim));
        ops::causal_conv1d(context, in, weights, rows, of_conv,
                           TensorView(out.data(), DType::f32, {count, kChannels}));
        if (journal != nullptr) journal->note_convolution(context, 0, in, weights, of_conv);
        ops::linear_attention(context, input, rows, of_heads,
                              TensorView(out.data(), DType::f32, {count, kHeads, kDim}));
        if (journal != nullptr) journal->note_attention(context, 1, input, of_heads);
    }

    ThreadPool threads{2};
    ScratchArena arena;
    Context context;
    std::vector<float> x = random_values(kRows * kChannels, 1);
    std::vector<float> taps = random_values(kTaps * kChannels, 2);
    std::vector<float> queries = random_values(kRows * kHeads * kDim, 3);
    std::vector<float> keys = random_values(kRows * kHeads * kDim, 4);
    std::vector<float> values = random_values(kRows * kHeads * kDim, 5);
    std::vector<float> decay = random_values(kRows * kHeads, 6);
    std::vector<float> update = random_values(kRows * kHeads, 7);
    std::vector<float> conv_states = random_values(kSlots * (kTaps - 1) * kChannels, 8);
    std::vector<float> states = random_values(kSlots * kHeads * kDim * kDim, 9);
};

TEST_CASE("states are taken back to any row of a step, of each sequence by itself") {
    constexpr int32_t kOfFirst = 5;
    constexpr int32_t kOfSecond = 4;
    const std::vector<int32_t> slots_of_first = {2, 2};
    const std::vector<int32_t> slots_of_second = {0, 0};
    for (int32_t kept_first = 1; kept_first <= kOfFirst; ++kept_first) {
        for (int32_t kept_second = 1; kept_second <= kOfSecond; ++kept_second) {
            CAPTURE(kept_first);
            CAPTURE(kept_second);
            Step expected;
            expected.run({0, kept_first}, {5 + kept_first}, {2}, 0, nullptr);
            expected.run({0, kept_second}, {11 + kept_second}, {0}, kOfFirst, nullptr);

            Step step;
            const auto conv_before = step.conv_states;
            const auto before = step.states;
            StateJournal journal;
            journal.begin(step.context, {{0, kOfFirst, 5, slots_of_first},
                                         {kOfFirst, kOfSecond, 11, slots_of_second}});
            step.run({0, kOfFirst, kOfFirst + kOfSecond}, {5 + kOfFirst, 11 + kOfSecond}, {2, 0}, 0,
                     &journal);
            CHECK(step.states != before);
            step.conv_states = conv_before;
            step.states = before;
            journal.repeat(step.context, 1, kept_second);
            journal.repeat(step.context, 0, kept_first);
            CHECK(step.conv_states == expected.conv_states);
            CHECK(step.states == expected.states);
        }
    }
    CHECK(StateJournal().bytes() == 0);
}

}  // namespace
}  // namespace nvllm
