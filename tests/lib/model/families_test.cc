// Every family against transformers: a tiny random checkpoint each, made by
// scripts/fixtures/make_families.py.
#include <doctest/doctest.h>

#include <algorithm>

#include "lib/model/loader.h"
#include "lib/model/step_scratch.h"
#include "tests/lib/model/driver.h"
#include "tests/lib/model/reference.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

std::vector<std::filesystem::path> folders_below(const char* name) {
    std::vector<std::filesystem::path> folders;
    for (const auto& item : std::filesystem::directory_iterator(test::source_path(name))) {
        if (item.is_directory()) folders.push_back(item.path());
    }
    std::sort(folders.begin(), folders.end());
    return folders;
}

std::vector<std::filesystem::path> family_folders() {
    return folders_below("tests/fixtures/families");
}

struct Loaded {
    ThreadPool threads;
    std::unique_ptr<Model> model;

    Loaded(const std::filesystem::path& directory, DType dtype, int num_threads = 2)
        : threads(num_threads),
          model(load_model({.directory = directory, .dtype = dtype, .threads = &threads})) {}
};

TEST_CASE("families: logits in float32 are those of transformers") {
    for (const auto& folder : family_folders()) {
        CAPTURE(folder.filename().string());
        const SafetensorsFile reference(folder / "reference.safetensors");
        Loaded loaded(folder, DType::f32);
        test::Driver driver(*loaded.model, loaded.threads, DType::f32, 16);
        const double difference = test::largest_difference(
            driver.logits_of(test::values_of<int32_t>(reference, "ids"), 0),
            test::values_of<float>(reference, "logits"));
        CHECK(difference < 1e-4);
        MESSAGE(folder.filename().string() << ": largest difference of a logit " << difference);
    }
}

TEST_CASE("families: 64 greedy ids are those of transformers") {
    for (const auto& folder : family_folders()) {
        CAPTURE(folder.filename().string());
        const SafetensorsFile reference(folder / "reference.safetensors");
        const auto expected = test::values_of<int32_t>(reference, "greedy_ids");
        Loaded loaded(folder, DType::f32);
        test::Driver driver(*loaded.model, loaded.threads, DType::f32, 16);
        CHECK(driver.greedy(test::values_of<int32_t>(reference, "prompt_ids"), expected.size()) ==
              expected);
    }
}

// Forms in which others save or edit checkpoints: scripts/fixtures/make_variants.py.
TEST_CASE("families: variants have the logits and greedy ids of transformers") {
    for (const auto& folder : folders_below("tests/fixtures/variants")) {
        CAPTURE(folder.filename().string());
        const SafetensorsFile reference(folder / "reference.safetensors");
        const auto expected = test::values_of<int32_t>(reference, "greedy_ids");
        Loaded loaded(folder, DType::f32);
        test::Driver driver(*loaded.model, loaded.threads, DType::f32, 16);
        CHECK(test::largest_difference(
                  driver.logits_of(test::values_of<int32_t>(reference, "ids"), 0),
                  test::values_of<float>(reference, "logits")) < 1e-4);
        test::Driver greedy(*loaded.model, loaded.threads, DType::f32, 16);
        CHECK(greedy.greedy(test::values_of<int32_t>(reference, "prompt_ids"), expected.size()) ==
              expected);
    }
}

// Half-precision products may change a choice whose margin is small; up to there it must be the
// same.
TEST_CASE("families: greedy ids in 16 bits up to the first small margin") {
    for (const auto& folder : family_folders()) {
        const SafetensorsFile reference(folder / "reference.safetensors");
        const auto margins = test::values_of<float>(reference, "margins");
        auto expected = test::values_of<int32_t>(reference, "greedy_ids");
        const auto tie = std::find_if(margins.begin(), margins.end(),
                                      [](float margin) { return margin < 0.4f; });
        expected.resize(static_cast<size_t>(tie - margins.begin()));
        if (expected.empty()) continue;
        for (const DType dtype : {DType::bf16, DType::f16}) {
            CAPTURE(folder.filename().string());
            CAPTURE(dtype_name(dtype));
            Loaded loaded(folder, dtype);
            test::Driver driver(*loaded.model, loaded.threads, dtype, 16);
            CHECK(driver.greedy(test::values_of<int32_t>(reference, "prompt_ids"),
                                expected.size()) == expected);
        }
    }
}

// Bit for bit: how a prompt is cut, how large blocks are and how many threads run must not be
// visible.
TEST_CASE("families: logits do not depend on chunks, block size or threads") {
    for (const auto& folder : family_folders()) {
        const SafetensorsFile reference(folder / "reference.safetensors");
        auto ids = test::values_of<int32_t>(reference, "prompt_ids");
        const auto more = test::values_of<int32_t>(reference, "greedy_ids");
        ids.insert(ids.end(), more.begin(), more.end());
        for (const DType dtype : {DType::f32, DType::bf16}) {
            std::vector<float> first;
            for (const int num_threads : {1, 2, 4}) {
                Loaded loaded(folder, dtype, num_threads);
                for (const int64_t block_size : {1, 16, 32}) {
                    for (const size_t chunk : {size_t{0}, size_t{1}, size_t{7}, size_t{64}}) {
                        test::Driver driver(*loaded.model, loaded.threads, dtype, block_size);
                        const std::vector<float> logits = driver.logits_of(ids, chunk);
                        if (first.empty()) first = logits;
                        CAPTURE(folder.filename().string());
                        CAPTURE(num_threads);
                        CAPTURE(block_size);
                        CAPTURE(chunk);
                        CHECK(logits == first);
                    }
                }
            }
        }
    }
}

TEST_CASE("families: a sequence computes the same beside others as alone") {
    for (const auto& folder : family_folders()) {
        CAPTURE(folder.filename().string());
        const SafetensorsFile reference(folder / "reference.safetensors");
        const auto ids = test::values_of<int32_t>(reference, "ids");
        const std::vector<int32_t> other(ids.rbegin(), ids.rend());
        Loaded loaded(folder, DType::bf16);
        test::Driver driver(*loaded.model, loaded.threads, DType::bf16, 16);
        const std::vector<float> alone = driver.logits_of(ids, 0);

        const size_t a = driver.add_sequence();
        const size_t b = driver.add_sequence();
        const size_t c = driver.add_sequence();
        driver.step({{b, {other.begin(), other.begin() + 30}}});
        const auto half = static_cast<std::ptrdiff_t>(ids.size() / 2);
        std::vector<float> beside =
            driver.step({{c, {5}}, {b, {other[30]}}, {a, {ids.begin(), ids.begin() + half}}});
        const auto vocab = static_cast<std::ptrdiff_t>(loaded.model->config().vocab_size);
        beside.erase(beside.begin(), beside.begin() + 2 * vocab);
        std::vector<float> rest = driver.step(
            {{a, {ids.begin() + half, ids.end()}}, {c, {other.begin(), other.begin() + 9}}});
        rest.resize(rest.size() - static_cast<size_t>(9 * vocab));
        beside.insert(beside.end(), rest.begin(), rest.end());
        CHECK(beside == alone);
    }
}

TEST_CASE("families: a step stays within the scratch that was announced") {
    constexpr int64_t kTokens = 88;
    for (const auto& folder : family_folders()) {
        const std::vector<int32_t> ids(kTokens, 7);
        for (const DType dtype : {DType::f32, DType::bf16}) {
            for (const int num_threads : {1, 4}) {
                CAPTURE(folder.filename().string());
                Loaded loaded(folder, dtype, num_threads);
                const size_t bytes = step_scratch_bytes(
                    *loaded.model,
                    {.tokens = kTokens, .rows = kTokens, .num_threads = num_threads});
                test::Driver driver(*loaded.model, loaded.threads, dtype, 16, bytes);
                driver.logits_of(ids, 0);
                CHECK(driver.arena().num_growths() == 0);
                CHECK(driver.arena().peak_bytes() <= bytes);
                CHECK(2 * driver.arena().peak_bytes() > bytes);
            }
        }
    }
}

}  // namespace
}  // namespace nvllm
