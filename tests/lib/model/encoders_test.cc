// Hidden states of encoders and decoders against transformers: references made by
// scripts/fixtures/make_embeddings.py.
#include <doctest/doctest.h>

#include "lib/model/loader.h"
#include "lib/model/step_scratch.h"
#include "tests/lib/model/driver.h"
#include "tests/lib/model/reference.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

const std::filesystem::path kEmbeddings = test::source_path("tests/fixtures/embeddings");
const std::filesystem::path kFamilies = test::source_path("tests/fixtures/families");
constexpr std::array<const char*, 6> kEncoders = {"bert",       "roberta", "distilbert",
                                                  "modernbert", "mpnet",   "embeddinggemma"};
constexpr std::array<const char*, 4> kDecoders = {"gemma3", "gpt2", "llama", "qwen3"};

// A prompt of a reference and its last hidden states.
struct Prompt {
    std::vector<int32_t> ids;
    std::vector<float> hidden;
};

std::vector<Prompt> prompts_of(const std::string& name) {
    const SafetensorsFile reference(kEmbeddings / name / "reference.safetensors");
    std::vector<Prompt> prompts;
    for (int number = 0;; ++number) {
        const std::string key = std::to_string(number);
        prompts.push_back({test::values_of<int32_t>(reference, key + ".ids"),
                           test::values_of<float>(reference, key + ".hidden")});
        if (prompts.back().ids.empty()) break;
    }
    prompts.pop_back();
    REQUIRE(prompts.size() >= 5);
    return prompts;
}

struct Loaded {
    ThreadPool threads;
    std::unique_ptr<Model> model;

    Loaded(const std::filesystem::path& directory, DType dtype, int num_threads = 2)
        : threads(num_threads),
          model(load_model({.directory = directory, .dtype = dtype, .threads = &threads})) {}
};

void check_hidden(const std::string& name, const std::filesystem::path& directory) {
    CAPTURE(name);
    Loaded loaded(directory, DType::f32);
    test::Driver driver(*loaded.model, loaded.threads, DType::f32, 16);
    double largest = 0.0;
    for (const Prompt& prompt : prompts_of(name)) {
        largest = std::max(largest,
                           test::largest_difference(driver.hidden_of(prompt.ids), prompt.hidden));
    }
    CHECK(largest < 1e-5);
    MESSAGE(name << ": largest difference of a hidden state " << largest);
}

TEST_CASE("encoders: hidden states in float32 are those of transformers") {
    for (const char* name : kEncoders) check_hidden(name, kEmbeddings / name);
}

TEST_CASE("decoders: hidden states in float32 are those of transformers") {
    for (const char* name : kDecoders) check_hidden(name, kFamilies / name);
}

// Half-precision products stay near: positions, types and masks are right there too.
TEST_CASE("encoders: hidden states in 16 bits are near those in float32") {
    for (const char* name : kEncoders) {
        for (const DType dtype : {DType::bf16, DType::f16}) {
            CAPTURE(name);
            CAPTURE(dtype_name(dtype));
            Loaded loaded(kEmbeddings / name, dtype);
            test::Driver driver(*loaded.model, loaded.threads, dtype, 16);
            for (const Prompt& prompt : prompts_of(name)) {
                CHECK(test::largest_difference(driver.hidden_of(prompt.ids), prompt.hidden) < 0.2);
            }
        }
    }
}

TEST_CASE("encoders: the same bits whatever the block size, the threads and the company") {
    for (const char* name : kEncoders) {
        CAPTURE(name);
        const std::vector<Prompt> prompts = prompts_of(name);
        Loaded first(kEmbeddings / name, DType::bf16, 1);
        test::Driver alone(*first.model, first.threads, DType::bf16, 16);
        std::vector<float> expected;
        for (const Prompt& prompt : prompts) {
            const std::vector<float> hidden = alone.hidden_of(prompt.ids);
            expected.insert(expected.end(), hidden.begin(), hidden.end());
        }
        for (const int num_threads : {1, 3}) {
            Loaded loaded(kEmbeddings / name, DType::bf16, num_threads);
            for (const int64_t block_size : {1, 7, 32}) {
                test::Driver driver(*loaded.model, loaded.threads, DType::bf16, block_size);
                std::vector<test::Work> batch;
                for (const Prompt& prompt : prompts) {
                    batch.push_back({driver.add_sequence(), prompt.ids});
                }
                CHECK(driver.hidden_step(batch) == expected);
            }
        }
    }
}

TEST_CASE("encoders: a step stays within the scratch that was announced") {
    const std::vector<int32_t> ids(64, 7);
    for (const char* name : kEncoders) {
        for (const int num_threads : {1, 4}) {
            CAPTURE(name);
            Loaded loaded(kEmbeddings / name, DType::bf16, num_threads);
            const size_t bytes = step_scratch_bytes(
                *loaded.model, {.tokens = 64, .rows = 64, .num_threads = num_threads});
            test::Driver driver(*loaded.model, loaded.threads, DType::bf16, 16, bytes);
            driver.hidden_of(ids);
            CHECK(driver.arena().num_growths() == 0);
            CHECK(2 * driver.arena().peak_bytes() > bytes);
        }
    }
}

TEST_CASE("classes: a step stays within the scratch that was announced") {
    const std::vector<int32_t> ids(64, 7);
    for (const char* name : {"bert", "distilbert", "qwen3"}) {
        CAPTURE(name);
        Loaded loaded(test::source_path("tests/fixtures/rerankers") / name, DType::bf16);
        const size_t bytes =
            step_scratch_bytes(*loaded.model, {.tokens = 64, .rows = 64, .num_threads = 2});
        test::Driver driver(*loaded.model, loaded.threads, DType::bf16, 16, bytes);
        CHECK(driver.classes_of(ids).size() == 64);
        CHECK(driver.arena().num_growths() == 0);
    }
}

TEST_CASE("classes: a model without a head has no values") {
    Loaded loaded(kEmbeddings / "bert", DType::f32);
    test::Driver driver(*loaded.model, loaded.threads, DType::f32, 16);
    CHECK_THROWS_AS(driver.classes_of(std::vector<int32_t>{1, 2}), Error);
}

TEST_CASE("encoders: there is nothing to generate with") {
    Loaded loaded(kEmbeddings / "bert", DType::f32);
    CHECK(loaded.model->config().encoder);
    CHECK_FALSE(loaded.model->config().generates);
    test::Driver driver(*loaded.model, loaded.threads, DType::f32, 16);
    const size_t sequence = driver.add_sequence();
    CHECK_THROWS_AS(driver.step({{sequence, {1, 2}}}), Error);
}

}  // namespace
}  // namespace nvllm
