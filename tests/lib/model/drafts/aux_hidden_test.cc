// States of a target's layers, as draft heads take them.
#include <doctest/doctest.h>

#include <array>
#include <string>

#include "lib/model/loader.h"
#include "tests/lib/model/driver.h"
#include "tests/lib/model/reference.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

namespace fs = std::filesystem;

std::vector<float> states_of(const fs::path& directory, std::span<const int32_t> tokens,
                             std::span<const int64_t> layers) {
    ThreadPool threads(2);
    const auto model =
        load_model({.directory = directory, .dtype = DType::f32, .threads = &threads});
    test::Driver driver(*model, threads, DType::f32, 4);
    return driver.aux_hidden_of(tokens, layers);
}

// Columns [index * width, (index + 1) * width) of rows.
std::vector<float> columns(const std::vector<float>& rows, size_t count, size_t index,
                           size_t width) {
    const size_t stride = rows.size() / count;
    std::vector<float> taken;
    for (size_t row = 0; row < count; ++row) {
        const auto first = rows.begin() + static_cast<std::ptrdiff_t>(row * stride + index * width);
        taken.insert(taken.end(), first, first + static_cast<std::ptrdiff_t>(width));
    }
    return taken;
}

void check_stored(const fs::path& head, const fs::path& target) {
    CAPTURE(head.string());
    const SafetensorsFile file(head / "case.safetensors");
    const auto wide = test::values_of<int64_t>(file, "prompt_ids");
    const std::vector<int32_t> tokens(wide.begin(), wide.end());
    const auto layers = test::values_of<int64_t>(file, "aux_layers");
    const auto expected = test::values_of<float>(file, "aux_hidden");
    REQUIRE(!expected.empty());
    double size = 1.0;
    for (const float value : expected) size = std::max(size, std::abs(static_cast<double>(value)));
    CHECK(test::largest_difference(states_of(target, tokens, layers), expected) < 1e-4 * size);
}

TEST_CASE("states of layers are side by side in the order that is asked for") {
    const fs::path target = test::source_path("tests/fixtures/families/llama");
    const std::vector<int32_t> tokens = {5, 9, 77, 3, 41};
    constexpr size_t kWidth = 64;
    const std::array<int64_t, 4> layers = {2, 0, 1, 2};
    const auto all = states_of(target, tokens, layers);
    for (size_t index = 0; index < layers.size(); ++index) {
        const std::array<int64_t, 1> one = {layers[index]};
        CHECK(columns(all, tokens.size(), index, kWidth) == states_of(target, tokens, one));
    }
    CHECK(columns(all, tokens.size(), 0, kWidth) != columns(all, tokens.size(), 2, kWidth));
    // The state of no block is the embedding.
    const SafetensorsFile file(target / "model.safetensors");
    const ConstTensorView table = file.view(*file.find("model.embed_tokens.weight"));
    const auto embedded = columns(all, tokens.size(), 1, kWidth);
    for (size_t i = 0; i < embedded.size(); ++i) {
        const auto row = static_cast<size_t>(tokens[i / kWidth]);
        REQUIRE(embedded[i] == static_cast<float>(table.as<BFloat16>()[row * kWidth + i % kWidth]));
    }
}

TEST_CASE("states of layers are those that stored draft heads were given") {
    const fs::path heads = test::shared_data("drafts");
    const fs::path stories = test::shared_data("models/stories260k");
    if (heads.empty() || stories.empty()) return;
    check_stored(heads / "stories260k-eagle3", stories);
    check_stored(heads / "stories260k-eagle3-speculators", stories);
    check_stored(heads / "demo-eagle3-narrow", test::source_path("models/demo"));
}

}  // namespace
}  // namespace nvllm
