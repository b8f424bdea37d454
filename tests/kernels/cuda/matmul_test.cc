// Emulated tests of CUDA matrix products against double precision, and of their independence of the
// batch.
#include "kernels/cuda/matmul.h"

#include "../reference.h"
#include "emulated.h"

using namespace nvllm;
using testing::Buffer;

namespace {

struct Case {
    DType activation, stored, product;
    int64_t tokens, in, out, gap;
};

void check_product(const Case& test, ops::MatmulOutput output, bool with_bias) {
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
    cuda::matmul(machine.context(), x.matrix(test.tokens, test.in, test.in + test.gap),
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
                check_product({activation, stored, product, 3, 72, 35, 8}, overwrite, true);
                check_product({activation, stored, product, 2, 37, 5, 3}, accumulate, false);
            }
        }
    }
}

TEST_CASE("cuda: products of many rows and of few, in every schedule") {
    under_all_schedules([] {
        for (const DType dtype : testing::kFloatTypes) {
            check_product({dtype, dtype, dtype, 67, 200, 130, 0}, accumulate, true);
            check_product({dtype, dtype, dtype, 16, 328, 64, 8}, overwrite, false);
            check_product({dtype, dtype, dtype, 20, 136, 70, 0}, overwrite, true);
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
            cuda::matmul(machine.context(), rows, weight.view({out, in}), {}, dtype, overwrite, y);
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
