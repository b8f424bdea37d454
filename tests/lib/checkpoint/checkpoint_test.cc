// Model directories: single files, shards with an index, and what is missing or foreign.
#include "lib/checkpoint/checkpoint.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstring>

#include "kernels/error.h"
#include "tests/lib/checkpoint/temporary_folder.h"

namespace nvllm {
namespace {

using test::TemporaryFolder;

constexpr float kValues[] = {1.0f, 2.0f, 3.0f, 4.0f};

void write_tensors(const TemporaryFolder& folder, const std::string& file,
                   const std::vector<std::string>& names) {
    std::vector<TensorToWrite> tensors;
    for (const std::string& name : names) {
        tensors.push_back({name, ConstTensorView(kValues, DType::f32, {2, 2})});
    }
    write_safetensors(folder.path() / file, tensors);
}

void write_index(const TemporaryFolder& folder, const std::string& weight_map) {
    folder.write("model.safetensors.index.json",
                 R"({"metadata":{"total_size":32},"weight_map":)" + weight_map + "}");
}

struct Refusal {
    ErrorKind kind = ErrorKind::internal;
    std::string message;
};

Refusal refusal(const TemporaryFolder& folder) {
    try {
        Checkpoint::open(folder.path());
    } catch (const Error& error) {
        return {error.kind(), error.what()};
    }
    return {};
}

void check_refused(const TemporaryFolder& folder, ErrorKind kind,
                   std::initializer_list<const char*> parts) {
    const Refusal found = refusal(folder);
    CHECK(found.kind == kind);
    for (const char* part : parts) {
        CHECK_MESSAGE(found.message.find(part) != std::string::npos, found.message);
    }
}

TEST_CASE("checkpoint: one file, and tensors that outlive it") {
    const TemporaryFolder folder;
    write_tensors(folder, "model.safetensors", {"b", "a"});
    std::optional<Tensor> kept;
    {
        const Checkpoint checkpoint = Checkpoint::open(folder.path());
        CHECK(checkpoint.names() == std::vector<std::string_view>{"a", "b"});
        CHECK(checkpoint.num_files() == 1);
        CHECK(checkpoint.data_bytes() == 32);
        CHECK(!checkpoint.find("c").has_value());
        CHECK(!checkpoint.tensor("c").has_value());
        CHECK(checkpoint.file_of("a") == (folder.path() / "model.safetensors").string());
        checkpoint.prefetch();
        kept = checkpoint.tensor("b");
    }
    REQUIRE(kept.has_value());
    CHECK(std::memcmp(kept->view().data, kValues, sizeof(kValues)) == 0);
}

TEST_CASE("checkpoint: shards are joined by the index") {
    const TemporaryFolder folder;
    write_tensors(folder, "model-00001-of-00002.safetensors", {"a", "b"});
    write_tensors(folder, "model-00002-of-00002.safetensors", {"c"});
    write_index(folder, R"({"a":"model-00001-of-00002.safetensors",
        "b":"model-00001-of-00002.safetensors","c":"model-00002-of-00002.safetensors"})");
    const Checkpoint checkpoint = Checkpoint::open(folder.path());
    CHECK(checkpoint.num_files() == 2);
    CHECK(checkpoint.names().size() == 3);
    CHECK(checkpoint.find("c")->describe() == "float32[2, 2]");
    CHECK(checkpoint.file_of("c").ends_with("model-00002-of-00002.safetensors"));
}

TEST_CASE("checkpoint: all missing shards are named") {
    const TemporaryFolder folder;
    write_tensors(folder, "s1.safetensors", {"a"});
    write_index(folder, R"({"a":"s1.safetensors","b":"s2.safetensors","c":"s3.safetensors"})");
    check_refused(folder, ErrorKind::not_found,
                  {"2 of 3 weight files are missing", "s2.safetensors, s3.safetensors"});
}

TEST_CASE("checkpoint: all incomplete shards are reported with their sizes") {
    const TemporaryFolder folder;
    for (const char* name : {"s1.safetensors", "s2.safetensors"}) {
        write_tensors(folder, name, {name});
        std::filesystem::resize_file(folder.path() / name,
                                     std::filesystem::file_size(folder.path() / name) - 1);
    }
    write_index(folder, R"({"s1.safetensors":"s1.safetensors","s2.safetensors":"s2.safetensors"})");
    check_refused(folder, ErrorKind::bad_data,
                  {"2 of 2 weight files are unusable", "s1.safetensors", "s2.safetensors",
                   "download it again", "need 16 bytes"});
}

TEST_CASE("checkpoint: an index may name plain files of its own folder only") {
    for (const char* name :
         {"../other.safetensors", "/etc/passwd", "sub/x.safetensors", "..", "",
          ".hidden.safetensors", "x.bin", "a\\\\b.safetensors", "x\\u0000.safetensors"}) {
        CAPTURE(name);
        const TemporaryFolder folder;
        write_index(folder, std::string(R"({"a":")") + name + "\"}");
        check_refused(folder, ErrorKind::bad_data, {"only plain names"});
    }
}

TEST_CASE("checkpoint: a broken index is refused") {
    for (const char* index : {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{}})",
                              R"({"weight_map":{"a":1}})", "{\"weight_map\":"}) {
        CAPTURE(index);
        const TemporaryFolder folder;
        folder.write("model.safetensors.index.json", index);
        check_refused(folder, ErrorKind::bad_data, {"model.safetensors.index.json"});
    }
}

TEST_CASE("checkpoint: an index that does not fit its files is refused") {
    const TemporaryFolder folder;
    write_tensors(folder, "s1.safetensors", {"a"});
    write_index(folder, R"({"a":"s1.safetensors","b":"s1.safetensors"})");
    const Checkpoint checkpoint = Checkpoint::open(folder.path());  // perhaps nobody needs it
    CHECK_FALSE(checkpoint.find("b").has_value());
    CHECK(checkpoint.promised_file("b") == "s1.safetensors");
    CHECK(checkpoint.promised_file("a").empty());

    write_tensors(folder, "s2.safetensors", {"b"});
    write_index(folder, R"({"a":"s2.safetensors","b":"s1.safetensors"})");
    check_refused(folder, ErrorKind::bad_data, {"tensor \"a\" should be in s2.safetensors"});

    write_tensors(folder, "s2.safetensors", {"a"});
    write_index(folder, R"({"a":"s1.safetensors","b":"s2.safetensors"})");
    check_refused(folder, ErrorKind::bad_data, {"\"a\" is in two files"});
}

TEST_CASE("checkpoint: a shard that is a pipe is refused") {
    const TemporaryFolder folder;
    REQUIRE(::mkfifo((folder.path() / "s1.safetensors").c_str(), 0600) == 0);
    write_index(folder, R"({"a":"s1.safetensors"})");
    check_refused(folder, ErrorKind::bad_data, {"not a regular file"});
}

TEST_CASE("checkpoint: what else lies in the folder decides what is said") {
    const std::pair<const char*, const char*> cases[] = {
        {"pytorch_model.bin", "never read"},
        {"consolidated.00.pth", "never read"},
        {"model.gguf", "GGUF is not read"},
        {"model-00001-of-00002.safetensors", "download the index file too"},
        {"notes.txt", "has neither model.safetensors"},
    };
    for (const auto& [file, part] : cases) {
        CAPTURE(file);
        const TemporaryFolder folder;
        folder.write(file, "x");
        check_refused(folder, ErrorKind::not_found, {part});
    }
}

}  // namespace
}  // namespace nvllm
