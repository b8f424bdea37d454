// Experts on several ranks against the same experts on one, bit for bit.
#include "lib/model/layers/expert_parallel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <latch>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "kernels/collectives.h"
#include "kernels/host/dry_run.h"
#include "kernels/host/thread_collectives.h"
#include "lib/model/weights/dummy_source.h"

namespace nvllm {
namespace {

constexpr int64_t kHidden = 16;
constexpr int64_t kInner = 12;
constexpr int64_t kExperts = 12;
constexpr int64_t kPerToken = 3;

using Slots = std::vector<int32_t>;

Slots in_order() {
    Slots slots(kExperts);
    std::iota(slots.begin(), slots.end(), 0);
    return slots;
}

// A rank's experts of the layer; all where there is one rank. All ranks are a tensor group.
MoeMlp make_layer(WeightSource& source, int32_t rank, int32_t ranks,
                  const Slots& slots = in_order()) {
    MoeMlp layer;
    layer.router = load_linear(source, {"router", kHidden, kExperts, false});
    layer.routing.experts_per_token = kPerToken;
    if (ranks > 1) layer.share = MoeMlp::Share{rank, ranks, rank, ranks, slots};
    const size_t own = slots.size() / static_cast<size_t>(ranks);
    for (const int32_t expert : std::span(slots).subspan(static_cast<size_t>(rank) * own, own)) {
        Mlp mlp;
        const std::string name = std::to_string(expert);
        mlp.in = load_linear(source, {name + ".in", kHidden, 2 * kInner, false});
        mlp.down = load_linear(source, {name + ".down", kInner, kHidden, false});
        layer.experts.push_back(std::move(mlp));
    }
    return layer;
}

std::vector<float> inputs(int64_t tokens) {
    std::vector<float> x;
    for (int64_t i = 0; i < tokens * kHidden; ++i) {
        x.push_back(20.0f * std::sin(static_cast<float>(i * i % 1009)));
    }
    return x;
}

struct Ran {
    std::vector<float> y;
    uint64_t bytes_sent = 0;
    ExpertCounts counts = {};
};

struct Layer {
    bool weighs_inputs = false;
    double capacity_factor = 0.0;
    Slots slots = in_order();
};

Ran run(int32_t rank, int32_t ranks, int64_t tokens, const Layer& how, const RankGroup* group) {
    ThreadPool threads(1);
    DummySource source(1, DType::f32, threads);
    MoeMlp layer = make_layer(source, rank, ranks, ranks == 1 ? in_order() : how.slots);
    layer.weighs_inputs = how.weighs_inputs;
    layer.capacity_factor = how.capacity_factor;
    layer.counts = std::make_shared<ExpertCounts>(ExpertCounts{"layer", std::vector<int64_t>(12)});
    ScratchArena scratch(size_t{1} << 20);
    Context context{.scratch = &scratch, .threads = &threads};
    context.tensor_ranks = group;
    context.expert_ranks = group;
    std::vector<float> x = inputs(tokens);
    Ran ran{std::vector<float>(x.size(), 1.0f)};
    layer.apply(context, {x.data(), DType::f32, {tokens, kHidden}}, ops::MatmulOutput::accumulate,
                {ran.y.data(), DType::f32, {tokens, kHidden}});
    if (group != nullptr) ran.bytes_sent = group->bytes_sent();
    ran.counts = *layer.counts;
    return ran;
}

std::vector<Ran> run_ranks(int32_t ranks, int64_t tokens, const Layer& how) {
    const GroupId id = thread_collectives().make_id();
    std::vector<Ran> ran(static_cast<size_t>(ranks));
    std::latch done(ranks);
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
            const RankGroup group(thread_collectives(),
                                  {.id = id, .rank = rank, .num_ranks = ranks});
            ran[static_cast<size_t>(rank)] = run(rank, ranks, tokens, how, &group);
            done.arrive_and_wait();
        });
    }
    for (std::thread& thread : threads) thread.join();
    return ran;
}

}  // namespace

TEST_CASE("experts on several ranks give the bits of one rank") {
    for (const int64_t tokens : {1, 2, 3, 37}) {
        for (const bool weighs_inputs : {false, true}) {
            const std::vector<float> expected = run(0, 1, tokens, {weighs_inputs}, nullptr).y;
            for (const int32_t ranks : {2, 3, 4, 6}) {
                for (const Ran& rank : run_ranks(ranks, tokens, {weighs_inputs})) {
                    CHECK(rank.y == expected);
                }
            }
        }
    }
}

TEST_CASE("experts in any order and on several ranks give the bits of one rank") {
    const Slots reversed = {9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2};
    // Two of 7, three of 2; the rest once.
    const Slots copied = {0, 1, 2, 7, 8, 2, 3, 7, 9, 10, 4, 2, 5, 6, 11};
    const std::vector<float> expected = run(0, 1, 37, {}, nullptr).y;
    for (const Ran& rank : run_ranks(4, 37, {.slots = reversed})) CHECK(rank.y == expected);
    Slots sorted = copied;
    for (auto own = sorted.begin(); own != sorted.end(); own += 5) std::sort(own, own + 5);
    for (const int64_t tokens : {1, 2, 37}) {
        for (const bool weighs_inputs : {false, true}) {
            const std::vector<float> same = run(0, 1, tokens, {weighs_inputs}, nullptr).y;
            for (const Ran& rank : run_ranks(3, tokens, {weighs_inputs, 0.0, sorted})) {
                CHECK(rank.y == same);
            }
        }
    }
}

TEST_CASE("choices are counted, and those beyond an expert's capacity dropped alike by all ranks") {
    const Ran all = run(0, 1, 37, {}, nullptr);
    CHECK(std::accumulate(all.counts.chosen.begin(), all.counts.chosen.end(), int64_t{0}) ==
          37 * kPerToken);
    CHECK(all.counts.dropped == 0);
    for (const double factor : {0.5, 1.0, 1.25, 4.0}) {
        CAPTURE(factor);
        const Ran one = run(0, 1, 37, {.capacity_factor = factor}, nullptr);
        CHECK(one.counts.chosen == all.counts.chosen);
        // Chosen * tokens / experts, of each.
        const auto capacity = static_cast<int64_t>(std::ceil(factor * 37 * kPerToken / kExperts));
        int64_t beyond = 0;
        for (const int64_t chosen : all.counts.chosen) {
            beyond += std::max<int64_t>(chosen - capacity, 0);
        }
        CHECK(one.counts.dropped == beyond);
        CHECK((one.y == all.y) == (beyond == 0));
        int64_t dropped = 0;
        std::vector<int64_t> chosen(kExperts);
        for (const Ran& rank : run_ranks(3, 37, {.capacity_factor = factor})) {
            CHECK(rank.y == one.y);
            dropped += rank.counts.dropped;
            for (size_t i = 0; i < chosen.size(); ++i) chosen[i] += rank.counts.chosen[i];
        }
        CHECK(dropped == beyond);
        CHECK(chosen == all.counts.chosen);
    }
}

TEST_CASE("ranks with rows of their own give the bits of one rank, and take part without rows") {
    constexpr int32_t kRanks = 3;
    constexpr std::array<int64_t, kRanks> kTokens = {5, 0, 2};
    const GroupId id = thread_collectives().make_id();
    std::array<std::vector<float>, kRanks> y;
    std::latch done(kRanks);
    std::vector<std::thread> threads;
    for (int32_t rank = 0; rank < kRanks; ++rank) {
        threads.emplace_back([&, rank] {
            const RankGroup group(thread_collectives(),
                                  {.id = id, .rank = rank, .num_ranks = kRanks});
            ThreadPool pool(1);
            DummySource source(1, DType::f32, pool);
            MoeMlp layer = make_layer(source, rank, kRanks);
            layer.share = MoeMlp::Share{rank, kRanks, 0, 1, in_order()};
            ScratchArena scratch(size_t{1} << 20);
            Context context{.scratch = &scratch, .threads = &pool};
            context.expert_ranks = &group;
            const int64_t tokens = kTokens[static_cast<size_t>(rank)];
            std::vector<float> x = inputs(tokens);
            std::vector<float>& out = y[static_cast<size_t>(rank)];
            out.assign(x.size(), 1.0f);
            if (tokens == 0) {
                layer.take_part(context);
            } else {
                layer.apply(context, {x.data(), DType::f32, {tokens, kHidden}},
                            ops::MatmulOutput::accumulate,
                            {out.data(), DType::f32, {tokens, kHidden}});
            }
            done.arrive_and_wait();
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(y[0] == run(0, 1, 5, {}, nullptr).y);
    CHECK(y[2] == run(0, 1, 2, {}, nullptr).y);
}

TEST_CASE("as many bytes go between ranks as rows and experts were chosen") {
    ThreadPool threads(1);
    DummySource source(1, DType::f32, threads);
    const MoeMlp layer = make_layer(source, 0, 1);
    ScratchArena scratch(size_t{1} << 20);
    const Context context{.scratch = &scratch, .threads = &threads};
    constexpr int64_t kTokens = 20;
    std::vector<float> x = inputs(kTokens);
    const Choices choices = route(context, layer, {x.data(), DType::f32, {kTokens, kHidden}});
    for (const int32_t ranks : {2, 4}) {
        const int64_t part = kTokens / ranks;
        uint64_t expected = 0;
        for (int64_t token = 0; token < kTokens; ++token) {
            std::vector<bool> goes(static_cast<size_t>(ranks), false);
            for (int64_t i = 0; i < kPerToken; ++i) {
                const int32_t expert = choices.experts[token * kPerToken + i];
                const int64_t rank = expert / (kExperts / ranks);
                if (rank == token / part) continue;
                expected += 12 + kHidden * sizeof(float);  // what is wanted, and the result
                goes[static_cast<size_t>(rank)] = true;
            }
            for (const bool goes_there : goes) expected += goes_there ? kHidden * sizeof(float) : 0;
        }
        // How much comes, and every rank's part of the sums.
        const auto pairs = static_cast<uint64_t>(ranks) * static_cast<uint64_t>(ranks - 1);
        expected += pairs * (8 + static_cast<uint64_t>(part) * kHidden * sizeof(float));
        uint64_t sent = 0;
        for (const Ran& rank : run_ranks(ranks, kTokens, {})) sent += rank.bytes_sent;
        CHECK(sent == expected);
    }
}

TEST_CASE("a dry run tells what the largest step of a rank takes") {
    ThreadPool threads(1);
    DummySource source(1, DType::f32, threads);
    const MoeMlp layer = make_layer(source, 1, 4);
    constexpr int64_t kTokens = 30;
    const DryRun dry({}, DType::f32, 1);
    const TensorView x = dry.view(DType::f32, {kTokens, kHidden});
    layer.apply(dry.context(), x, ops::MatmulOutput::accumulate, x);
    // All rows of all ranks come, and each wants results of all its experts.
    CHECK(dry.scratch_bytes() >= kTokens * (1 + kPerToken) * kHidden * sizeof(float));
}

}  // namespace nvllm
