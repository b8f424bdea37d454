// Tests of the scratch that dry runs of models find, with weights and without.
#include "lib/model/step_scratch.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "kernels/error.h"
#include "lib/model/loader.h"
#include "tests/lib/model/driver.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

// Of every family, and of every stored format of quantized weights.
std::vector<std::filesystem::path> model_folders() {
    std::vector<std::filesystem::path> folders;
    for (const char* name : {"families", "quantized", "embeddings"}) {
        const auto below = test::source_path(std::string("tests/fixtures/") + name);
        for (const auto& item : std::filesystem::directory_iterator(below)) {
            if (std::filesystem::exists(item.path() / "config.json")) {
                folders.push_back(item.path());
            }
        }
    }
    REQUIRE(folders.size() > 10);
    std::ranges::sort(folders);
    return folders;
}

// Of a model whose headers were read, and of the same model with its weights.
void check_model(const std::filesystem::path& folder, const DeviceChoice& device) {
    CAPTURE(folder.string());
    ThreadPool threads(2);
    const ModelLoadOptions options{
        .directory = folder, .dtype = DType::bf16, .threads = &threads, .device = device};
    const ModelMetadata metadata = model_metadata(options);
    CHECK(metadata.num_threads == 2);
    const LargestStep step{.tokens = 150,
                           .rows = 16,
                           .num_threads = 2,
                           .device = metadata.device,
                           .activations = metadata.activations};
    const size_t bytes = step_scratch_bytes(*metadata.model, step);
    CHECK(bytes > 0);
    CHECK(step_scratch_bytes(*load_model(options), step) == bytes);
}

}  // namespace

TEST_CASE("scratch of a step is known without values, of every family and stored format") {
    for (const auto& folder : model_folders()) check_model(folder, {});
}

#ifdef NVLLM_TEST_EMULATED
TEST_CASE("scratch of a step on a device is known without values, and without the device") {
    const DeviceChoice device{std::string(NVLLM_TEST_MODULES) + "/libnanovllm_cuda_emulated.so", 0};
    for (const auto& folder : model_folders()) check_model(folder, device);
}
#endif

TEST_CASE("scratch of the largest step is enough for smaller ones and for rows that want logits") {
    const std::filesystem::path folder = test::source_path("tests/fixtures/families/llama");
    for (const DType dtype : {DType::f32, DType::bf16}) {
        ThreadPool threads(3);
        const auto model = load_model({.directory = folder, .dtype = dtype, .threads = &threads});
        const size_t bytes =
            step_scratch_bytes(*model, {.tokens = 60, .rows = 60, .num_threads = 3});
        test::Driver driver(*model, threads, dtype, 16, bytes);
        for (const size_t tokens : {60, 59, 31, 30, 17, 8, 5, 2, 1}) {
            driver.logits_of(std::vector<int32_t>(tokens, 7), 0);
        }
        CHECK(driver.arena().num_growths() == 0);
    }
}

TEST_CASE("what is done with rows of a step counts as well") {
    ThreadPool threads(1);
    const auto model = load_model(
        {.directory = test::source_path("tests/fixtures/families/llama"), .threads = &threads});
    const LargestStep step{.tokens = 8, .rows = 4};
    constexpr size_t kBytes = size_t{1} << 30;
    int64_t most_rows = 0;
    RowsUse use;
    use.logits = [&](const Context& context, const ConstTensorView& logits) {
        CHECK(context.is_dry_run());
        CHECK(logits.dim(1) == model->config().vocab_size);
        most_rows = std::max(most_rows, logits.dim(0));
        context.scratch->take(kBytes);
    };
    const size_t without = step_scratch_bytes(*model, step);
    CHECK(step_scratch_bytes(*model, step, use) > kBytes);
    CHECK(step_scratch_bytes(*model, step, use) < kBytes + without);
    CHECK(most_rows == 4);
}

}  // namespace nvllm
