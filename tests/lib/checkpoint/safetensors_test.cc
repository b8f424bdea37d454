// The safetensors reader against every way a file can lie, and the writer against the reader.
#include "lib/checkpoint/safetensors.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "tests/lib/base/base64.h"
#include "tests/lib/checkpoint/temporary_folder.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

using test::TemporaryFolder;

// A whole file: length, header, data.
std::string file_of(const std::string& header, const std::string& data) {
    const uint64_t length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    return bytes + header + data;
}

SafetensorsHeader parse(const std::string& bytes) {
    return parse_safetensors_header(std::as_bytes(std::span(bytes)), "x.safetensors");
}

// The message of the refusal; empty when the file was accepted.
std::string refusal(const std::string& bytes) {
    try {
        parse(bytes);
        return "";
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_data);
        return error.what();
    }
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

// The most memory this process has had so far.
int64_t peak_kilobytes() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

struct Case {
    const char* header;
    const char* data;
    const char* message;  // part of it; empty: accepted
};

TEST_CASE("safetensors: small cases") {
    const Case cases[] = {
        {R"({})", "", ""},
        {R"({"t":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}   )", "abcd", ""},
        {R"({"t":{"dtype":"U8","shape":[0,7],"data_offsets":[0,0]}})", "", ""},
        {R"({"__metadata__":{"format":"pt"},"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
         "x", ""},
        {R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},
             "a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
         "xy", ""},
        {R"([])", "", "does not start with '{'"},
        {R"( {})", "", "does not start with '{'"},
        {R"({}x)", "", "not valid JSON"},
        {R"({"t":1})", "", "number where it is not expected"},
        {R"({"t":[]})", "", "list where it is not expected"},
        {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
             "t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
         "xy", "\"t\" is there twice"},
        {R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x", "twice"},
        {R"({"__metadata__":{"a":"b","a":"c"}})", "", "twice"},
        {R"({"__metadata__":{},"__metadata__":{}})", "", "two __metadata__"},
        {R"({"__metadata__":{"a":1}})", "", "number"},
        {R"({"__metadata__":{"a":{}}})", "", "an object where a value"},
        {R"({"t":{"dtype":"U4","shape":[1],"data_offsets":[0,1]}})", "x", "unknown dtype \"U4\""},
        {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"extra":"x"}})", "x",
         "unknown field \"extra\""},
        {R"({"t":{"dtype":"U8","shape":[-1],"data_offsets":[0,1]}})", "x", "negative number"},
        {R"({"t":{"dtype":"U8","shape":[1.0],"data_offsets":[0,1]}})", "x", "not a whole number"},
        {R"({"t":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", "x", "list where it is not"},
        {R"({"t":{"dtype":"U8","shape":null,"data_offsets":[0,1]}})", "x", "null"},
        {R"({"t":{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]}})", "x",
         "above 2^63"},
        {R"({"t":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", "",
         "its data has 0 bytes"},
        {R"({"t":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", "x",
         "more than 8 axes"},
        {R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "abcd",
         "tensor \"t\" is float32[2], but its data has 4 bytes"},
        {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "xy", "ends at 0"},
        {R"({"t":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}})", "x", "download it again"},
        {R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "xyz",
         "2 bytes lie after the last tensor"},
        {R"({"a\u0000b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x", "zero byte"},
    };
    for (const Case& item : cases) {
        CAPTURE(std::string(item.header));
        const std::string message = refusal(file_of(item.header, item.data));
        if (item.message[0] == '\0') {
            CHECK(message == "");
        } else {
            CHECK_MESSAGE(contains(message, item.message), message);
            CHECK(contains(message, "x.safetensors"));
        }
    }
}

TEST_CASE("safetensors: names have a limit, and foreign bytes in messages are escaped") {
    const auto named = [](const std::string& name) {
        return file_of("{\"" + name + R"(":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x");
    };
    CHECK(refusal(named(std::string(512, 'n'))) == "");
    CHECK(contains(refusal(named(std::string(513, 'n'))), "513 bytes"));
    const std::string bell = file_of(R"({"\u0007":{"dtype":"F9"}})", "");
    CHECK(contains(refusal(bell), "\"\\x07\""));
}

TEST_CASE("safetensors: nesting is refused before it costs anything") {
    const std::string deep = "{\"t\":" + std::string(1 << 20, '[');
    CHECK(contains(refusal(file_of(deep, "")), "a list where it is not expected"));
    std::string objects = "{\"t\":{\"shape\":";
    for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
    CHECK(contains(refusal(file_of(objects, "")), "an object where a value"));
}

TEST_CASE("safetensors: announced lengths are compared with the file, never allocated") {
    CHECK(contains(refusal(""), "has 0; download it again"));
    CHECK(contains(refusal(std::string(7, '\0')), "has 7; download it again"));
    CHECK(contains(refusal(std::string(8, '\xff')), "announces a header of 18446744073709551615"));
    const std::string cut = file_of(R"({"t":1})", "").substr(0, 12);
    CHECK(contains(refusal(cut), "15 bytes are expected, the file has 12"));
    CHECK(contains(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:0"),
                   "git lfs pull"));
}

// Every cut and every flipped bit of a real header: refused or read, never a crash, and cuts always
// refused.
TEST_CASE("safetensors: truncated and flipped files") {
    const std::string whole = file_of(
        R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]}})",
        std::string(32, 'd'));
    REQUIRE(refusal(whole) == "");
    for (size_t length = 0; length < whole.size(); ++length) {
        CHECK(refusal(whole.substr(0, length)) != "");
    }
    for (size_t byte = 0; byte < whole.size() - 32; ++byte) {
        for (int bit = 0; bit < 8; ++bit) {
            std::string flipped = whole;
            flipped[byte] = static_cast<char>(flipped[byte] ^ (1 << bit));
            refusal(flipped);
        }
    }
}

TEST_CASE("safetensors: the shared malformed files") {
    const auto folder = test::shared_data("malformed");
    if (folder.empty()) return;
    std::ifstream lines(folder / "safetensors.jsonl");
    const int64_t before = peak_kilobytes();
    int count = 0;
    for (std::string line; std::getline(lines, line); ++count) {
        const nlohmann::json item = nlohmann::json::parse(line);
        CAPTURE(item.at("name").get<std::string>());
        const auto start = std::chrono::steady_clock::now();
        const std::string bytes = test::decode_base64(item.at("bytes_base64").get<std::string>());
        const std::string message = refusal(bytes);
        const std::string expect = item.at("expect");
        if (expect == "accept") CHECK(message == "");
        if (expect == "reject") CHECK(message != "");
        CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(1));
    }
    CHECK(count >= 30);
    CHECK(peak_kilobytes() - before < 64 * 1024);
}

TEST_CASE("safetensors: as many tensors as are allowed, and one more") {
    const auto header_with = [](size_t count) {
        std::string header = "{";
        for (size_t i = 0; i < count; ++i) {
            if (i > 0) header += ',';
            header +=
                '"' + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
        }
        return header + "}";
    };
    CHECK(parse(file_of(header_with(kMaxSafetensorsTensors), "")).entries.size() ==
          kMaxSafetensorsTensors);
    CHECK(contains(refusal(file_of(header_with(kMaxSafetensorsTensors + 1), "")),
                   "more than 1000000 tensors"));
}

TEST_CASE("safetensors: only regular files are opened") {
    const TemporaryFolder folder;
    const auto pipe = folder.path() / "pipe.safetensors";
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    CHECK_THROWS_WITH_AS(SafetensorsFile{pipe}, doctest::Contains("not a regular file"), Error);
    CHECK_THROWS_AS(SafetensorsFile{folder.path() / "missing"}, Error);
}

TEST_CASE("safetensors: what is written is read back") {
    const TemporaryFolder folder;
    const auto path = folder.path() / "out.safetensors";
    const std::vector<uint8_t> bytes = {1, 2, 3};
    const std::vector<float> floats = {1.5f, -0.0f, 3.0f, 4.0f};
    const std::vector<TensorToWrite> tensors = {
        {"odd \"name\"\n", ConstTensorView(bytes.data(), DType::u8, {3})},
        {"floats", ConstTensorView(floats.data(), DType::f32, {2, 2})},
        {"scalar", ConstTensorView(floats.data(), DType::f32, {})},
        {"empty", ConstTensorView(floats.data(), DType::bf16, {0, 5})},
    };
    write_safetensors(path, tensors, {{"format", "pt"}});
    const SafetensorsFile file(path);
    CHECK(file.metadata().at("format") == "pt");
    CHECK(file.entries().size() == 4);
    const ConstTensorView view = file.view(*file.find("floats"));
    CHECK(view.describe() == "float32[2, 2]");
    CHECK(std::memcmp(view.data, floats.data(), sizeof(float) * 4) == 0);
    CHECK(reinterpret_cast<uintptr_t>(view.data) % 4 == 0);
    CHECK(std::memcmp(file.view(*file.find("odd \"name\"\n")).data, bytes.data(), 3) == 0);
    CHECK(file.view(*file.find("scalar")).rank == 0);
    CHECK(file.find("nothing") == nullptr);
}

TEST_CASE("safetensors: writing is all or nothing") {
    const TemporaryFolder folder;
    const auto path = folder.write("out.safetensors", "old");
    const auto names = [&] {
        size_t count = 0;
        for ([[maybe_unused]] const auto& item :
             std::filesystem::directory_iterator(folder.path())) {
            ++count;
        }
        return count;
    };
    const std::vector<float> values(1 << 20);
    const TensorToWrite tensor{"t", ConstTensorView(values.data(), DType::f32, {1 << 20})};
    // A file-size limit fails the write in the middle.
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{4096, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    ::signal(SIGXFSZ, SIG_IGN);
    CHECK_THROWS_AS(write_safetensors(path, std::span(&tensor, 1)), Error);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK(names() == 1);
    CHECK(std::filesystem::file_size(path) == 3);
    write_safetensors(path, std::span(&tensor, 1));
    CHECK(names() == 1);
    CHECK_THROWS_AS(write_safetensors(folder.path() / "no" / "folder", std::span(&tensor, 1)),
                    Error);
}

}  // namespace
}  // namespace nvllm
