// Emulated tests of the CUDA ops over states: beside the CPU's, in every type, and bit for bit
// whatever the steps that a sequence is cut into.
#include "kernels/cuda/ops.h"

#include "../reference.h"
#include "emulated.h"
#include "kernels/ops/linear_attention.h"

using namespace nvllm;
using testing::Buffer;

namespace {

constexpr int64_t kTokens = 7, kKeyHeads = 2, kHeads = 4, kKeyDim = 9, kValueDim = 37, kTaps = 4;
constexpr int64_t kChannels = 43;
constexpr int64_t kSlots = 2;

// By addition with what Mamba-2 adds, by the delta rule, or by that with a decay of each dimension.
enum class Rule { addition, delta, kimi };

// Inputs and outputs of one sequence. `type`: of activations.
struct Sequence {
    explicit Sequence(DType type, Rule of = Rule::delta)
        : rule(of),
          is_delta(of != Rule::addition),
          x(type, testing::Random(1).values(kTokens * kChannels)),
          queries(type, testing::Random(2).values(kTokens * kKeyHeads * kKeyDim)),
          keys(type, testing::Random(3).values(kTokens * kKeyHeads * kKeyDim, 0.3f)),
          values(type, testing::Random(4).values(kTokens * kHeads * kValueDim)),
          weight(DType::f32, testing::Random(5).values(kTaps * kChannels)),
          decay(DType::f32, testing::Random(6).values(kTokens * decays(), 0.9f)),
          update(DType::f32, testing::Random(7).values(kTokens * kHeads)),
          bias(DType::f32, testing::Random(8).values(kChannels)),
          skip(DType::f32, testing::Random(9).values(kHeads)),
          convolved(type, kTokens * kChannels),
          attended(type, kTokens * kHeads * kValueDim),
          // What a slot holds before a new sequence means nothing.
          conv_states(DType::f32, testing::Random(10).values(kSlots * (kTaps - 1) * kChannels)),
          states(DType::f32, testing::Random(11).values(kSlots * kHeads * kKeyDim * kValueDim)) {}

    int64_t decays() const { return rule == Rule::kimi ? kHeads * kKeyDim : kHeads; }

    // Ops: cuda or ops; in steps of at most `step` tokens.
    template <typename Convolve, typename Attend>
    void run(int64_t step, const Convolve& convolve, const Attend& attend) {
        for (int64_t first = 0; first < kTokens; first += step) {
            const int64_t count = std::min(step, kTokens - first);
            std::vector<int32_t> starts = {0, static_cast<int32_t>(count)};
            std::vector<int32_t> lengths = {static_cast<int32_t>(first + count)};
            std::vector<int32_t> slots = {1};
            const ops::StateRows rows = {testing::view(starts, {2}), testing::view(lengths, {1}),
                                         testing::view(slots, {1, 1})};
            const auto of = [&](Buffer& all, int64_t width) {
                return all.view({kTokens, width}).rows(first, count);
            };
            convolve(of(x, kChannels),
                     ops::ConvWeights{weight.view({kTaps, kChannels}),
                                      is_delta ? ConstTensorView{} : bias.view({kChannels})},
                     rows, conv_states.view({kSlots, kTaps - 1, kChannels}),
                     of(convolved, kChannels));
            attend(ops::LinearAttentionInput{of(queries, kKeyHeads * kKeyDim).split_last(kKeyHeads),
                                             of(keys, kKeyHeads * kKeyDim).split_last(kKeyHeads),
                                             of(values, kHeads * kValueDim).split_last(kHeads),
                                             decay_of(of(decay, decays())), of(update, kHeads),
                                             is_delta,
                                             is_delta ? ConstTensorView{} : skip.view({kHeads})},
                   rows, states.view({kSlots, kHeads, kKeyDim, kValueDim}),
                   of(attended, kHeads * kValueDim).split_last(kHeads));
        }
    }
    ConstTensorView decay_of(const ConstTensorView& rows) const {
        if (rule != Rule::kimi) return rows;
        return rows.reshaped({rows.dim(0), kHeads, kKeyDim});
    }
    void run_emulated(testing::Machine& machine, int64_t step) {
        run(
            step,
            [&](const auto&... arguments) { cuda::causal_conv1d(machine.context(), arguments...); },
            [&](const auto&... arguments) {
                cuda::linear_attention(machine.context(), arguments...);
            });
    }
    void run_on_cpu(testing::Machine& machine) {
        run(
            kTokens,
            [&](const auto&... arguments) { ops::causal_conv1d(machine.context(), arguments...); },
            [&](const auto&... arguments) {
                ops::linear_attention(machine.context(), arguments...);
            });
    }

    Rule rule;
    bool is_delta;
    Buffer x, queries, keys, values, weight, decay, update, bias, skip, convolved, attended,
        conv_states, states;
};

// A sequence of float32 with the values that `other` has after rounding.
Sequence widened(const Sequence& other) {
    Sequence wide(DType::f32, other.rule);
    const auto copy = [](const Buffer& from, Buffer& to) {
        for (int64_t i = 0; i < from.size(); ++i) to.set(i, from[i]);
    };
    copy(other.x, wide.x);
    copy(other.queries, wide.queries);
    copy(other.keys, wide.keys);
    copy(other.values, wide.values);
    return wide;
}

bool have_same_bits(const Buffer& one, const Buffer& other) {
    for (int64_t i = 0; i < one.size(); ++i) {
        if (one[i] != other[i]) return false;
    }
    return one.size() == other.size();
}

}  // namespace

TEST_CASE("cuda: convolution and linear attention match the CPU's in every type") {
    testing::Machine machine(1);
    const auto check = [&](DType type, Rule rule) {
        Sequence emulated(type, rule);
        emulated.run_emulated(machine, kTokens);
        Sequence expected = widened(emulated);
        expected.run_on_cpu(machine);
        CHECK(testing::matches(emulated.convolved, type, 1e-5,
                               [&](int64_t i) { return expected.convolved[i]; }));
        CHECK(testing::matches(emulated.attended, type, 1e-5,
                               [&](int64_t i) { return expected.attended[i]; }));
        CHECK(testing::matches(emulated.states, DType::f32, 1e-5,
                               [&](int64_t i) { return expected.states[i]; }));
    };
    for (const DType type : testing::kFloatTypes) {
        for (const Rule rule : {Rule::addition, Rule::delta, Rule::kimi}) check(type, rule);
    }
}

TEST_CASE("cuda: a sequence has the same bits in steps of any size, under all schedules") {
    under_all_schedules([] {
        testing::Machine machine(1);
        for (const auto& [rule, step] : {std::pair(Rule::delta, 1), std::pair(Rule::delta, 3),
                                         std::pair(Rule::addition, 3), std::pair(Rule::kimi, 3)}) {
            Sequence whole(DType::f32, rule);
            whole.run_emulated(machine, kTokens);
            Sequence steps(DType::f32, rule);
            steps.run_emulated(machine, step);
            CHECK(have_same_bits(whole.convolved, steps.convolved));
            CHECK(have_same_bits(whole.attended, steps.attended));
            CHECK(have_same_bits(whole.states, steps.states));
            CHECK(have_same_bits(whole.conv_states, steps.conv_states));
        }
    });
}

TEST_CASE("cuda: l2_norm, gates and copy match double precision") {
    under_all_schedules([] {
        testing::Machine machine(1);
        for (const DType type : testing::kFloatTypes) {
            constexpr int64_t kWidth = 19;
            Buffer x(type, testing::Random(1).values(3 * 2 * kWidth));
            Buffer out(type, x.size());
            cuda::l2_norm(machine.context(), x.view({3, 2, kWidth}), 1e-6f, 0.5f,
                          out.view({3, 2, kWidth}));
            CHECK(testing::matches(out, type, 2e-6, [&](int64_t i) {
                double squares = 0;
                for (int64_t j = 0; j < kWidth; ++j) {
                    const double value = x[i / kWidth * kWidth + j];
                    squares += value * value;
                }
                return x[i] / std::sqrt(squares + 1e-6) * 0.5;
            }));
            cuda::copy(machine.context(), x.view({6, kWidth}), out.view({6, kWidth}));
            CHECK(have_same_bits(x, out));
            Buffer gates(type, testing::Random(2).values(6 * kWidth, 3.0f));
            Buffer decay(DType::f32, 6 * kWidth), update(DType::f32, 6 * kWidth);
            Buffer a_log(DType::f32, testing::Random(3).values(kWidth));
            Buffer dt_bias(DType::f32, testing::Random(4).values(kWidth));
            cuda::state_gates(machine.context(), gates.view({6, kWidth}), x.view({6, kWidth}),
                              {a_log.view({kWidth}), dt_bias.view({kWidth})},
                              decay.view({6, kWidth}), update.view({6, kWidth}));
            CHECK(testing::matches(decay, DType::f32, 1e-6, [&](int64_t i) {
                const double step = std::log1p(std::exp(double{gates[i]} + dt_bias[i % kWidth]));
                return std::exp(-std::exp(double{a_log[i % kWidth]}) * step);
            }));
            CHECK(testing::matches(update, DType::f32, 1e-6,
                                   [&](int64_t i) { return 1 / (1 + std::exp(-double{x[i]})); }));
            // A head's 19 decays.
            Buffer several(DType::f32, 6 * kWidth), of_head(DType::f32, 6);
            cuda::state_gates(machine.context(), gates.view({6, kWidth}),
                              x.view({6, kWidth}).columns(0, 1),
                              {a_log.view({kWidth}).rows(0, 1), dt_bias.view({kWidth})},
                              several.view({6, kWidth}), of_head.view({6, 1}));
            CHECK(testing::matches(several, DType::f32, 1e-6, [&](int64_t i) {
                const double step = std::log1p(std::exp(double{gates[i]} + dt_bias[i % kWidth]));
                return std::exp(-std::exp(double{a_log[0]}) * step);
            }));
            CHECK(testing::matches(of_head, DType::f32, 1e-6, [&](int64_t i) {
                return 1 / (1 + std::exp(-double{x[i * kWidth]}));
            }));
            constexpr float kLeast = 0.25f;
            cuda::state_gates(machine.context(), gates.view({6, kWidth}), {},
                              {a_log.view({kWidth}), dt_bias.view({kWidth}), kLeast},
                              decay.view({6, kWidth}), update.view({6, kWidth}));
            CHECK(testing::matches(update, DType::f32, 1e-6, [&](int64_t i) {
                const double step = std::log1p(std::exp(double{gates[i]} + dt_bias[i % kWidth]));
                return std::max(step, double{kLeast});
            }));
        }
    });
}
