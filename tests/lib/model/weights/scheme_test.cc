// Linears made of parts.
#include "lib/model/weights/scheme.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "kernels/host/dry_run.h"
#include "lib/model/weights/dense.h"
#include "lib/model/weights/dummy_source.h"
#include "lib/model/weights/meta_weight_source.h"

namespace nvllm {
namespace {

struct Fixture {
    ThreadPool threads{2};
    ScratchArena scratch;
    Context context;
    Fixture() {
        context.scratch = &scratch;
        context.threads = &threads;
    }
};

std::vector<float> ramp(int64_t count, float step) {
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(step * static_cast<float>(i % 17 - 8));
    return values;
}

TEST_CASE("linear: parts give what each gives alone, side by side") {
    Fixture fixture;
    DummySource source(1, DType::bf16, fixture.threads);
    constexpr int64_t kTokens = 3;
    constexpr int64_t kIn = 40;
    const std::vector<LinearSpec> names = {
        {"q", kIn, 24, true}, {"k", kIn, 8, false}, {"v", kIn, 8, true}};
    const LinearWeight whole = load_linear(source, names);
    CHECK(whole.in() == kIn);
    CHECK(whole.out() == 40);
    CHECK(whole.bytes() == 2 * (40 * 40 + 24 + 8));
    CHECK(whole.num_parts() == 1);

    const std::vector<float> x = ramp(kTokens * kIn, 0.1f);
    const ConstTensorView x_view(x.data(), DType::f32, {kTokens, kIn});
    std::vector<float> y(kTokens * 40);
    whole.apply(fixture.context, x_view, ops::MatmulOutput::overwrite,
                TensorView(y.data(), DType::f32, {kTokens, 40}));
    int64_t column = 0;
    for (const LinearSpec& name : names) {
        const LinearWeight part = load_linear(source, name);
        std::vector<float> alone(static_cast<size_t>(kTokens * name.out));
        part.apply(fixture.context, x_view, ops::MatmulOutput::overwrite,
                   TensorView(alone.data(), DType::f32, {kTokens, name.out}));
        for (int64_t row = 0; row < kTokens; ++row) {
            for (int64_t i = 0; i < name.out; ++i) {
                CHECK(y[static_cast<size_t>(row * 40 + column + i)] ==
                      alone[static_cast<size_t>(row * name.out + i)]);
            }
        }
        column += name.out;
    }
}

TEST_CASE("linear: accumulating adds to what is there") {
    Fixture fixture;
    DummySource source(1, DType::f32, fixture.threads);
    const LinearWeight linear = load_linear(source, {"a", 8, 4, true});
    const std::vector<float> x = ramp(8, 1.0f);
    const ConstTensorView x_view(x.data(), DType::f32, {1, 8});
    std::vector<float> plain(4), added(4, 2.0f);
    linear.apply(fixture.context, x_view, ops::MatmulOutput::overwrite,
                 TensorView(plain.data(), DType::f32, {1, 4}));
    linear.apply(fixture.context, x_view, ops::MatmulOutput::accumulate,
                 TensorView(added.data(), DType::f32, {1, 4}));
    for (size_t i = 0; i < 4; ++i) CHECK(added[i] == doctest::Approx(plain[i] + 2.0f));
}

TEST_CASE("linear: a matrix stored [in, out] is turned at load, in every type") {
    Fixture fixture;
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        DummySource source(1, dtype, fixture.threads);
        constexpr int64_t kIn = 37;
        constexpr int64_t kOut = 70;
        const Tensor stored = source.read("a.weight", {kIn, kOut}, WeightRole::matrix);
        const Tensor turned = transposed(source, stored);
        CHECK(turned.view().dim(0) == kOut);
        CHECK(turned.view().dim(1) == kIn);
        const Tensor back = transposed(source, turned);
        CHECK(std::string(static_cast<const char*>(back.view().data), back.bytes()) ==
              std::string(static_cast<const char*>(stored.view().data), stored.bytes()));
        const LinearWeight linear =
            load_linear(source, {"a", kIn, kOut, false, ShardAxis::none, {}, MatrixOrder::in_out});
        CHECK(linear.in() == kIn);
        CHECK(linear.out() == kOut);
    }
}

TEST_CASE("linear: dense ones apply within the scratch of a dry run") {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        ThreadPool threads(2);
        DummySource source(5, dtype, threads);
        const LinearWeight linear = load_linear(source, {"a", 96, 33, true});
        CHECK(linear.in() == 96);
        CHECK(linear.out() == 33);
        const DryRun dry({}, DType::f32, 2);
        linear.apply(dry.context(), dry.view(DType::f32, {20, 96}), ops::MatmulOutput::overwrite,
                     dry.view(DType::f32, {20, 33}));
        ScratchArena scratch(dry.scratch_bytes());
        Context context;
        context.scratch = &scratch;
        context.threads = &threads;
        const std::vector<float> x = ramp(20 * 96, 0.1f);
        std::vector<float> y(20 * 33);
        linear.apply(context, ConstTensorView(x.data(), DType::f32, {20, 96}),
                     ops::MatmulOutput::overwrite, TensorView(y.data(), DType::f32, {20, 33}));
        CHECK(scratch.num_growths() == 0);
    }
}

TEST_CASE("linear: made-up weights are quantized as a config says") {
    ThreadPool threads(2);
    QuantizationConfig::Fields fields;
    fields.groups.push_back({{"Linear"}, find_preset_scheme("W4A16").scheme});
    fields.ignore = {"head"};
    const auto config = std::make_shared<const QuantizationConfig>(std::move(fields));
    DummySource source(1, DType::bf16, threads);
    source.set_quantization(config);
    MetaWeightSource metadata(DType::bf16, DType::bf16, threads);
    metadata.set_quantization(config);
    for (const char* name : {"a", "head"}) {
        const LinearSpec linear{name, 256, 64, false};
        CHECK(load_linear(source, linear).bytes() == load_linear(metadata, linear).bytes());
    }
    CHECK(source.quantized_linears().native == 1);
    CHECK(load_linear(source, {"a", 256, 64, false}).bytes() == 64 * 128 + 64 * 2 * 2);
}

}  // namespace
}  // namespace nvllm
