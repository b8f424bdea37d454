// Each method on a layer whose inputs have outliers: it beats plain rounding by its own criterion.
#include "lib/quantize/methods/algorithm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/host/thread_pool.h"
#include "kernels/ops/linalg.h"
#include "kernels/random.h"

namespace nvllm::quantize {
namespace {

constexpr int64_t kOut = 48, kIn = 128, kTokens = 400;

float normal(uint64_t seed, int64_t index) {
    const RandomWords words = random_words({{static_cast<uint32_t>(index), 0, 0, 9}}, seed);
    const double radius =
        std::sqrt(-2.0 * std::log(1.0 - unit_interval(words.words[0], words.words[1])));
    return static_cast<float>(
        radius * std::cos(6.283185307179586 * unit_interval(words.words[2], words.words[3])));
}

struct Layer {
    ThreadPool threads{2};
    ScratchArena scratch;
    Context context;
    Tensor weight = Tensor::allocate(DType::f32, {kOut, kIn});
    Tensor gram = Tensor::allocate(DType::f32, {kIn, kIn});

    // Inputs are correlated, as those of a model are, and a few channels are twenty times as large.
    Layer() {
        context.scratch = &scratch;
        context.threads = &threads;
        for (int64_t i = 0; i < kOut * kIn; ++i)
            weight.mutable_view().as<float>()[i] = normal(1, i);
        const Tensor x = Tensor::allocate(DType::f32, {kTokens, kIn});
        for (int64_t token = 0; token < kTokens; ++token) {
            float* const row = x.mutable_view().as<float>() + token * kIn;
            for (int64_t k = 0; k < kIn; ++k) {
                const float shared = normal(2, token * 8 + k % 8);
                row[k] = shared + 0.3f * normal(3, token * kIn + k);
                if (k % 37 == 5) row[k] *= 20.0f;
            }
        }
        ops::add_gram(context, x.view(), DType::f32, gram.mutable_view());
        ops::mirror_lower(context, gram.mutable_view());
    }

    struct Solved {
        Tensor kept;
        LinearSolution solution;
        double error = 0.0;
    };

    Solved solve(const char* method, const QuantizationArguments* arguments,
                 const SolverOptions& options = {}) {
        Solved solved;
        solved.kept = Tensor::allocate(DType::f32, {kOut, kIn});
        std::memcpy(solved.kept.mutable_view().data, weight.view().data, weight.bytes());
        LinearProblem problem{.context = context,
                              .weight = solved.kept.mutable_view(),
                              .gram = gram.view(),
                              .num_tokens = kTokens,
                              .arguments = arguments,
                              .scale_type = DType::bf16,
                              .options = options};
        solved.solution = find_solver(method)->solve(problem);
        solved.error =
            output_error(context, weight.view(), solved.kept.view(), gram.view()).relative();
        return solved;
    }
};

QuantizationArguments four_bits(std::optional<int64_t> group, bool symmetric = true) {
    QuantizationArguments arguments;
    arguments.bits = 4;
    arguments.symmetric = symmetric;
    arguments.strategy = group ? QuantizationStrategy::group : QuantizationStrategy::channel;
    arguments.group_size = group;
    return arguments;
}

// What a solution stores is what it says it kept.
void check_stored(const Layer::Solved& solved) {
    REQUIRE(solved.solution.matrix.has_value());
    const Tensor stored = dequantized(*solved.solution.matrix);
    for (int64_t i = 0; i < kOut * kIn; ++i) {
        REQUIRE(stored.view().as<float>()[i] == solved.kept.view().as<float>()[i]);
    }
}

double share_of_zeros(const Tensor& tensor) {
    const float* const values = tensor.view().as<float>();
    return static_cast<double>(std::count(values, values + tensor.view().numel(), 0.0f)) /
           static_cast<double>(tensor.view().numel());
}

TEST_CASE("gptq beats rounding at the error of the output, in groups and rows, symmetric or not") {
    Layer layer;
    for (const bool symmetric : {true, false}) {
        for (const std::optional<int64_t> group :
             {std::optional<int64_t>(), std::optional<int64_t>(32)}) {
            const QuantizationArguments arguments = four_bits(group, symmetric);
            const Layer::Solved rounded = layer.solve("rtn", &arguments);
            const Layer::Solved fitted = layer.solve("gptq", &arguments);
            check_stored(rounded);
            check_stored(fitted);
            INFO("rtn ", rounded.error, " gptq ", fitted.error);
            CHECK(fitted.error < 0.7 * rounded.error);
        }
    }
}

TEST_CASE("gptq takes columns in the order of their inputs, and says which group they are in") {
    Layer layer;
    QuantizationArguments arguments = four_bits(32);
    const double plain = layer.solve("gptq", &arguments).error;
    arguments.actorder = ActivationOrder::weight;
    const Layer::Solved by_weight = layer.solve("gptq", &arguments);
    check_stored(by_weight);
    CHECK(by_weight.solution.matrix->group_index.empty());
    arguments.actorder = ActivationOrder::group;
    const Layer::Solved by_group = layer.solve("gptq", &arguments);
    check_stored(by_group);
    REQUIRE(!by_group.solution.matrix->group_index.empty());
    const double rounded = layer.solve("rtn", &arguments).error;
    CHECK(by_weight.error < rounded);
    CHECK(by_group.error < rounded);
    CHECK(by_group.error < 1.5 * plain);
}

TEST_CASE("gptq raises the dampening until second moments have a factor") {
    Layer layer;
    // Of rank one: singular whatever its scale.
    float* const gram = layer.gram.mutable_view().as<float>();
    for (int64_t i = 0; i < kIn; ++i) {
        for (int64_t k = 0; k < kIn; ++k)
            gram[i * kIn + k] = static_cast<float>(1 + (i % 5)) * static_cast<float>(1 + (k % 5));
    }
    SolverOptions options;
    options.dampening_frac = 0.0;
    const QuantizationArguments arguments = four_bits(std::nullopt);
    const Layer::Solved solved = layer.solve("gptq", &arguments, options);
    CHECK(solved.solution.dampening > 0.0);
    check_stored(solved);
}

TEST_CASE("an input that never fires loses its weights and disturbs nobody") {
    Layer layer;
    float* const gram = layer.gram.mutable_view().as<float>();
    for (int64_t i = 0; i < kIn; ++i) gram[i * kIn + 7] = gram[7 * kIn + i] = 0.0f;
    const QuantizationArguments arguments = four_bits(std::nullopt);
    const Layer::Solved solved = layer.solve("gptq", &arguments);
    for (int64_t row = 0; row < kOut; ++row)
        CHECK(solved.kept.view().as<float>()[row * kIn + 7] == 0.0f);
    CHECK(std::isfinite(solved.error));
}

TEST_CASE("sparsegpt beats magnitude, with and without a structure") {
    Layer layer;
    for (const MaskStructure mask : {MaskStructure{}, MaskStructure{2, 4}}) {
        SolverOptions options;
        options.mask = mask;
        const Layer::Solved fitted = layer.solve("sparsegpt", nullptr, options);
        const Layer::Solved plain = layer.solve("magnitude", nullptr, options);
        CHECK(share_of_zeros(fitted.kept) == doctest::Approx(0.5).epsilon(0.01));
        CHECK(share_of_zeros(plain.kept) == doctest::Approx(0.5).epsilon(0.01));
        INFO("magnitude ", plain.error, " sparsegpt ", fitted.error);
        CHECK(fitted.error < 0.7 * plain.error);
        if (mask.of == 0) continue;
        for (int64_t i = 0; i < kOut * kIn; i += 4) {
            const float* const four = fitted.kept.view().as<float>() + i;
            REQUIRE(std::count(four, four + 4, 0.0f) >= 2);
        }
    }
}

TEST_CASE("sparsegpt rounds what it keeps, and gptq keeps zeros that are there") {
    Layer layer;
    SolverOptions options;
    options.mask = {2, 4};
    const QuantizationArguments arguments = four_bits(32, false);
    const Layer::Solved both = layer.solve("sparsegpt", &arguments, options);
    check_stored(both);
    CHECK(share_of_zeros(both.kept) >= 0.5);
    const Layer::Solved pruned = layer.solve("magnitude", nullptr, options);
    Tensor kept = Tensor::allocate(DType::f32, {kOut, kIn});
    std::memcpy(kept.mutable_view().data, pruned.kept.view().data, kept.bytes());
    LinearProblem problem{.context = layer.context,
                          .weight = kept.mutable_view(),
                          .gram = layer.gram.view(),
                          .num_tokens = kTokens,
                          .arguments = &arguments,
                          .keeps_zeros = true};
    find_solver("gptq")->solve(problem);
    for (int64_t i = 0; i < kOut * kIn; ++i) {
        if (pruned.kept.view().as<float>()[i] == 0.0f) REQUIRE(kept.view().as<float>()[i] == 0.0f);
    }
}

TEST_CASE("threads do not change what is decided") {
    Layer layer;
    const QuantizationArguments arguments = four_bits(32);
    const Layer::Solved with_two = layer.solve("gptq", &arguments);
    ThreadPool one(1);
    layer.context.threads = &one;
    const Layer::Solved alone = layer.solve("gptq", &arguments);
    CHECK(std::memcmp(with_two.kept.view().data, alone.kept.view().data, alone.kept.bytes()) == 0);
}

}  // namespace
}  // namespace nvllm::quantize
