// Tests of dense linear algebra against double precision, and that threads change nothing.
#include "kernels/ops/linalg.h"

#include <cmath>

#include "kernels/host/thread_pool.h"
#include "kernels/types.h"
#include "testing.h"

using namespace nvllm;

namespace {

// Well conditioned and positive definite: x^T x of random rows, and a little on the diagonal.
std::vector<float> positive_definite(int64_t size) {
    testing::Random random(static_cast<uint32_t>(size));
    const int64_t rows = 2 * size + 3;
    const std::vector<float> x = random.values(rows * size);
    std::vector<float> matrix(static_cast<size_t>(size * size));
    for (int64_t i = 0; i < size; ++i) {
        for (int64_t j = 0; j < size; ++j) {
            double sum = i == j ? 0.5 : 0.0;
            for (int64_t row = 0; row < rows; ++row) {
                sum += static_cast<double>(x[static_cast<size_t>(row * size + i)]) *
                       x[static_cast<size_t>(row * size + j)];
            }
            matrix[static_cast<size_t>(i * size + j)] = static_cast<float>(sum);
        }
    }
    return matrix;
}

double at(const std::vector<float>& matrix, int64_t size, int64_t row, int64_t column) {
    return matrix[static_cast<size_t>(row * size + column)];
}

// The largest difference between entries of a b (or a^T b) and what they should be, by the largest
// of those.
template <typename Expected>
double product_error(const std::vector<float>& a, bool turned, const std::vector<float>& b,
                     int64_t size, const Expected& expected) {
    double error = 0, largest = 1e-30;
    for (int64_t i = 0; i < size; ++i) {
        for (int64_t j = 0; j < size; ++j) {
            double sum = 0;
            for (int64_t k = 0; k < size; ++k) {
                sum += (turned ? at(a, size, k, i) : at(a, size, i, k)) * at(b, size, k, j);
            }
            error = std::max(error, std::abs(sum - expected(i, j)));
            largest = std::max(largest, std::abs(expected(i, j)));
        }
    }
    return error / largest;
}

std::vector<float> turned(const std::vector<float>& matrix, int64_t size) {
    std::vector<float> result(matrix.size());
    for (int64_t i = 0; i < size; ++i) {
        for (int64_t j = 0; j < size; ++j) {
            result[static_cast<size_t>(j * size + i)] = matrix[static_cast<size_t>(i * size + j)];
        }
    }
    return result;
}

double identity(int64_t i, int64_t j) { return i == j ? 1.0 : 0.0; }

}  // namespace

TEST_CASE("a Gram matrix is the sum of x^T x in each type, whatever the rows are cut into") {
    constexpr int64_t kRows = 37, kSize = 270;
    testing::Random random(5);
    std::vector<float> x = random.values(kRows * kSize);
    const TensorView rows = testing::view(x, {kRows, kSize});
    for (const DType type : {DType::f32, DType::bf16}) {
        CAPTURE(dtype_name(type));
        const auto factor = [&](int64_t row, int64_t column) -> double {
            const float value = x[static_cast<size_t>(row * kSize + column)];
            return type == DType::bf16 ? static_cast<float>(BFloat16(value)) : value;
        };
        std::vector<double> expected(kSize * kSize, 0.0);
        for (int64_t i = 0; i < kSize; ++i) {
            for (int64_t j = 0; j < kSize; ++j) {
                double& sum = expected[static_cast<size_t>(i * kSize + j)];
                for (int64_t row = 0; row < kRows; ++row) sum += factor(row, i) * factor(row, j);
            }
        }
        testing::for_each_isa([&](cpu::Isa isa) {
            CAPTURE(cpu::isa_name(isa));
            testing::Machine machine;
            std::vector<float> sum(kSize * kSize, 0.0f);
            const TensorView gram = testing::view(sum, {kSize, kSize});
            ops::add_gram(machine.context(), rows.rows(0, 11), type, gram);
            ops::add_gram(machine.context(), rows.rows(11, kRows - 11), type, gram);
            ops::mirror_lower(machine.context(), gram);
            double error = 0;
            for (int64_t i = 0; i < kSize; ++i) {
                for (int64_t j = 0; j < kSize; ++j) {
                    error = std::max(error, std::abs(expected[static_cast<size_t>(i * kSize + j)] -
                                                     at(sum, kSize, i, j)));
                }
            }
            CHECK(error < 1e-5);
        });
    }
}

TEST_CASE("factors and inverses multiply back, at sizes around those of blocks") {
    testing::Machine machine;
    const Context& context = machine.context();
    for (const int64_t size : {1, 7, 64, 65, 130, 300}) {
        const std::vector<float> matrix = positive_definite(size);
        const auto original = [&](int64_t i, int64_t j) { return at(matrix, size, i, j); };
        std::vector<float> lower = matrix;
        REQUIRE(ops::cholesky(context, testing::view(lower, {size, size})));
        CHECK(product_error(lower, false, turned(lower, size), size, original) < 1e-5);
        std::vector<float> inverse = lower;
        ops::invert_lower(context, testing::view(inverse, {size, size}));
        CHECK(product_error(lower, false, inverse, size, identity) < 1e-4);
        std::vector<float> upper = matrix;
        REQUIRE(ops::inverse_cholesky(context, testing::view(upper, {size, size})));
        std::vector<float> inverse_of_matrix(matrix.size());
        for (int64_t i = 0; i < size; ++i) {
            for (int64_t j = 0; j < size; ++j) {
                double sum = 0;
                for (int64_t k = 0; k < size; ++k)
                    sum += at(upper, size, k, i) * at(upper, size, k, j);
                inverse_of_matrix[static_cast<size_t>(i * size + j)] = static_cast<float>(sum);
                if (j < i) CHECK(at(upper, size, i, j) == 0.0);
            }
        }
        CHECK(product_error(matrix, false, inverse_of_matrix, size, identity) < 1e-3);
    }
}

TEST_CASE("what is not positive definite has no factor") {
    testing::Machine machine;
    std::vector<float> matrix = positive_definite(100);
    matrix[static_cast<size_t>(70 * 100 + 70)] = -1.0f;
    CHECK(!ops::cholesky(machine.context(), testing::view(matrix, {100, 100})));
    std::vector<float> broken = positive_definite(3);
    broken[4] = std::nanf("");
    CHECK(!ops::inverse_cholesky(machine.context(), testing::view(broken, {3, 3})));
}

TEST_CASE("threads do not change a bit of linear algebra") {
    const int64_t size = 200;
    std::vector<std::vector<float>> results;
    for (const int threads : {1, 3}) {
        ThreadPool pool(threads);
        ScratchArena scratch;
        Context context;
        context.scratch = &scratch;
        context.threads = &pool;
        std::vector<float> matrix = positive_definite(size);
        REQUIRE(ops::inverse_cholesky(context, testing::view(matrix, {size, size})));
        std::vector<float> gram(matrix.size(), 0.0f);
        ops::add_gram(context, testing::view(matrix, {size, size}), DType::f32,
                      testing::view(gram, {size, size}));
        results.push_back(matrix);
        results.back().insert(results.back().end(), gram.begin(), gram.end());
    }
    CHECK(results[0] == results[1]);
}
