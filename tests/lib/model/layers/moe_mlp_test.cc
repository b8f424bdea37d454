// Experts against a slow, obvious computation.
#include "lib/model/layers/moe_mlp.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/host/dry_run.h"
#include "lib/model/weights/dummy_source.h"

namespace nvllm {
namespace {

constexpr int64_t kHidden = 16;
constexpr int64_t kInner = 12;
constexpr int64_t kTokens = 37;

MoeMlp make_layer(WeightSource& source, int64_t num_experts, int64_t per_token, bool normalize) {
    MoeMlp layer;
    layer.router = load_linear(source, {"router", kHidden, num_experts, false});
    layer.routing.experts_per_token = per_token;
    layer.routing.normalize_weights = normalize;
    for (int64_t expert = 0; expert < num_experts; ++expert) {
        Mlp mlp;
        const std::string name = std::to_string(expert);
        mlp.in = load_linear(source, {name + ".in", kHidden, 2 * kInner, false});
        mlp.down = load_linear(source, {name + ".down", kInner, kHidden, false});
        layer.experts.push_back(std::move(mlp));
    }
    return layer;
}

std::vector<float> inputs() {
    std::vector<float> x;
    for (int64_t i = 0; i < kTokens * kHidden; ++i) {
        x.push_back(20.0f * std::sin(static_cast<float>(i * i % 1009)));
    }
    return x;
}

// One token alone through every expert it chooses, in double where that is easy.
std::vector<double> expected_row(const Context& context, const MoeMlp& layer,
                                 const ConstTensorView& row) {
    const size_t num_experts = layer.experts.size();
    std::vector<float> logits(num_experts);
    layer.router.apply(context, row, ops::MatmulOutput::overwrite,
                       TensorView(logits.data(), DType::f32, {1, layer.router.out()}));
    std::vector<double> weights;
    for (const float logit : logits) weights.push_back(std::exp(static_cast<double>(logit)));
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<size_t> order(num_experts);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return weights[a] > weights[b]; });
    double chosen = 0.0;
    for (int64_t i = 0; i < layer.routing.experts_per_token; ++i)
        chosen += weights[order[static_cast<size_t>(i)]];
    std::vector<double> result(kHidden);
    for (int64_t i = 0; i < layer.routing.experts_per_token; ++i) {
        const size_t expert = order[static_cast<size_t>(i)];
        std::vector<float> out(kHidden);
        layer.experts[expert].apply(context, row, ops::MatmulOutput::overwrite,
                                    TensorView(out.data(), DType::f32, {1, kHidden}));
        const double weight = weights[expert] / (layer.routing.normalize_weights ? chosen : sum);
        for (size_t column = 0; column < out.size(); ++column)
            result[column] += weight * out[column];
    }
    return result;
}

TEST_CASE("sparse mlp: each token is the weighted sum of its experts") {
    for (const bool normalize : {false, true}) {
        for (const int64_t per_token : {1, 2, 6}) {
            ThreadPool threads(2);
            DummySource source(11, DType::f32, threads);
            const MoeMlp layer = make_layer(source, 6, per_token, normalize);
            const DryRun dry({}, DType::f32, threads.num_threads());
            const TensorView rows = dry.view(DType::f32, {kTokens, kHidden});
            layer.apply(dry.context(), rows, ops::MatmulOutput::overwrite, rows);
            ScratchArena scratch(dry.scratch_bytes());
            Context context;
            context.scratch = &scratch;
            context.threads = &threads;
            const std::vector<float> x = inputs();
            const ConstTensorView x_view(x.data(), DType::f32, {kTokens, kHidden});
            std::vector<float> y(x.size(), 5.0f);
            std::vector<float> added(x.size(), 1.0f);
            layer.apply(context, x_view, ops::MatmulOutput::overwrite,
                        TensorView(y.data(), DType::f32, {kTokens, kHidden}));
            scratch.reset();
            layer.apply(context, x_view, ops::MatmulOutput::accumulate,
                        TensorView(added.data(), DType::f32, {kTokens, kHidden}));
            CHECK(scratch.num_growths() == 0);
            MoeMlp observed = make_layer(source, 6, per_token, normalize);
            observed.computes_all = true;
            std::vector<float> same(x.size(), 5.0f);
            scratch.reset();
            observed.apply(context, x_view, ops::MatmulOutput::overwrite,
                           TensorView(same.data(), DType::f32, {kTokens, kHidden}));
            CHECK(same == y);
            for (int64_t token = 0; token < kTokens; ++token) {
                scratch.reset();
                const auto expected = expected_row(context, layer, x_view.rows(token, 1));
                for (int64_t column = 0; column < kHidden; ++column) {
                    const auto i = static_cast<size_t>(token * kHidden + column);
                    CHECK(std::abs(y[i] - expected[static_cast<size_t>(column)]) < 1e-5);
                    CHECK(std::abs(added[i] - 1.0 - expected[static_cast<size_t>(column)]) < 1e-5);
                }
            }
        }
    }
}

}  // namespace
}  // namespace nvllm
