// Texts of every kind become samples.
#include "lib/quantize/calibration.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "lib/base/file.h"
#include "tests/error_of.h"
#include "tests/lib/quantize/folder.h"

namespace nvllm::quantize {
namespace {

std::shared_ptr<const Tokenizer> demo_tokenizer() {
    return Tokenizer::load(std::filesystem::path(NVLLM_SOURCE_DIR) / "models" / "demo");
}

std::vector<std::string> texts_of(const CalibrationOptions& options) {
    const ConversationRenderer renderer(demo_tokenizer(), "llama", "");
    std::vector<std::string> texts;
    for (const CalibrationText& text : read_calibration_texts(options, renderer)) {
        texts.push_back(text.text);
    }
    return texts;
}

TEST_CASE("the bundled text calibrates any model") {
    const CalibrationSet set = make_calibration_set({}, *demo_tokenizer(), "llama");
    CHECK(set.num_tokens > 20000);
    CHECK(set.longest == 2048);
    CHECK(set.description.find("the bundled text") == 0);
}

TEST_CASE("lines of JSON: text, messages by the template, and a format of one's own") {
    const test::Folder folder;
    const std::string file = (folder.path() / "a.jsonl").string();
    write_file(
        file,
        "{\"text\": \"A dog.\"}\n\n{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}\n");
    CalibrationOptions options;
    options.files = {file};
    const std::vector<std::string> texts = texts_of(options);
    REQUIRE(texts.size() == 2);
    CHECK(texts[0] == "A dog.");
    CHECK(texts[1].find("Hi") != std::string::npos);
    CHECK(texts[1] != "Hi");
    write_file(file, "{\"question\": \"Why?\", \"number\": 4}\n");
    options.format = "Q: {question} {{{number}}}";
    CHECK(texts_of(options) == std::vector<std::string>{"Q: Why? {4}"});
    options.format = "{answer}";
    CHECK(test::error_of(ErrorKind::bad_data, [&] { texts_of(options); }).find("a.jsonl:1") !=
          std::string::npos);
}

TEST_CASE("a .json file is a list of objects or texts, one object, or an object a line") {
    const test::Folder folder;
    CalibrationOptions options;
    const auto of = [&](const char* content) {
        const std::string file = (folder.path() / "a.json").string();
        write_file(file, content);
        options.files = {file};
        return texts_of(options);
    };
    CHECK(of("[{\"text\": \"A\"},\n \"B\"]") == std::vector<std::string>{"A", "B"});
    CHECK(of("{\n\"text\": \"A\"\n}") == std::vector<std::string>{"A"});
    CHECK(of("{\"text\": \"A\"}\n{\"text\": \"B\"}\n") == std::vector<std::string>{"A", "B"});
    const std::string message =
        test::error_of(ErrorKind::bad_data, [&] { of("[{\"text\": \"A\"}, {\"body\": 1}]"); });
    CHECK(message.find("a.json: item 2: has neither") != std::string::npos);
}

TEST_CASE("files of other formats are refused by the format's name, with what to do") {
    const test::Folder folder;
    using namespace std::string_literals;
    for (const auto& [begin, says] : std::vector<std::pair<std::string, const char*>>{
             {"PAR1\x15\x04"s, "is Parquet; "},
             {"\x1f\x8b\x08\0"s, "is compressed (gzip); "},
             {"\x28\xb5\x2f\xfd"s, "is compressed (zstd); "},
             {"PK\x03\x04"s, "is a zip archive; "},
             {"ARROW1\0\0"s, "is Arrow; "},
             {"\xff\xfeO\0n\0"s, "is text in UTF-16; "},
             {"some text \0 and no text"s, "is no text; "}}) {
        const std::string file = (folder.path() / "data.txt").string();
        write_file(file, begin + "more");
        CalibrationOptions options;
        options.files = {file};
        const std::string message = test::error_of(ErrorKind::bad_data, [&] { texts_of(options); });
        INFO(message);
        CHECK(message.find("data.txt: "s + says) != std::string::npos);
    }
}

TEST_CASE("folders give their files by name") {
    const test::Folder folder;
    write_file(folder.path() / "b.txt", "second");
    write_file(folder.path() / "a.txt", "first");
    CalibrationOptions options;
    options.files = {folder.path().string()};
    CHECK(texts_of(options) == std::vector<std::string>{"first", "second"});
}

TEST_CASE("samples are full but for the last, or one of each text") {
    CalibrationOptions options;
    options.max_seq_length = 500;
    options.num_samples = 7;
    const CalibrationSet joined = make_calibration_set(options, *demo_tokenizer(), "llama");
    CHECK(joined.samples.size() == 7);
    for (const auto& sample : joined.samples) CHECK(sample.size() == 500);
    options.concatenates = false;
    options.shuffles = false;
    options.num_samples = 40;
    const CalibrationSet apart = make_calibration_set(options, *demo_tokenizer(), "llama");
    CHECK(apart.samples.size() == 40);
    CHECK(std::any_of(apart.samples.begin(), apart.samples.end(),
                      [](const auto& sample) { return sample.size() < 300; }));
}

TEST_CASE("the order depends on the seed and on nothing else") {
    CalibrationOptions options;
    const auto order = [&](uint64_t seed) {
        options.seed = seed;
        return make_calibration_set(options, *demo_tokenizer(), "llama").samples;
    };
    CHECK(order(1) == order(1));
    CHECK(order(1) != order(2));
}

TEST_CASE("too little text says how much is missing") {
    const test::Folder folder;
    write_file(folder.path() / "a.txt", "A dog.");
    CalibrationOptions options;
    options.files = {(folder.path() / "a.txt").string()};
    const std::string error = test::error_of(
        ErrorKind::bad_data, [&] { make_calibration_set(options, *demo_tokenizer(), "llama"); });
    CHECK(error.find("at least 1024 are needed") != std::string::npos);
    CHECK(error.find("tokens or more") != std::string::npos);
}

}  // namespace
}  // namespace nvllm::quantize
