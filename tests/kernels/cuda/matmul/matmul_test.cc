// Emulated tests of CUDA matmuls against double precision, and of their independence of the
// batch.
#include "kernels/cuda/matmul/matmul.h"

#include "tests/kernels/cuda/emulated.h"
#include "tests/kernels/reference.h"

using namespace nvllm;
using testing::Buffer;

namespace {

struct Case {
    DType activation, stored, product;
    int64_t tokens, in, out, gap;
};

// cuda::gemm() or another product of its kind.
using Product = decltype(&cuda::gemm);

void check_matmul(const Case& test, ops::MatmulOutput output, bool with_bias,
                  Product product = cuda::gemm) {
    CAPTURE(test.tokens);
    CAPTURE(static_cast<int>(test.activation));
    CAPTURE(static_cast<int>(test.stored));
    CAPTURE(static_cast<int>(test.product));
    CAPTURE(test.in);
    testing::Machine machine(1);
    testing::Random random(static_cast<uint64_t>(test.in));
    Buffer x(test.activation, random.values(test.tokens * (test.in + test.gap)));
    Buffer weight(test.stored, random.values(test.out * test.in));
    Buffer bias(DType::bf16, random.values(test.out));
    Buffer y(test.activation, random.values(test.tokens * (test.out + test.gap)));
    const Buffer before = y;
    product(machine.context(), x.matrix(test.tokens, test.in, test.in + test.gap),
            weight.view({test.out, test.in}), with_bias ? bias.view({test.out}) : TensorView(),
            test.product, output, y.matrix(test.tokens, test.out, test.out + test.gap));
    Buffer rounded(test.product, 1);
    bool right = true;
    for (int64_t i = 0; i < y.size(); ++i) {
        const int64_t token = i / (test.out + test.gap), column = i % (test.out + test.gap);
        if (column >= test.out) {
            right = right && y[i] == before[i];
            continue;
        }
        reference::Dot dot;
        for (int64_t k = 0; k < test.in; ++k) {
            rounded.set(0, x[token * (test.in + test.gap) + k]);
            dot.add(rounded[0], weight[column * test.in + k]);
        }
        double expected = dot.sum + (with_bias ? bias[column] : 0.0f);
        if (output == ops::MatmulOutput::accumulate) expected += before[i];
        right = right && testing::close(y[i], expected, testing::rounding(test.activation),
                                        1e-6 * dot.magnitude + 1e-6);
    }
    CHECK(right);
}

constexpr auto overwrite = ops::MatmulOutput::overwrite;
constexpr auto accumulate = ops::MatmulOutput::accumulate;

}  // namespace

TEST_CASE("cuda: products match double precision in every combination of types") {
    for (const DType activation : testing::kFloatTypes) {
        for (const DType stored : testing::kFloatTypes) {
            for (const DType product : testing::kFloatTypes) {
                check_matmul({activation, stored, product, 3, 72, 35, 8}, overwrite, true);
                check_matmul({activation, stored, product, 2, 37, 5, 3}, accumulate, false);
            }
        }
    }
}

TEST_CASE("cuda: products of many rows and of few, in every schedule") {
    under_all_schedules([] {
        for (const DType dtype : testing::kFloatTypes) {
            check_matmul({dtype, dtype, dtype, 67, 200, 130, 0}, accumulate, true);
            check_matmul({dtype, dtype, dtype, 16, 328, 64, 8}, overwrite, false);
            check_matmul({dtype, dtype, dtype, 20, 136, 70, 0}, overwrite, true);
        }
    });
}

TEST_CASE("cuda: a row's product has the same bits in every batch") {
    testing::Machine machine(1);
    for (const DType dtype : {DType::bf16, DType::f32}) {
        const int64_t in = 328, out = 40, tokens = 70;
        Buffer x(dtype, testing::Random(1).values(tokens * in));
        Buffer weight(dtype, testing::Random(2).values(out * in));
        Buffer all(dtype, tokens * out), one(dtype, out);
        const auto multiply = [&](const TensorView& rows, const TensorView& y) {
            cuda::gemm(machine.context(), rows, weight.view({out, in}), {}, dtype, overwrite, y);
        };
        multiply(x.view({tokens, in}), all.view({tokens, out}));
        for (const int64_t token : {0, 17, 69}) {
            multiply(x.view({tokens, in}).rows(token, 1), one.view({1, out}));
            Buffer some(dtype, 25 * out);
            const int64_t first = std::min<int64_t>(token, tokens - 25);
            multiply(x.view({tokens, in}).rows(first, 25), some.view({25, out}));
            bool same = true;
            for (int64_t i = 0; i < out; ++i) {
                same = same && one[i] == all[token * out + i] &&
                       some[(token - first) * out + i] == one[i];
            }
            CHECK(same);
        }
    }
}

TEST_CASE("cuda: products of at most eight rows, of all ends and in every schedule") {
    under_all_schedules([] {
        for (const DType dtype : {DType::bf16, DType::f16}) {
            check_matmul({dtype, dtype, dtype, 1, 8, 1, 0}, overwrite, false, cuda::gemv);
            check_matmul({dtype, dtype, dtype, 3, 200, 35, 8}, accumulate, true, cuda::gemv);
        }
    });
    // Each warp comes round again, and some have a unit less than others.
    for (const int64_t tokens : {1, 2, 7, 8}) {
        check_matmul({DType::bf16, DType::bf16, DType::bf16, tokens, 2824, 40, 16}, overwrite, true,
                     cuda::gemv);
    }
}

TEST_CASE("cuda: which products have a kernel for few rows") {
    Buffer x(DType::bf16, 9 * 16), weight(DType::bf16, 4 * 16), wide(DType::f32, 4 * 16);
    const auto can = [&](const ConstTensorView& rows, const ConstTensorView& matrix, DType type) {
        return cuda::can_gemv(rows, matrix, type);
    };
    const ConstTensorView matrix = weight.view({4, 16});
    CHECK(can(x.view({8, 16}), matrix, DType::bf16));
    CHECK_FALSE(can(x.view({9, 16}), matrix, DType::bf16));
    CHECK_FALSE(can(x.view({8, 16}), matrix, DType::f32));
    CHECK_FALSE(can(x.view({8, 16}), wide.view({4, 16}), DType::bf16));
    CHECK_FALSE(can(x.view({8, 12}), weight.view({4, 12}), DType::bf16));
    CHECK_FALSE(can(x.matrix(2, 16, 20), matrix, DType::bf16));
}

TEST_CASE("cuda: of at most eight rows each has the same bits, whatever stands beside it") {
    testing::Machine machine(1);
    const int64_t in = 1608, out = 40, tokens = 8;
    Buffer x(DType::bf16, testing::Random(1).values(tokens * in));
    Buffer weight(DType::bf16, testing::Random(2).values(out * in));
    Buffer all(DType::bf16, tokens * out), one(DType::bf16, out);
    const auto multiply = [&](const TensorView& rows, const TensorView& y) {
        cuda::gemv(machine.context(), rows, weight.view({out, in}), {}, DType::bf16, overwrite, y);
    };
    multiply(x.view({tokens, in}), all.view({tokens, out}));
    for (int64_t token = 0; token < tokens; ++token) {
        multiply(x.view({tokens, in}).rows(token, 1), one.view({1, out}));
        bool same = true;
        for (int64_t i = 0; i < out; ++i) same = same && one[i] == all[token * out + i];
        CHECK(same);
    }
}
