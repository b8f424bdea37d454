// Bytes as model.safetensors.index.json in a folder with one shard: opened or refused, and nothing
// outside is touched.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "kernels/error.h"
#include "lib/checkpoint/checkpoint.h"

namespace {

std::filesystem::path make_folder() {
    const auto folder =
        std::filesystem::temp_directory_path() / ("nvllm-index-fuzz-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    const float values[2] = {1.0f, 2.0f};
    const nvllm::TensorToWrite tensor{"t", nvllm::ConstTensorView(values, nvllm::DType::f32, {2})};
    nvllm::write_safetensors(folder / "a.safetensors", std::span(&tensor, 1));
    return folder;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const std::filesystem::path folder = make_folder();
    std::ofstream(folder / "model.safetensors.index.json", std::ios::binary)
        .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
    try {
        (void)nvllm::Checkpoint::open(folder).names();
    } catch (const nvllm::Error&) {
    }
    return 0;
}
