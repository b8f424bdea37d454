// Folders and files that are no models that can be read: each in a sentence with what to do.
#include "lib/checkpoint/foreign_models.h"

#include <doctest/doctest.h>

#include "kernels/error.h"
#include "lib/checkpoint/model_config.h"
#include "tests/lib/checkpoint/temporary_folder.h"

namespace nvllm {
namespace {

using test::TemporaryFolder;

// What is said of a folder with these files.
std::string said_of(std::initializer_list<const char*> files) {
    const TemporaryFolder folder;
    for (const char* file : files) folder.write(file, "x");
    return why_no_model_folder(folder.path());
}

void check_says(const std::string& said, const std::string& part) {
    CHECK_MESSAGE(said.find(part) != std::string::npos, said);
}

TEST_CASE("foreign models: folders") {
    check_says(said_of({}), "is empty");
    check_says(said_of({"adapter_config.json", "adapter_model.safetensors"}), "LoRA adapter");
    check_says(said_of({"README.md", "model-Q4_0.gguf"}), "model-Q4_0.gguf; GGUF is not read");
    check_says(said_of({"model.onnx", "genai_config.json"}), "ONNX is not read");
    check_says(said_of({"consolidated.00.pth", "params.json"}), "pickled weights");
    check_says(said_of({"model_index.json", "unet/config.json"}), "diffusers");
    check_says(said_of({"a/config.json", "b/config.json", "notes.txt"}), "in its folders: a, b");
    check_says(said_of({"refs/main", "snapshots/0123/x"}), "snapshots (0123)");
    check_says(said_of({"models--org--name/refs/main"}), "HF_HUB_CACHE");
    check_says(said_of({"notes.txt"}), "no Hugging Face checkpoint; it holds notes.txt");
}

TEST_CASE("foreign models: a config that is not there") {
    const TemporaryFolder folder;
    folder.write("adapter_config.json", "{}");
    CHECK_THROWS_WITH_AS(read_model_config(folder.path(), {}), doctest::Contains("adapter"), Error);
    folder.write("config.json", "{}");
    CHECK_NOTHROW(require_config(folder.path()));
}

TEST_CASE("foreign models: files by their ending, and by their first bytes") {
    const TemporaryFolder folder;
    check_says(why_no_model_file(folder.write("a.onnx", "x")), "ONNX is not read");
    check_says(why_no_model_file(folder.write("pytorch_model.bin", "x")), "pickled");
    check_says(why_no_model_file(folder.write("m.zip", "x")), "unpack it");
    check_says(why_no_model_file(folder.write("blob", "GGUF and more")), "GGUF is not read");
    check_says(why_no_model_file(folder.write("blob2", "x")), "give the folder");
}

TEST_CASE("foreign models: what may be a name on the hub is not judged") {
    for (const char* name : {"org/name", "gpt2", "org/name@v1", "./folder", "../a:b", "/a:b"}) {
        CHECK(!why_no_hub_name(name));
    }
}

}  // namespace
}  // namespace nvllm
