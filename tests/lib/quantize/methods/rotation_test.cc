// Turned streams: the matrix is orthogonal, and the model computes what it did.
#include "lib/quantize/methods/rotation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/host/thread_pool.h"
#include "lib/model/registry.h"
#include "lib/quantize/pipeline.h"
#include "tests/error_of.h"
#include "tests/lib/quantize/folder.h"
#include "tests/lib/quantize/little_evaluation.h"

namespace nvllm::quantize {
namespace {

std::filesystem::path demo() { return std::filesystem::path(NVLLM_SOURCE_DIR) / "models" / "demo"; }

TEST_CASE("a rotation keeps lengths, is undone, and flattens what stands out") {
    ThreadPool threads(2);
    for (const int64_t size : {8, 24, 64}) {
        const Rotation rotation(size, 5);
        std::vector<float> row(static_cast<size_t>(size), 0.01f);
        row[3] = 4.0f;
        const std::vector<float> before = row;
        const TensorView view(row.data(), DType::f32, {1, size});
        rotation.turn_rows(threads, view, false);
        double square = 0.0, square_before = 0.0;
        for (size_t i = 0; i < row.size(); ++i) {
            square += std::pow(row[i], 2.0);
            square_before += std::pow(before[i], 2.0);
        }
        CHECK(square == doctest::Approx(square_before));
        CHECK(*std::max_element(row.begin(), row.end()) < 2.0f);
        rotation.turn_rows(threads, view, true);
        for (size_t i = 0; i < row.size(); ++i)
            CHECK(row[i] == doctest::Approx(before[i]).epsilon(1e-4));
        // R^T x as a column is x^T R as a row.
        std::vector<float> column = before;
        rotation.turn_columns(threads, TensorView(column.data(), DType::f32, {size, 1}), false);
        rotation.turn_rows(threads, view, false);
        for (size_t i = 0; i < row.size(); ++i) CHECK(column[i] == doctest::Approx(row[i]));
        rotation.turn_columns(threads, TensorView(column.data(), DType::f32, {size, 1}), true);
        for (size_t i = 0; i < row.size(); ++i)
            CHECK(column[i] == doctest::Approx(before[i]).epsilon(1e-4));
    }
}

TEST_CASE("a rotated model gives the same distributions, up to the precision it is stored in") {
    const test::Folder folder;
    RecipeFlags flags;
    flags.methods = {"rotation", "rtn"};
    flags.scheme = "W8A16";
    flags.group_size = "32";
    PipelineOptions options;
    options.model = demo();
    options.output = folder.path() / "out";
    options.num_threads = 2;
    Pipeline pipeline(options, recipe_from_flags(flags));
    const PipelineResult result = pipeline.run({});
    for (const LinearRecord& record : result.linears) CHECK(record.relative_error < 1e-3);
    const DivergenceReport report = test::compared_with_demo(pipeline.unpublished(), folder.path());
    CHECK(report.mean_kld < 0.01);
    CHECK(report.same_top > 0.9);
    const Checkpoint written = Checkpoint::open(pipeline.unpublished());
    CHECK(written.find("lm_head.weight").has_value());
    CHECK_FALSE(read_model_config(pipeline.unpublished()).tie_word_embeddings);
}

TEST_CASE("channels cannot be scaled in a turned stream") {
    const test::Folder folder;
    RecipeFlags flags;
    flags.methods = {"rotation", "awq"};
    PipelineOptions options;
    options.model = demo();
    options.output = folder.path() / "out";
    CHECK(test::error_of(ErrorKind::usage, [&] {
              Pipeline(options, recipe_from_flags(flags));
          }).find("without it") != std::string::npos);
}

}  // namespace
}  // namespace nvllm::quantize
