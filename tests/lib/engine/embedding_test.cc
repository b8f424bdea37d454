// Embeddings through the engine: the vectors of transformers, whatever the chunks, blocks, company,
// preemptions and what is cached. References are made by scripts/fixtures/make_embeddings.py.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>

#include "lib/base/file.h"
#include "lib/engine/engine.h"
#include "lib/engine/input_processor.h"
#include "tests/lib/checkpoint/temporary_folder.h"
#include "tests/lib/model/reference.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

const std::filesystem::path kEmbeddings = test::source_path("tests/fixtures/embeddings");
const std::filesystem::path kFamilies = test::source_path("tests/fixtures/families");
constexpr std::array<const char*, 6> kEncoders = {"bert",       "roberta", "distilbert",
                                                  "modernbert", "mpnet",   "embeddinggemma"};
constexpr std::array<const char*, 4> kDecoders = {"gemma3", "gpt2", "llama", "qwen3"};
constexpr std::array<PoolingKind, 3> kKinds = {PoolingKind::last, PoolingKind::mean,
                                               PoolingKind::cls};
constexpr int32_t kShort = 8;

using Ids = std::vector<int32_t>;

EngineConfig config_of(const std::filesystem::path& model) {
    EngineConfig config;
    config.model.name = model.string();
    config.model.dtype = "float32";
    config.compute.placement.num_threads = 2;
    config.memory.kv_cache_bytes = uint64_t{4} << 20;
    return config;
}

// Prompts with all their pooled vectors.
struct Reference {
    explicit Reference(const std::string& name)
        : file(kEmbeddings / name / "reference.safetensors") {
        while (file.find(std::to_string(prompts.size()) + ".ids") != nullptr) {
            prompts.push_back(
                test::values_of<int32_t>(file, std::to_string(prompts.size()) + ".ids"));
        }
        REQUIRE(prompts.size() >= 5);
    }

    std::vector<float> vector(size_t prompt, const PoolingParams& params) const {
        const std::string key = std::to_string(prompt) + "." + pooling_kind_name(params.kind) +
                                (params.dimensions ? ".short" : "") +
                                (params.normalize ? ".normalized" : "");
        std::vector<float> values = test::values_of<float>(file, key);
        REQUIRE_FALSE(values.empty());
        return values;
    }

    SafetensorsFile file;
    std::vector<Ids> prompts;
};

std::vector<PoolingParams> all_params() {
    std::vector<PoolingParams> list;
    for (const PoolingKind kind : kKinds) {
        for (const bool normalize : {false, true}) {
            list.push_back({kind, normalize, std::nullopt});
            list.push_back({kind, normalize, kShort});
        }
    }
    return list;
}

RequestInput embedding_of(const Ids& ids, const PoolingParams& params) {
    RequestInput input;
    input.prompt = ids;
    input.pooling = params;
    return input;
}

// The last output, with all that was generated.
std::future<RequestOutput> ask(Engine& engine, const RequestInput& input) {
    auto request = engine.prepare(input);
    REQUIRE(request.ok());
    auto promise = std::make_shared<std::promise<RequestOutput>>();
    std::future<RequestOutput> answer = promise->get_future();
    auto ids = std::make_shared<Ids>();
    engine.submit(std::move(*request), [promise, ids](RequestOutput&& output) {
        Ids& news = output.continuations.at(0).token_ids;
        ids->insert(ids->end(), news.begin(), news.end());
        news = *ids;
        if (output.finished) promise->set_value(std::move(output));
    });
    return answer;
}

RequestOutput embed(Engine& engine, const RequestInput& input) { return ask(engine, input).get(); }

Ids answer_of(std::future<RequestOutput>& answer) {
    return answer.get().continuations.at(0).token_ids;
}

// All prompts in all ways.
std::vector<std::future<RequestOutput>> ask_all(Engine& engine, const std::vector<Ids>& prompts) {
    std::vector<std::future<RequestOutput>> answers;
    for (const Ids& prompt : prompts) {
        for (const PoolingParams& params : all_params()) {
            answers.push_back(ask(engine, embedding_of(prompt, params)));
        }
    }
    return answers;
}

std::vector<std::vector<float>> vectors_of(std::vector<std::future<RequestOutput>>& answers) {
    std::vector<std::vector<float>> vectors;
    for (auto& answer : answers) vectors.push_back(answer.get().embedding);
    return vectors;
}

std::vector<std::vector<float>> embed_all(Engine& engine, const std::vector<Ids>& prompts) {
    auto answers = ask_all(engine, prompts);
    return vectors_of(answers);
}

void check_vectors(const std::string& name, const EngineConfig& config) {
    CAPTURE(name);
    const Reference reference(name);
    Engine engine(config);
    double largest = 0.0;
    for (size_t prompt = 0; prompt < reference.prompts.size(); ++prompt) {
        for (const PoolingParams& params : all_params()) {
            const RequestOutput output =
                embed(engine, embedding_of(reference.prompts[prompt], params));
            largest = std::max(largest, test::largest_difference(output.embedding,
                                                                 reference.vector(prompt, params)));
            CHECK(output.num_prompt_tokens ==
                  static_cast<int32_t>(reference.prompts[prompt].size()));
            REQUIRE(output.continuations.size() == 1);
            CHECK(output.continuations[0].finish_reason == FinishReason::stop);
            CHECK(output.continuations[0].token_ids.empty());
        }
    }
    CHECK(largest < 1e-5);
    MESSAGE(name << ": largest difference of a value " << largest);
    engine.wait_idle();
    CHECK(engine.stats().cache.blocks.used == 0);
    CHECK(engine.stats().scheduler.stalled_steps == 0);
}

TEST_CASE("embeddings: decoders' vectors are those of transformers") {
    for (const char* name : kDecoders) check_vectors(name, config_of(kFamilies / name));
}

TEST_CASE("embeddings: encoders' vectors are those of transformers") {
    for (const char* name : kEncoders) check_vectors(name, config_of(kEmbeddings / name));
}

TEST_CASE("embeddings: the same bits whatever the chunks and blocks, alone and together") {
    for (const char* name : kDecoders) {
        CAPTURE(name);
        const Reference reference(name);
        std::vector<std::vector<float>> expected;
        for (const int32_t block_size : {1, 16, 32}) {
            for (const int32_t chunk : {1, 7, 0}) {
                CAPTURE(block_size);
                CAPTURE(chunk);
                EngineConfig config = config_of(kFamilies / name);
                config.kv_cache.block_size = block_size;
                config.scheduling.scheduler.chunk_size = chunk;
                config.kv_cache.cache.enable_prefix_caching = block_size != 32;
                Engine engine(config);
                const auto vectors = embed_all(engine, reference.prompts);
                if (expected.empty()) expected = vectors;
                CHECK(vectors == expected);
            }
        }
    }
}

TEST_CASE("embeddings: encoders compute the same in company and in blocks of any size") {
    for (const char* name : kEncoders) {
        CAPTURE(name);
        const Reference reference(name);
        std::vector<std::vector<float>> expected;
        for (const int32_t block_size : {1, 16, 32}) {
            EngineConfig config = config_of(kEmbeddings / name);
            config.kv_cache.block_size = block_size;
            Engine engine(config);
            if (expected.empty()) {
                for (const Ids& prompt : reference.prompts) {
                    for (const PoolingParams& params : all_params()) {
                        expected.push_back(embed(engine, embedding_of(prompt, params)).embedding);
                    }
                }
            }
            CHECK(embed_all(engine, reference.prompts) == expected);
            engine.wait_idle();
            const EngineStats stats = engine.stats();
            CHECK(stats.cache.blocks.used == 0);
            CHECK(stats.cache.blocks.cached == 0);
            CHECK(stats.scheduler.preemptions == 0);
        }
    }
}

RequestInput story(const Ids& prompt, int32_t max_tokens) {
    RequestInput input;
    input.prompt = prompt;
    input.sampling.temperature = 0.0f;
    input.sampling.max_tokens = max_tokens;
    input.sampling.ignore_eos = true;
    return input;
}

TEST_CASE("embeddings: neither they nor answers beside them notice each other") {
    for (const char* name : kDecoders) {
        CAPTURE(std::string(name));
        const Reference reference(name);
        Engine engine(config_of(kFamilies / name));
        const auto expected = embed_all(engine, reference.prompts);
        std::vector<Ids> expected_answers;
        for (const Ids& prompt : reference.prompts) {
            auto alone = ask(engine, story(prompt, 40));
            expected_answers.push_back(answer_of(alone));
            CHECK(expected_answers.back().size() == 40);
        }
        std::vector<std::future<RequestOutput>> answers;
        for (const Ids& prompt : reference.prompts) {
            answers.push_back(ask(engine, story(prompt, 40)));
        }
        CHECK(embed_all(engine, reference.prompts) == expected);
        for (size_t i = 0; i < answers.size(); ++i) {
            CHECK(answer_of(answers[i]) == expected_answers[i]);
        }
    }
}

// Keeps the engine from beginning with anything else until it ends.
class Standstill {
  public:
    explicit Standstill(Engine& engine) {
        auto request = engine.prepare(story({1}, 1));
        REQUIRE(request.ok());
        engine.submit(std::move(*request), [this, end = end_.get_future().share()](auto&&) {
            begun_.set_value();
            end.wait();
        });
        begun_.get_future().wait();
    }
    ~Standstill() { end_.set_value(); }

  private:
    std::promise<void> begun_;
    std::promise<void> end_;
};

// An answer that came first takes the blocks of prompts that are computed a few tokens a step. All
// of them are there before anything begins, so that it goes the same way at any speed.
TEST_CASE("embeddings: the same bits when sequences have to give way") {
    for (const char* name : {"gemma3", "llama"}) {
        const Reference reference(name);
        std::vector<Ids> prompts;
        for (int32_t shift = 0; shift < 4; ++shift) {
            for (Ids prompt : reference.prompts) {
                for (int32_t& id : prompt) id = (id + shift) % 128;
                prompts.push_back(prompt);
            }
        }
        EngineConfig config = config_of(kFamilies / name);
        std::vector<std::vector<float>> expected;
        {
            Engine engine(config);
            expected = embed_all(engine, prompts);
        }
        config.kv_cache.block_size = 4;
        config.memory.max_model_len = 160;
        config.scheduling.scheduler.max_num_seqs = 8;
        config.scheduling.max_num_batched_tokens = 8;
        config.scheduling.scheduler.chunk_size = 3;
        config.memory.swap_bytes = uint64_t{1} << 20;
        config.memory.kv_cache_bytes = 220 * Engine::plan(config).kv_bytes_per_token;
        for (const PreemptionMode mode : {PreemptionMode::recompute, PreemptionMode::swap}) {
            CAPTURE(std::string(name));
            config.scheduling.scheduler.preemption_mode = mode;
            Engine engine(config);
            auto standstill = std::make_optional<Standstill>(engine);
            auto answer = ask(engine, story(reference.prompts[0], 150));
            auto embeddings = ask_all(engine, prompts);
            standstill.reset();
            CHECK(vectors_of(embeddings) == expected);
            CHECK(answer_of(answer).size() == 150);
            engine.wait_idle();
            const EngineStats stats = engine.stats();
            MESSAGE(std::string(name) << ": " << stats.scheduler.preemptions << " preemptions, "
                                      << stats.scheduler.swaps_out << " swaps");
            CHECK(stats.scheduler.preemptions > 0);
            CHECK(stats.scheduler.stalled_steps == 0);
            CHECK(stats.cache.blocks.used == 0);
        }
    }
}

TEST_CASE("embeddings: what is cached is used where it tells enough, and changes no bit") {
    const Reference reference("qwen3");
    const Ids& prompt = reference.prompts.back();
    Engine engine(config_of(kFamilies / "qwen3"));
    for (const PoolingKind kind : kKinds) {
        const PoolingParams params{.kind = kind};
        const RequestOutput first = embed(engine, embedding_of(prompt, params));
        const RequestOutput second = embed(engine, embedding_of(prompt, params));
        CHECK(second.embedding == first.embedding);
        CHECK((second.num_cached_tokens > 0) == (kind == PoolingKind::last));
    }
    // An answer goes on from what an embedding computed.
    auto answer = ask(engine, story(prompt, 4));
    CHECK(answer.get().num_cached_tokens == 80);
}

TEST_CASE("embeddings: texts are cut as the model's own tokenizer does, special tokens included") {
    for (const char* name : kEncoders) {
        CAPTURE(std::string(name));
        const Reference reference(name);
        Engine engine(config_of(kEmbeddings / name));
        const auto texts = nlohmann::json::parse(read_file(kEmbeddings / name / "texts.json"));
        REQUIRE(texts.size() >= 5);
        for (size_t i = 0; i < texts.size(); ++i) {
            RequestInput input = embedding_of({}, {.kind = PoolingKind::mean});
            input.prompt = texts[i]["text"].get<std::string>();
            const auto request = engine.prepare(input);
            REQUIRE(request.ok());
            CHECK(request->prompt_token_ids == texts[i]["ids"].get<Ids>());
            CHECK(test::largest_difference(embed(engine, input).embedding,
                                           reference.vector(i, *input.pooling)) < 1e-5);
        }
    }
}

void copy_model(const std::filesystem::path& model, const test::TemporaryFolder& folder) {
    std::filesystem::copy(model, folder.path(), std::filesystem::copy_options::recursive);
}

TEST_CASE("embeddings: linears behind the pooling say how long vectors are") {
    const EngineConfig config = config_of(kEmbeddings / "embeddinggemma");
    Engine engine(config);
    const auto size = [&](std::optional<int32_t> dimensions) {
        return embed(engine, embedding_of({5, 6}, {.dimensions = dimensions})).embedding.size();
    };
    CHECK(size({}) == 20);
    CHECK(size(20) == 20);
    CHECK(size(3) == 3);
    CHECK_FALSE(engine.prepare(embedding_of({5}, {.dimensions = 21})).ok());
    // Also in a process of their own, and with random weights.
    EngineConfig isolated = config;
    isolated.compute.isolation = Isolation::process;
    Engine other(isolated);
    const RequestInput input = embedding_of({5, 6, 7}, {.kind = PoolingKind::mean});
    CHECK(embed(other, input).embedding == embed(engine, input).embedding);
    const test::TemporaryFolder folder;
    copy_model(kEmbeddings / "embeddinggemma", folder);
    EngineConfig dummy = config_of(folder.path());
    std::filesystem::remove(folder.path() / "2_Dense" / "model.safetensors");
    CHECK_THROWS_WITH_AS(Engine{dummy}, doctest::Contains("2_Dense"), Error);
    dummy.model.load_format = "dummy";
    Engine made_up(dummy);
    CHECK(embed(made_up, input).embedding.size() == 20);
    folder.write("2_Dense/config.json", R"({"in_features": 30, "out_features": 44})");
    CHECK_THROWS_WITH_AS(Engine{dummy}, doctest::Contains("in_features is 30"), Error);
}

TEST_CASE("embeddings: texts begin with the prompts of their kind") {
    const test::TemporaryFolder folder;
    copy_model(kEmbeddings / "bert", folder);
    const std::filesystem::path prompts = "config_sentence_transformers.json";
    folder.write(prompts, R"({"prompts": {"query": "who sat ", "document": ""}})");
    const auto ids_of = [&](Engine& engine, std::optional<std::string> name) -> Ids {
        RequestInput input = embedding_of({}, {});
        input.prompt = "on the mat";
        input.prompt_name = std::move(name);
        const auto request = engine.prepare(input);
        return request ? request->prompt_token_ids : Ids{};
    };
    Engine engine(config_of(folder.path()));
    const Ids plain = engine.tokenizer()->encode("on the mat");
    const Ids begun = engine.tokenizer()->encode("who sat on the mat");
    CHECK(ids_of(engine, std::nullopt) == plain);
    CHECK(ids_of(engine, "document") == plain);
    CHECK(ids_of(engine, "query") == begun);
    RequestInput input = embedding_of({}, {});
    input.prompt = "a";
    input.prompt_name = "passage";
    const auto refused = engine.prepare(input);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.fault().message.find("but document, query") != std::string::npos);
    input.prompt = Ids{5};
    CHECK_FALSE(engine.prepare(input).ok());

    folder.write(prompts, R"({"prompts": {"query": "who sat "}, "default_prompt_name": "query"})");
    Engine with_default(config_of(folder.path()));
    CHECK(ids_of(with_default, std::nullopt) == begun);
    CHECK(ids_of(with_default, "") == plain);
    folder.write("1_Pooling/config.json", R"({"pooling_mode": "mean", "include_prompt": false})");
    Engine without(config_of(folder.path()));
    CHECK(ids_of(without, std::nullopt) == Ids{});
    CHECK(ids_of(without, "") == plain);
}

TEST_CASE("embeddings: the defaults are those of the model's authors, else by kind of model") {
    const auto defaults = [](const std::filesystem::path& model) {
        Engine engine(config_of(model));
        return engine.input_processor().default_pooling();
    };
    CHECK(defaults(kEmbeddings / "bert")->kind == PoolingKind::mean);
    CHECK(defaults(kEmbeddings / "bert")->normalize);
    CHECK(defaults(kEmbeddings / "roberta")->kind == PoolingKind::cls);
    CHECK(defaults(kEmbeddings / "roberta")->normalize);
    CHECK(defaults(kFamilies / "llama")->kind == PoolingKind::last);
    CHECK(defaults(kFamilies / "llama")->normalize);
    const test::TemporaryFolder folder;
    copy_model(kFamilies / "llama", folder);
    folder.write("1_Pooling/config.json", R"({"pooling_mode_max_tokens": true})");
    const auto refused = defaults(folder.path());
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.fault().message.find("pooling_mode_max_tokens") != std::string::npos);
}

std::string refusal(const Engine& engine, const RequestInput& input) {
    const auto request = engine.prepare(input);
    return request ? "nothing" : request.fault().message;
}

TEST_CASE("embeddings: what cannot be is refused, and nothing else suffers") {
    Engine engine(config_of(kEmbeddings / "roberta"));
    CHECK(engine.memory_plan().max_model_len == 64);
    CHECK(refusal(engine, story({5, 6}, 3)) ==
          "RobertaForMaskedLM makes embeddings and generates no text");
    CHECK(refusal(engine, embedding_of(Ids(65, 5), {})).find("65 tokens") != std::string::npos);
    CHECK(refusal(engine, embedding_of(Ids(64, 5), {})) == "nothing");
    CHECK(refusal(engine, embedding_of({}, {})).find("empty") != std::string::npos);
    CHECK(refusal(engine, embedding_of({5, 9999}, {})).find("9999") != std::string::npos);
    for (const int32_t dimensions : {0, -1, 33}) {
        CHECK(refusal(engine, embedding_of({5}, {.dimensions = dimensions})).find("1 to 32") !=
              std::string::npos);
    }
    CHECK(embed(engine, embedding_of(Ids(64, 5), {.dimensions = 32})).embedding.size() == 32);
    // A decoder answers as before; its longest prompt leaves room for a token only when one is
    // wanted.
    EngineConfig config = config_of(kFamilies / "llama");
    config.memory.max_model_len = 32;
    Engine decoder(config);
    CHECK(refusal(decoder, story(Ids(32, 5), 1)) != "nothing");
    CHECK(embed(decoder, embedding_of(Ids(32, 5), {})).embedding.size() == 64);
    CHECK(refusal(decoder, embedding_of(Ids(33, 5), {})) != "nothing");
}

TEST_CASE("embeddings: an encoder's step has room for its longest prompt, or prompts are shorter") {
    EngineConfig config = config_of(kEmbeddings / "bert");
    config.scheduling.scheduler.max_num_seqs = 8;
    const MemoryPlan usual = Engine::plan(config);
    CHECK(usual.max_model_len == 64);
    // Not what would fit: 8 prompts of the longest are all that one step can have.
    CHECK(usual.num_blocks == std::vector<int32_t>{8 * 64 / 16});
    config.scheduling.max_num_batched_tokens = 40;
    const MemoryPlan cut = Engine::plan(config);
    CHECK(cut.max_model_len == 40);
    REQUIRE(cut.notices.size() == 1);
    CHECK(cut.notices[0].find("from 64 to 40") != std::string::npos);
    Engine engine(config);
    CHECK(refusal(engine, embedding_of(Ids(41, 5), {})).find("--max-num-batched-tokens") !=
          std::string::npos);
    CHECK(embed(engine, embedding_of(Ids(40, 5), {})).embedding.size() == 32);
    config.memory.max_model_len = 64;
    CHECK_THROWS_WITH_AS(Engine{config}, doctest::Contains("--max-num-batched-tokens is 40"),
                         Error);
}

TEST_CASE("embeddings: hidden states that are no numbers are a fault of their request") {
    EngineConfig config = config_of(kEmbeddings / "bert");
    const test::TemporaryFolder folder;
    copy_model(kEmbeddings / "bert", folder);
    config.model.name = folder.path().string();
    // The embedding of token 9 becomes infinite.
    const SafetensorsFile file(folder.path() / "model.safetensors");
    const SafetensorsEntry* entry = file.find("embeddings.word_embeddings.weight");
    REQUIRE(entry != nullptr);
    const auto offset =
        static_cast<size_t>(reinterpret_cast<const char*>(file.view(*entry).as<float>() + 9 * 32) -
                            reinterpret_cast<const char*>(file.bytes().data()));
    std::string bytes = read_file(folder.path() / "model.safetensors");
    const float infinite = INFINITY;
    std::memcpy(bytes.data() + offset, &infinite, sizeof(infinite));
    folder.write("model.safetensors", bytes);
    Engine engine(config);
    const RequestOutput output = embed(engine, embedding_of({5, 9, 6}, {}));
    CHECK(output.embedding.empty());
    CHECK(output.continuations.at(0).finish_reason == FinishReason::error);
    CHECK(output.continuations.at(0).fault.has_value());
    CHECK(embed(engine, embedding_of({5, 6}, {})).embedding.size() == 32);
}

}  // namespace
}  // namespace nvllm
