// The op that samples on any device chooses what the sampler of one sequence chooses.
#include "kernels/ops/sampling.h"

#include <doctest/doctest.h>

#include "kernels/context.h"
#include "kernels/host/thread_pool.h"
#include "lib/base/random.h"
#include "lib/decode/sampler.h"

using namespace nvllm;

namespace {

std::vector<float> make_logits(size_t vocab, uint32_t salt) {
    std::vector<float> logits(vocab);
    for (size_t index = 0; index < vocab; ++index) {
        const PhiloxCounter words = philox({static_cast<uint32_t>(index), salt, 0, 0}, {7, 7});
        logits[index] = static_cast<float>(16 * unit_interval(words[0], words[1]) - 8);
    }
    return logits;
}

int32_t choose_by_op(const Context& context, std::vector<float> logits,
                     const ops::LogitsAdjustments& changes, const ops::SamplingRow& row) {
    int32_t token = -7;
    const TensorView scores(logits.data(), DType::f32, {1, static_cast<int64_t>(logits.size())});
    ops::change_scores(context, changes, scores);
    ops::sample(context, scores, ConstTensorView(&row, DType::u8, {1, sizeof(row)}),
                TensorView(&token, DType::i32, {1}));
    return token;
}

}  // namespace

TEST_CASE("the sampling op and the sampler choose the same tokens") {
    ThreadPool threads(1);
    ScratchArena scratch;
    Context context;
    context.threads = &threads;
    context.scratch = &scratch;
    SamplerScratch buffers;
    uint32_t salt = 0;
    for (const float temperature : {0.0f, 0.6f, 1.5f}) {
        for (const int32_t top_k : {0, 20}) {
            for (const float top_p : {1.0f, 0.8f}) {
                for (const float min_p : {0.0f, 0.02f}) {
                    SamplingParams params;
                    params.seed = 1000 + ++salt;
                    params.temperature = temperature;
                    params.top_k = top_k;
                    params.top_p = top_p;
                    params.min_p = min_p;
                    params.repetition_penalty = 1.25f;
                    params.frequency_penalty = 0.5f;
                    params.presence_penalty = 0.25f;
                    params.logit_bias = {{3, 5.0f}};
                    SequenceSamplingState state(params, std::vector<int32_t>{3, 9}, 1, {}, 2);
                    state.accept(9);
                    const std::vector<ops::LogitBias> biases{{0, 3, 5.0f}};
                    const std::vector<ops::SeenScore> seen{{0, 3, 0}, {0, 9, 2}};
                    const ops::LogitPenalties penalties{1.25f, 0.5f, 0.25f};
                    ops::LogitsAdjustments changes;
                    changes.biases = ConstTensorView(biases.data(), DType::u8, {1, 12});
                    changes.seen = ConstTensorView(seen.data(), DType::u8, {2, 12});
                    changes.penalties = ConstTensorView(&penalties, DType::u8, {1, 12});
                    const ops::SamplingRow row{*params.seed, 2,     2,    temperature,
                                               top_p,        min_p, top_k};
                    std::vector<float> logits = make_logits(500, salt);
                    const int32_t by_op = choose_by_op(context, logits, changes, row);
                    CHECK(sample(state, logits, buffers).value().token_id == by_op);
                }
            }
        }
    }
}
