// Tests of the ops over states: against double precision, and bit for bit whatever the steps that a
// sequence is cut into, the slots and the threads.
#include "kernels/ops/linear_attention.h"

#include <cmath>

#include "kernels/error.h"
#include "kernels/ops/elementwise.h"
#include "testing.h"

using namespace nvllm;

namespace {

struct Sizes {
    int64_t key_heads, heads, key_dim, value_dim, taps;
    bool is_delta = true;       // else by addition, with what Mamba-2 adds
    bool by_dimension = false;  // a decay of each dimension of the keys

    int64_t decays() const { return by_dimension ? heads * key_dim : heads; }
};

constexpr int64_t kSlots = 4;
constexpr int64_t kGap = 3;  // values between slots

// One sequence's inputs; of another seed other ones.
struct Inputs {
    Inputs(const Sizes& s, int64_t count, uint64_t seed) : sizes(s), tokens(count) {
        testing::Random random(seed);
        x = random.values(tokens * channels());
        weight = random.values(s.taps * channels());
        queries = random.values(tokens * s.key_heads * s.key_dim);
        keys = random.values(tokens * s.key_heads * s.key_dim, 0.3f);
        values = random.values(tokens * s.heads * s.value_dim);
        decay = random.values(tokens * s.decays());
        update = random.values(tokens * s.heads);
        bias = random.values(channels());
        skip = random.values(s.heads);
        for (float& value : decay) value = 0.9f + 0.1f * value;
        for (float& value : update) value = 0.5f + 0.5f * value;
    }
    int64_t channels() const { return sizes.heads * sizes.value_dim + 5; }

    Sizes sizes;
    int64_t tokens;
    std::vector<float> x, weight, queries, keys, values, decay, update, bias, skip;
};

// What both ops give for all tokens, computed in steps of at most `step` tokens.
struct Outputs {
    std::vector<float> convolved, attended, conv_states, states;
};

Outputs run(testing::Machine& machine, Inputs& in, int64_t step, int32_t slot) {
    const Sizes& s = in.sizes;
    const int64_t channels = in.channels();
    const int64_t conv_width = (s.taps - 1) * channels;
    const int64_t width = s.heads * s.key_dim * s.value_dim;
    Outputs out;
    out.convolved.resize(static_cast<size_t>(in.tokens * channels));
    out.attended.resize(static_cast<size_t>(in.tokens * s.heads * s.value_dim));
    // A new sequence begins with zeros, whatever is there.
    out.conv_states.assign(static_cast<size_t>(kSlots * (conv_width + kGap)), NAN);
    out.states.assign(static_cast<size_t>(kSlots * (width + kGap)), NAN);
    TensorView conv_states(out.conv_states.data(), DType::f32, {kSlots, s.taps - 1, channels});
    conv_states.strides[0] = conv_width + kGap;
    TensorView states(out.states.data(), DType::f32, {kSlots, s.heads, s.key_dim, s.value_dim});
    states.strides[0] = width + kGap;
    for (int64_t first = 0; first < in.tokens; first += step) {
        const int64_t count = std::min(step, in.tokens - first);
        std::vector<int32_t> starts = {0, static_cast<int32_t>(count)};
        std::vector<int32_t> lengths = {static_cast<int32_t>(first + count)};
        std::vector<int32_t> slots = {slot};
        const ops::StateRows rows = {testing::view(starts, {2}), testing::view(lengths, {1}),
                                     testing::view(slots, {1, 1})};
        const auto part = [&](std::vector<float>& all, std::initializer_list<int64_t> shape,
                              int64_t of_token) {
            TensorView view(all.data() + first * of_token, DType::f32, shape);
            return view;
        };
        const int64_t keys = s.key_heads * s.key_dim;
        ops::causal_conv1d(machine.context(), part(in.x, {count, channels}, channels),
                           {testing::view(in.weight, {s.taps, channels}),
                            s.is_delta ? ConstTensorView{} : testing::view(in.bias, {channels})},
                           rows, conv_states, part(out.convolved, {count, channels}, channels));
        ops::linear_attention(
            machine.context(),
            {part(in.queries, {count, s.key_heads, s.key_dim}, keys),
             part(in.keys, {count, s.key_heads, s.key_dim}, keys),
             part(in.values, {count, s.heads, s.value_dim}, s.heads * s.value_dim),
             s.by_dimension ? part(in.decay, {count, s.heads, s.key_dim}, s.decays())
                            : part(in.decay, {count, s.heads}, s.heads),
             part(in.update, {count, s.heads}, s.heads), s.is_delta,
             s.is_delta ? ConstTensorView{} : testing::view(in.skip, {s.heads})},
            rows, states, part(out.attended, {count, s.heads, s.value_dim}, s.heads * s.value_dim));
    }
    return out;
}

// What is left in a slot.
std::vector<float> slot_of(const std::vector<float>& states, int32_t slot) {
    const auto stride = static_cast<int64_t>(states.size()) / kSlots;
    return {states.begin() + slot * stride, states.begin() + (slot + 1) * stride - kGap};
}

std::vector<double> expected_convolution(const Inputs& in) {
    std::vector<double> out;
    for (int64_t token = 0; token < in.tokens; ++token) {
        for (int64_t channel = 0; channel < in.channels(); ++channel) {
            double sum = in.sizes.is_delta ? 0 : in.bias[static_cast<size_t>(channel)];
            for (int64_t tap = 0; tap < in.sizes.taps; ++tap) {
                const int64_t from = token - in.sizes.taps + 1 + tap;
                if (from < 0) continue;
                sum += double{in.weight[static_cast<size_t>(tap * in.channels() + channel)]} *
                       in.x[static_cast<size_t>(from * in.channels() + channel)];
            }
            out.push_back(sum);
        }
    }
    return out;
}

std::vector<double> expected_attention(const Inputs& in) {
    const Sizes& s = in.sizes;
    std::vector<double> out(static_cast<size_t>(in.tokens * s.heads * s.value_dim));
    for (int64_t head = 0; head < s.heads; ++head) {
        const int64_t key_head = head / (s.heads / s.key_heads);
        for (int64_t column = 0; column < s.value_dim; ++column) {
            std::vector<double> state(static_cast<size_t>(s.key_dim));
            for (int64_t token = 0; token < in.tokens; ++token) {
                const auto at = static_cast<size_t>((token * s.key_heads + key_head) * s.key_dim);
                const auto gate = static_cast<size_t>(token * s.heads + head);
                const auto place =
                    static_cast<size_t>((token * s.heads + head) * s.value_dim + column);
                double expected = 0;
                for (size_t i = 0; i < state.size(); ++i) {
                    state[i] *= s.by_dimension ? in.decay[gate * static_cast<size_t>(s.key_dim) + i]
                                               : in.decay[gate];
                    if (s.is_delta) expected += state[i] * in.keys[at + i];
                }
                if (!s.is_delta) {
                    out[place] += double{in.skip[static_cast<size_t>(head)]} * in.values[place];
                }
                const double change = in.update[gate] * (in.values[place] - expected);
                for (size_t i = 0; i < state.size(); ++i) {
                    state[i] += in.keys[at + i] * change;
                    out[place] += state[i] * in.queries[at + i];
                }
            }
        }
    }
    return out;
}

bool all_close(const std::vector<float>& got, const std::vector<double>& expected) {
    for (size_t i = 0; i < got.size(); ++i) {
        if (!testing::close(got[i], expected[i], 1e-5, 1e-5)) return false;
    }
    return got.size() == expected.size();
}

constexpr Sizes kSizes[] = {{1, 1, 1, 1, 2},
                            {2, 4, 8, 8, 4},
                            {2, 6, 5, 12, 3},
                            {1, 2, 16, 33, 4},
                            {2, 2, 7, 70, 4},
                            {1, 3, 8, 16, 4, false},
                            {2, 4, 5, 37, 3, false},
                            {2, 4, 5, 37, 3, true, true},
                            {3, 3, 16, 16, 4, true, true},
                            {1, 2, 7, 9, 2, false, true}};

}  // namespace

TEST_CASE("convolution and linear attention match double precision") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const Sizes& sizes : kSizes) {
            Inputs in(sizes, 19, 3);
            const Outputs out = run(machine, in, 19, 1);
            CHECK(all_close(out.convolved, expected_convolution(in)));
            CHECK(all_close(out.attended, expected_attention(in)));
        }
    });
}

TEST_CASE("a sequence has the same bits in steps of any size, in any slot, by any threads") {
    testing::Machine machine;
    testing::Machine alone(1);
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const Sizes& sizes : kSizes) {
            Inputs in(sizes, 23, 5);
            const Outputs whole = run(machine, in, 23, 0);
            for (const int64_t step : {1, 2, 3, 7, 22}) {
                const Outputs steps = run(alone, in, step, 2);
                CHECK(testing::same_bits(whole.convolved, steps.convolved));
                CHECK(testing::same_bits(whole.attended, steps.attended));
                CHECK(testing::same_bits(slot_of(whole.states, 0), slot_of(steps.states, 2)));
                CHECK(testing::same_bits(slot_of(whole.conv_states, 0),
                                         slot_of(steps.conv_states, 2)));
            }
        }
    });
}

TEST_CASE("sequences of a step do not touch one another's states") {
    testing::Machine machine;
    const Sizes sizes = {1, 2, 8, 8, 4};
    Inputs first(sizes, 5, 7), second(sizes, 3, 8);
    second.weight = first.weight;
    const Outputs one = run(machine, first, 5, 0), other = run(machine, second, 3, 0);
    // Both in one step, of rows one behind the other.
    const int64_t channels = first.channels();
    std::vector<float> x = first.x;
    x.insert(x.end(), second.x.begin(), second.x.end());
    std::vector<float> out(x.size());
    std::vector<float> states(static_cast<size_t>(kSlots * 3 * channels), 7.0f);
    std::vector<int32_t> starts = {0, 5, 8}, lengths = {5, 3}, slots = {3, -1, 1, -1};
    ops::causal_conv1d(
        machine.context(), testing::view(x, {8, channels}),
        {testing::view(first.weight, {4, channels}), {}},
        {testing::view(starts, {3}), testing::view(lengths, {2}), testing::view(slots, {2, 2})},
        testing::view(states, {kSlots, 3, channels}), testing::view(out, {8, channels}));
    std::vector<float> expected = one.convolved;
    expected.insert(expected.end(), other.convolved.begin(), other.convolved.end());
    CHECK(testing::same_bits(out, expected));
    for (int64_t i = 0; i < 3 * channels; ++i) {
        CHECK(states[static_cast<size_t>(i)] == 7.0f);
        CHECK(states[static_cast<size_t>(2 * 3 * channels + i)] == 7.0f);
    }
}

TEST_CASE("l2_norm and the gates of linear attention match double precision") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const int64_t width : {1, 8, 13, 40}) {
            std::vector<float> x = testing::Random(2).values(3 * 2 * width), out(x.size());
            ops::l2_norm(machine.context(), testing::view(x, {3, 2, width}), 1e-6f, 0.5f,
                         testing::view(out, {3, 2, width}));
            for (size_t row = 0; row < 6; ++row) {
                double squares = 0;
                const size_t begin = row * static_cast<size_t>(width);
                const size_t end = begin + static_cast<size_t>(width);
                for (size_t i = begin; i < end; ++i) squares += double{x[i]} * x[i];
                for (size_t i = begin; i < end; ++i) {
                    CHECK(testing::close(out[i], x[i] / std::sqrt(squares + 1e-6) * 0.5, 2e-6));
                }
            }
        }
    });
    std::vector<float> a = {-30.0f, -1.0f, 0.0f, 2.0f, 19.9f, 50.0f}, b = a;
    std::vector<float> a_log = {0.5f, -1.0f}, dt_bias = {0.1f, -0.2f}, decay(6), update(6);
    ops::state_gates(machine.context(), testing::view(a, {3, 2}), testing::view(b, {3, 2}),
                     {testing::view(a_log, {2}), testing::view(dt_bias, {2})},
                     testing::view(decay, {3, 2}), testing::view(update, {3, 2}));
    std::vector<float> steps(6);
    ops::state_gates(machine.context(), testing::view(a, {3, 2}), {},
                     {testing::view(a_log, {2}), testing::view(dt_bias, {2})},
                     testing::view(decay, {3, 2}), testing::view(steps, {3, 2}));
    for (size_t i = 0; i < 6; ++i) {
        const double step = std::log1p(std::exp(double{a[i]} + dt_bias[i % 2]));
        CHECK(testing::close(steps[i], step, 1e-5));
        CHECK(testing::close(decay[i], std::exp(-std::exp(double{a_log[i % 2]}) * step), 1e-5));
        CHECK(testing::close(update[i], 1 / (1 + std::exp(-double{b[i]})), 4e-6));
    }
    ops::state_gates(machine.context(), testing::view(a, {3, 2}), {},
                     {testing::view(a_log, {2}), testing::view(dt_bias, {2}), 0.5f},
                     testing::view(decay, {3, 2}), testing::view(update, {3, 2}));
    for (size_t i = 0; i < 6; ++i) {
        const float step = std::max(steps[i], 0.5f);
        CHECK(update[i] == step);
        CHECK(testing::close(decay[i], std::exp(-std::exp(double{a_log[i % 2]}) * step), 1e-5));
    }
    CHECK(update[0] > steps[0]);
}

TEST_CASE("a head may have several decays and one update") {
    testing::Machine machine;
    constexpr int64_t kTokens = 3, kHeads = 2, kDecays = 5, kWidth = kHeads * kDecays;
    std::vector<float> a = testing::Random(3).values(kTokens * kWidth, 4.0f);
    std::vector<float> b = testing::Random(4).values(kTokens * kHeads);
    std::vector<float> a_log = {0.5f, -1.0f}, dt_bias = testing::Random(5).values(kWidth);
    std::vector<float> decay(a.size()), update(b.size());
    const auto make = [&](const ConstTensorView& of_updates) {
        ops::state_gates(machine.context(), testing::view(a, {kTokens, kWidth}), of_updates,
                         {testing::view(a_log, {kHeads}), testing::view(dt_bias, {kWidth})},
                         testing::view(decay, {kTokens, kWidth}),
                         testing::view(update, {kTokens, kHeads}));
    };
    make(testing::view(b, {kTokens, kHeads}));
    for (size_t i = 0; i < a.size(); ++i) {
        const double step = std::log1p(std::exp(double{a[i]} + dt_bias[i % kWidth]));
        const size_t head = i % kWidth / kDecays;
        CHECK(testing::close(decay[i], std::exp(-std::exp(double{a_log[head]}) * step), 1e-5));
    }
    for (size_t i = 0; i < b.size(); ++i) {
        CHECK(testing::close(update[i], 1 / (1 + std::exp(-double{b[i]})), 4e-6));
    }
    CHECK_THROWS_AS(make({}), Error);
}

TEST_CASE("copy keeps bits of rows with gaps between them") {
    testing::Machine machine;
    for (const int64_t width : {1, 5, 16, 37}) {
        std::vector<float> rows = testing::Random(5).values(6 * (width + 2), 4.0f);
        std::vector<float> copied(static_cast<size_t>(6 * width));
        ops::copy(machine.context(), testing::matrix(rows, 6, width, width + 2),
                  testing::view(copied, {6, width}));
        for (int64_t i = 0; i < 6 * width; ++i) {
            CHECK(copied[static_cast<size_t>(i)] ==
                  rows[static_cast<size_t>(i / width * (width + 2) + i % width)]);
        }
    }
}

TEST_CASE("ops over states refuse slots that are not there, and shapes that do not fit") {
    testing::Machine machine;
    const Sizes sizes = {1, 1, 4, 4, 4};
    Inputs in(sizes, 2, 1);
    CHECK_THROWS_AS(run(machine, in, 2, kSlots), Error);
    CHECK_THROWS_AS(run(machine, in, 2, -1), Error);
    Inputs odd({2, 3, 4, 4, 4}, 2, 1);
    CHECK_THROWS_AS(run(machine, odd, 2, 0), Error);
}
