// Token ids and texts that other tokenizers gave, for the vocabularies of the shared data.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/tokenizer/detokenizer.h"
#include "lib/tokenizer/tokenizer.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

using Ids = std::vector<int32_t>;

// Which folder of the shared data has a vocabulary, by the names the cases use.
const std::map<std::string, std::string> kFolders = {
    {"gpt-2", "gpt2"},
    {"openai-community/gpt2", "gpt2"},
    {"Xenova/gpt2", "gpt2"},
    {"llama-bpe", "llama3"},
    {"Xenova/llama3-tokenizer", "llama3"},
    {"Xenova/llama3-tokenizer-new", "llama3"},
    {"llama-spm", "llama2"},
    {"phi-3", "llama2"},
    {"Xenova/llama-tokenizer", "llama2"},
    {"qwen2", "qwen2"},
    {"deepseek-r1-qwen", "qwen2"},
    {"Xenova/Qwen1.5-0.5B-Chat", "qwen2"},
    {"bert-bge", "bert-base-uncased"},
    {"Xenova/bert-base-uncased", "bert-base-uncased"},
    {"Xenova/gpt-4o", "o200k_base"},
};

std::shared_ptr<const Tokenizer> tokenizer(const std::string& folder) {
    static std::map<std::string, std::shared_ptr<const Tokenizer>> loaded;
    auto& slot = loaded[folder];
    if (!slot) slot = Tokenizer::load(test::shared_data("tokenizers") / folder);
    REQUIRE(slot);
    return slot;
}

std::string streamed(const std::shared_ptr<const Tokenizer>& tokenizer, const Ids& ids, bool skip) {
    Detokenizer stream(tokenizer, skip);
    std::string text;
    for (const int32_t id : ids) text += stream.append(id);
    return text + stream.finish();
}

template <typename Visit>
void each_line(const std::filesystem::path& path, Visit&& visit) {
    std::ifstream file(path);
    REQUIRE(file.good());
    for (std::string line; std::getline(file, line);) visit(nlohmann::json::parse(line));
}

TEST_CASE("tokenizer cases: llama.cpp") {
    const auto folder = test::shared_data("tokenizers/cases");
    if (folder.empty()) return;
    size_t compared = 0;
    each_line(folder / "llamacpp.jsonl", [&](const nlohmann::json& entry) {
        const auto known = kFolders.find(entry["vocab"].get<std::string>());
        if (known == kFolders.end()) return;
        const std::string text = entry["text"];
        CAPTURE(known->first);
        CAPTURE(text);
        EncodeOptions options;
        options.add_special_tokens = false;
        CHECK(tokenizer(known->second)->encode(text, options) == entry["ids"].get<Ids>());
        ++compared;
    });
    std::cout << "tokenizer cases: llama.cpp: " << compared << " compared\n";
    CHECK(compared > 100);
}

TEST_CASE("tokenizer cases: transformers.js") {
    const auto folder = test::shared_data("tokenizers/cases");
    if (folder.empty()) return;
    size_t compared = 0;
    each_line(folder / "transformersjs.jsonl", [&](const nlohmann::json& entry) {
        const std::string model = entry["model"];
        const auto known = kFolders.find(model);
        if (known == kFolders.end() || entry.contains("text_pair")) return;
        const std::string text = entry["text"];
        CAPTURE(model);
        CAPTURE(text);
        EncodeOptions options;
        // The publisher's first file for Llama 3 put no BOS in front; the second does.
        options.add_special_tokens = model != "Xenova/llama3-tokenizer";
        CHECK(tokenizer(known->second)->encode(text, options) == entry["ids"].get<Ids>());
        ++compared;
    });
    std::cout << "tokenizer cases: transformers.js: " << compared << " compared\n";
    CHECK(compared > 100);
}

TEST_CASE("tokenizer cases: the SentencePiece library") {
    const auto folder = test::shared_data("tokenizers/cases");
    if (folder.empty()) return;
    EncodeOptions options;
    options.add_special_tokens = false;
    options.recognise_special_tokens = false;
    each_line(folder / "sentencepiece_unigram.jsonl", [&](const nlohmann::json& entry) {
        const auto model = tokenizer("sentencepiece-unigram-1k");
        const std::string text = entry["text"];
        CAPTURE(text);
        CHECK(model->encode(text, options) == entry["ids"].get<Ids>());
        CHECK(model->decode(entry["ids"].get<Ids>(), false) == entry["decoded"].get<std::string>());
    });
    size_t compared = 0;
    each_line(folder / "naughty_sentencepiece.jsonl", [&](const nlohmann::json& entry) {
        const std::string text = entry["text"];
        CAPTURE(text);
        for (const char* name : {"llama2", "mistral-v1"}) {
            CHECK(tokenizer(name)->encode(text, options) == entry[name].get<Ids>());
            ++compared;
        }
    });
    std::cout << "tokenizer cases: SentencePiece: " << compared << " compared\n";
}

TEST_CASE("tokenizer cases: any text survives byte-level tokenizers") {
    const auto text_folder = test::shared_data("text");
    if (text_folder.empty()) return;
    EncodeOptions options;
    options.add_special_tokens = false;
    each_line(text_folder / "naughty_strings.jsonl", [&](const nlohmann::json& entry) {
        const std::string text = entry["text"];
        for (const char* name : {"gpt2", "llama3", "o200k_base"}) {
            const auto model = tokenizer(name);
            const Ids ids = model->encode(text, options);
            CHECK(model->decode(ids, false) == text);
            CHECK(streamed(model, ids, false) == text);
        }
    });
}

// Lines of {"text", "ids", "decoded", "skipped"} from scripts/fixtures/tokenizer_fuzz.py.
TEST_CASE("tokenizer cases: lines from another tokenizer") {
    const char* model_path = std::getenv("NVLLM_FUZZ_TOKENIZER");
    const char* lines = std::getenv("NVLLM_FUZZ_LINES");
    if (model_path == nullptr || lines == nullptr) return;
    const bool is_directory = std::filesystem::is_directory(model_path);
    const auto model =
        is_directory ? Tokenizer::load(model_path) : Tokenizer::load_file(model_path);
    size_t compared = 0;
    size_t different = 0;
    const auto report = [&](const char* what, const std::string& text, const auto& ours,
                            const auto& theirs) {
        if (ours == theirs) return;
        if (++different > 20) return;
        std::cout << "[" << what << "] " << nlohmann::json(text).dump() << "\n  ours   "
                  << nlohmann::json(ours).dump(-1, ' ', false,
                                               nlohmann::json::error_handler_t::replace)
                  << "\n  theirs " << nlohmann::json(theirs).dump() << "\n";
    };
    each_line(lines, [&](const nlohmann::json& entry) {
        const std::string text = entry["text"];
        const Ids ids = entry["ids"];
        report("encode", text, model->encode(text), ids);
        if (entry.contains("decoded")) {
            report("decode", text, model->decode(ids, false), entry["decoded"].get<std::string>());
            report("skip", text, streamed(model, ids, true), entry["skipped"].get<std::string>());
        }
        ++compared;
    });
    std::cout << compared << " lines compared, " << different << " differences\n";
    CHECK(different == 0);
}

}  // namespace
}  // namespace nvllm
