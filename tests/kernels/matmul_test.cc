// Tests of matmuls: against double precision, and bit for bit across batches and threads.
#include "kernels/ops/matmul.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/simd/kernels.h"
#include "kernels/cpu/simd/rows.h"
#include "kernels/error.h"
#include "kernels/host/dry_run.h"
#include "reference.h"
#include "testing.h"
#include "tests/sanitized.h"

using namespace nvllm;
using ops::MatmulOutput;
using testing::Buffer;

namespace {

struct Problem {
    int64_t tokens, in, out;
    DType weight_type, compute_type;
};

struct Case {
    Problem size;
    std::vector<float> x, y;
    Buffer weight, bias;
    int64_t x_stride, y_stride;

    explicit Case(const Problem& problem)
        : size(problem),
          x(testing::Random(1).values(problem.tokens * (problem.in + 5))),
          y(testing::Random(2).values(problem.tokens * (problem.out + 3))),
          weight(problem.weight_type, testing::Random(3).values(problem.out * problem.in)),
          bias(problem.weight_type, testing::Random(4).values(problem.out)),
          x_stride(problem.in + 5),
          y_stride(problem.out + 3) {}

    std::vector<float> run(testing::Machine& machine, MatmulOutput output, bool with_bias) {
        return run(machine.context(), output, with_bias);
    }
    std::vector<float> run(const Context& context, MatmulOutput output, bool with_bias) {
        std::vector<float> result = y;
        ops::matmul(context, testing::matrix(x, size.tokens, size.in, x_stride),
                    weight.view({size.out, size.in}),
                    with_bias ? ConstTensorView(bias.view({size.out})) : ConstTensorView(),
                    size.compute_type, output,
                    testing::matrix(result, size.tokens, size.out, y_stride));
        return result;
    }
};

bool matches_reference(const Case& test, const std::vector<float>& result, MatmulOutput output,
                       bool with_bias) {
    const Problem& size = test.size;
    Buffer rounded(size.compute_type, test.x);
    for (int64_t t = 0; t < size.tokens; ++t) {
        for (int64_t o = 0; o < test.y_stride; ++o) {
            const float before = test.y[static_cast<size_t>(t * test.y_stride + o)];
            const float actual = result[static_cast<size_t>(t * test.y_stride + o)];
            if (o >= size.out) {  // the gap between rows
                if (actual != before) return false;
                continue;
            }
            reference::Dot dot;
            for (int64_t k = 0; k < size.in; ++k)
                dot.add(rounded[t * test.x_stride + k], test.weight[o * size.in + k]);
            if (with_bias) dot.add(1, test.bias[o]);
            if (output == MatmulOutput::accumulate) dot.add(1, before);
            const double tolerance = dot.magnitude * 1e-6;
            if (std::abs(actual - dot.sum) > tolerance) return false;
        }
    }
    return true;
}

void check_problem(testing::Machine& machine, const Problem& problem) {
    CAPTURE(problem.tokens);
    CAPTURE(problem.in);
    CAPTURE(problem.out);
    CAPTURE(dtype_name(problem.weight_type));
    CAPTURE(dtype_name(problem.compute_type));
    Case test(problem);
    for (const MatmulOutput output : {MatmulOutput::overwrite, MatmulOutput::accumulate}) {
        for (const bool with_bias : {false, true}) {
            CHECK(matches_reference(test, test.run(machine, output, with_bias), output, with_bias));
        }
    }
}

}  // namespace

TEST_CASE("matmul matches the reference for all types and odd sizes") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const DType weight_type : testing::kFloatTypes) {
            for (const DType compute_type : testing::kFloatTypes) {
                for (const int64_t in : {1, 2, 8, 15, 16, 17, 31, 32, 33, 63, 100, 300}) {
                    check_problem(machine, {3, in, 5, weight_type, compute_type});
                }
                for (const int64_t tokens : {1, 2, 4, 5, 7, 8, 9, 13, 17, 33, 64, 70, 95, 97}) {
                    check_problem(machine, {tokens, 40, 23, weight_type, compute_type});
                }
                for (const int64_t out : {1, 2, 6, 7, 12, 13, 300}) {
                    check_problem(machine, {2, 64, out, weight_type, compute_type});
                }
            }
        }
    });
}

TEST_CASE("matmul of larger sizes, where blocks and panels are cut") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        check_problem(machine, {130, 1000, 77, DType::bf16, DType::bf16});
        check_problem(machine, {130, 2077, 30, DType::bf16, DType::bf16});
        check_problem(machine, {110, 1024, 9, DType::f16, DType::f32});
        check_problem(machine, {210, 1025, 98, DType::f32, DType::f32});
        check_problem(machine, {1, 3000, 400, DType::bf16, DType::bf16});
        for (const int64_t tokens : test::all_or_few({8, 12, 32, 45, 64, 80, 95}, {12, 80})) {
            check_problem(machine, {tokens, 33, 8301, DType::bf16, DType::bf16});
        }
        check_problem(machine, {75, 257, 301, DType::f32, DType::f32});
        check_problem(machine, {300, 300, 3, DType::f16, DType::f16});
    });
}

TEST_CASE("a row has the same bits alone, among 512, and with any number of threads") {
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const auto& [weight_type, compute_type] : {std::pair{DType::bf16, DType::bf16},
                                                        {DType::f32, DType::f32},
                                                        {DType::bf16, DType::f32},
                                                        {DType::f16, DType::f16}}) {
            const int64_t in = 1100, out = 131;  // a K-block of k, and more
            Case all({512, in, out, weight_type, compute_type});
            testing::Machine one_thread(1);
            const std::vector<float> expected = all.run(one_thread, MatmulOutput::overwrite, true);
            for (const int threads : {2, 3, 4}) {
                testing::Machine machine(threads);
                CHECK(
                    testing::same_bits(all.run(machine, MatmulOutput::overwrite, true), expected));
            }
            for (const int64_t count : {1, 2, 3, 5, 8, 16, 63, 120}) {
                for (const int64_t first : {0, 7, 389}) {
                    testing::Machine machine(2);
                    std::vector<float> some(static_cast<size_t>(count * out));
                    ops::matmul(machine.context(),
                                testing::matrix(all.x, 512, in, all.x_stride).rows(first, count),
                                all.weight.view({out, in}), all.bias.view({out}), compute_type,
                                MatmulOutput::overwrite, testing::view(some, {count, out}));
                    bool same = true;
                    for (int64_t t = 0; t < count; ++t) {
                        for (int64_t o = 0; o < out; ++o) {
                            same =
                                same &&
                                some[static_cast<size_t>(t * out + o)] ==
                                    expected[static_cast<size_t>((first + t) * all.y_stride + o)];
                        }
                    }
                    CHECK(same);
                }
            }
        }
    });
}

TEST_CASE("the first columns have the same bits when weights are cut") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa) {
        const int64_t in = 200, out = 90;
        Case all({9, in, out, DType::bf16, DType::bf16});
        const std::vector<float> expected = all.run(machine, MatmulOutput::overwrite, false);
        for (const int64_t first : {0, 1, 4, 50}) {
            const int64_t count = 37;
            std::vector<float> part(9 * static_cast<size_t>(count));
            ops::matmul(machine.context(), testing::matrix(all.x, 9, in, all.x_stride),
                        all.weight.view({out, in}).rows(first, count), {}, DType::bf16,
                        MatmulOutput::overwrite, testing::view(part, {9, count}));
            bool same = true;
            for (int64_t t = 0; t < 9; ++t) {
                for (int64_t o = 0; o < count; ++o) {
                    same = same && part[static_cast<size_t>(t * count + o)] ==
                                       expected[static_cast<size_t>(t * all.y_stride + first + o)];
                }
            }
            CHECK(same);
        }
    });
}

TEST_CASE("weights that are joined give the bits of each by itself") {
    const int64_t in = 200, sizes[] = {300, 1, 77, 40};
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const DType type : testing::kFloatTypes) {
            for (const int64_t tokens : {1, 2, 33, 120}) {
                testing::Machine machine;
                Case all({tokens, in, 418, type, type});
                const auto x = testing::matrix(all.x, tokens, in, all.x_stride);
                std::vector<ops::MatmulWeight> weights;
                std::vector<float> joined = all.y, alone = all.y;
                int64_t first = 0;
                for (const int64_t out : sizes) {
                    const bool has_bias = out != 77;
                    weights.push_back({all.weight.view({418, in}).rows(first, out), {}});
                    if (has_bias) weights.back().bias = all.bias.view({418}).rows(first, out);
                    ops::matmul(
                        machine.context(), x, weights.back().weight, weights.back().bias, type,
                        MatmulOutput::accumulate,
                        testing::matrix(alone, tokens, 418, all.y_stride).columns(first, out));
                    first += out;
                }
                ops::fused_matmul(machine.context(), x, weights, type, MatmulOutput::accumulate,
                                  testing::matrix(joined, tokens, 418, all.y_stride));
                CHECK(testing::same_bits(joined, alone));
                CHECK_FALSE(testing::same_bits(joined, all.y));
            }
        }
    });
}

TEST_CASE("joined_matmul refuses weights that do not fill y, or of two types") {
    testing::Machine machine(1);
    std::vector<float> x(4), y(5);
    Buffer two(DType::f32, 8), three(DType::bf16, 12);
    const auto refused = [&](std::vector<ops::MatmulWeight> weights, int64_t columns) {
        CHECK_THROWS_AS(ops::fused_matmul(machine.context(), testing::view(x, {1, 4}), weights,
                                          DType::f32, MatmulOutput::overwrite,
                                          testing::view(y, {1, 5}).columns(0, columns)),
                        Error);
    };
    const ops::MatmulWeight by_two{two.view({2, 4}), {}}, by_three{three.view({3, 4}), {}};
    refused({by_two}, 3);
    refused({by_two, by_two}, 3);
    refused({by_two, by_three}, 5);
}

TEST_CASE("what lies beside x and the weights is not read into the sums") {
    testing::Machine machine;
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const DType dtype : testing::kFloatTypes) {
            const int64_t in = 21;
            std::vector<float> x(3 * 32, std::nanf(""));
            std::vector<float> weights(4 * in, std::nanf(""));
            for (int64_t i = 0; i < in; ++i) {
                x[static_cast<size_t>(32 + i)] = 1;
                weights[static_cast<size_t>(in + i)] = weights[static_cast<size_t>(2 * in + i)] = 2;
            }
            Buffer weight(dtype, weights);
            std::vector<float> y(2);
            ops::matmul(machine.context(), testing::matrix(x, 3, in, 32).rows(1, 1),
                        weight.view({4, in}).rows(1, 2), {}, dtype, MatmulOutput::overwrite,
                        testing::view(y, {1, 2}));
            CHECK(y[0] == 42);
            CHECK(y[1] == 42);
        }
    });
}

TEST_CASE("matmul takes the scratch that a dry run says, and none that grows") {
    for (const auto& [tokens, in] :
         {std::pair<int64_t, int64_t>{1, 1}, {1, 4096}, {37, 100}, {512, 33}}) {
        Case test({tokens, in, 20, DType::bf16, DType::bf16});
        testing::for_each_isa([&](cpu::Isa) {
            testing::Machine machine;
            test.run(machine, MatmulOutput::overwrite, false);
            CHECK(machine.scratch().num_growths() == 0);
            const DryRun dry({}, DType::f32, 2);
            CHECK(test.run(dry.context(), MatmulOutput::overwrite, false) == test.y);
            CHECK(machine.scratch().peak_bytes() == dry.scratch_bytes());
        });
    }
}

TEST_CASE("matmul refuses shapes that do not fit") {
    testing::Machine machine(1);
    std::vector<float> x(12), w(20), y(15);
    CHECK_THROWS_AS(
        ops::matmul(machine.context(), testing::view(x, {3, 4}), testing::view(w, {4, 5}), {},
                    DType::f32, MatmulOutput::overwrite, testing::view(y, {3, 5})),
        Error);
    CHECK_THROWS_AS(
        ops::matmul(machine.context(), testing::view(x, {3, 4}), testing::view(w, {5, 4}), {},
                    DType::i32, MatmulOutput::overwrite, testing::view(y, {3, 5})),
        Error);
}

TEST_CASE("matmul: packed weights stay within their room and give the bits of rows in place") {
    constexpr int64_t in = cpu::kBlockK + 77;
    constexpr int64_t columns = 37;
    struct alignas(64) Line {
        std::byte bytes[64];
    };
    testing::for_each_isa([&](cpu::Isa isa) {
        INFO(cpu::isa_name(isa));
        for (const DType type : testing::kFloatTypes) {
            const size_t index = cpu::float_type_index(type);
            const cpu::MatmulKernels& few = cpu::kernels().matmul[index][index];
            if (few.are_panels_full) continue;  // tiles have no packed panels of weights
            const cpu::MatmulKernels& many = few.for_more_rows ? *few.for_more_rows : few;
            // Panels of two sizes.
            const int64_t tokens = few.max_in_place_tokens + many.max_panel_rows - 1;
            REQUIRE(tokens > few.max_in_place_tokens);
            const std::vector<float> x = testing::Random(1).values(tokens * in);
            Buffer weight(type, testing::Random(3).values(columns * in));
            std::vector<Line> packed_weight(sizeof(float) * cpu::kMaxMatmulColumns * cpu::kBlockK /
                                            sizeof(Line));
            const auto product = [&](const cpu::MatmulKernels& kernel, int64_t rows) {
                const int64_t row_bytes = cpu::divided_up(in, kernel.step) * kernel.step *
                                          static_cast<int64_t>(kernel.packed_bytes);
                std::vector<Line> packed(static_cast<size_t>((rows + kernel.max_panel_rows) *
                                                             row_bytes / int64_t{sizeof(Line)}));
                const int64_t panels = cpu::divided_up(rows, kernel.max_panel_rows);
                for (int64_t panel = 0; panel < panels; ++panel) {
                    const int64_t begin = kernel.panel_begin(rows, panel);
                    kernel.pack(x.data() + begin * in, in,
                                kernel.panel_begin(rows, panel + 1) - begin, in,
                                packed.data()->bytes + begin * row_bytes);
                }
                std::vector<float> y(static_cast<size_t>(rows * columns), -1.0f);
                cpu::MatmulBlock block{};
                block.x = packed.data();
                block.tokens = rows;
                block.weight = weight.view({columns, in}).data;
                block.bytes_ahead = 256;
                block.packed_weight = packed_weight.data();
                block.columns = columns;
                block.in = in;
                block.y = y.data();
                block.y_stride = columns;
                kernel.multiply(block);
                return y;
            };
            const std::vector<float> all = product(many, tokens);
            const std::vector<float> first = product(few, few.max_in_place_tokens);
            CHECK(std::equal(first.begin(), first.end(), all.begin()));
            // It is the product: the last row by the last column.
            reference::Dot dot;
            Buffer rounded(type, x);
            for (int64_t k = 0; k < in; ++k) {
                dot.add(rounded[(tokens - 1) * in + k], weight[(columns - 1) * in + k]);
            }
            CHECK(std::abs(all.back() - dot.sum) <= dot.magnitude * 1e-5);
        }
    });
}
