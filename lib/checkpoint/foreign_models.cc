// Told by names of files and the first bytes of a file.
#include "lib/checkpoint/foreign_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

#include "kernels/error.h"
#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFetch =
    "'hf download org/name' brings the original's safetensors, and -m org/name takes them";

struct FormatRow {
    std::string_view ending;
    std::string_view what;  // after the file's name; {} is kFetch
};

constexpr auto kFormats = std::to_array<FormatRow>({
    {".gguf", "GGUF is not read: {}"},
    {".ggml", "GGML is not read: {}"},
    {".onnx", "ONNX is not read: {}"},
    {".tflite", "TFLite is not read: {}"},
    {".mlpackage", "Core ML is not read: {}"},
    {".engine", "TensorRT engines are not read: {}"},
    {".h5", "Keras weights are not read: {}"},
    {".msgpack", "Flax weights are not read: {}"},
    {".npz", "NumPy archives are not read: {}"},
    {".bin",
     "pickled weights can run code and are never read: {}, or convert them with "
     "save_pretrained of transformers"},
    {".pt", "pickled weights can run code and are never read: {}"},
    {".pth", "pickled weights can run code and are never read: {}"},
    {".pkl", "pickled weights can run code and are never read: {}"},
    {".ckpt", "pickled weights can run code and are never read: {}"},
    {".zip", "archives are not read: unpack it, and give the folder with config.json"},
    {".tar", "archives are not read: unpack it, and give the folder with config.json"},
    {".gz", "archives are not read: unpack it, and give the folder with config.json"},
});

std::string lower(std::string text) {
    std::ranges::transform(text, text.begin(), [](char letter) {
        return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    });
    return text;
}

bool begins_with_bytes(const fs::path& file, std::string_view magic) {
    std::ifstream stream(file, std::ios::binary);
    std::string begin(magic.size(), '\0');
    return stream.read(begin.data(), static_cast<std::streamsize>(begin.size())) && begin == magic;
}

// Sorted names of what a folder holds, hidden files apart.
std::vector<std::string> names_in(const fs::path& directory) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& item : fs::directory_iterator(directory, ignored)) {
        const std::string name = item.path().filename().string();
        if (!name.starts_with('.')) names.push_back(name);
    }
    std::ranges::sort(names);
    return names;
}

std::vector<std::string> folders_with(const fs::path& directory, const char* file) {
    std::vector<std::string> found;
    std::error_code ignored;
    for (const std::string& name : names_in(directory)) {
        if (fs::exists(directory / name / file, ignored)) found.push_back(name);
    }
    return found;
}

bool has(const fs::path& directory, const char* name) {
    std::error_code ignored;
    return fs::exists(directory / name, ignored);
}

std::string some_of(const std::vector<std::string>& names) {
    constexpr size_t kShown = 4;
    const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kShown));
    return fmt::format("{}{}", fmt::join(names.begin(), end, ", "),
                       names.size() > kShown ? ", ..." : "");
}

// "org/name" of "https://huggingface.co/org/name/tree/main"; empty when there is none.
std::string repository_in(std::string_view address) {
    const size_t first = address.find('/');
    if (first == std::string_view::npos) return {};
    const std::string_view path = address.substr(first + 1);
    const size_t second = path.find('/');
    if (second == std::string_view::npos || second == 0) return {};
    const size_t end = std::min(path.find_first_of("/:?#", second + 1), path.size());
    return std::string(path.substr(0, end));
}

std::string about_address(std::string_view address) {
    const bool is_hub = address.starts_with("huggingface.co/") || address.starts_with("hf.co/");
    const std::string repository = is_hub ? repository_in(address) : "";
    if (repository.empty()) {
        return "is an address, and nothing is downloaded: 'hf download org/name' brings a model of "
               "the Hugging Face hub, and -m org/name takes it";
    }
    return fmt::format(
        "is an address, and nothing is downloaded: 'hf download {0}' brings the "
        "model, and -m {0} takes it",
        repository);
}

}  // namespace

std::optional<std::string> about_weight_file(const fs::path& file) {
    const std::string ending = lower(file.extension().string());
    const auto row = std::ranges::find(kFormats, std::string_view(ending), &FormatRow::ending);
    if (row != kFormats.end()) return fmt::format(fmt::runtime(row->what), kFetch);
    if (begins_with_bytes(file, "GGUF")) return fmt::format("GGUF is not read: {}", kFetch);
    return std::nullopt;
}

std::string why_no_model_folder(const fs::path& directory) {
    const std::vector<std::string> names = names_in(directory);
    if (names.empty()) return "is empty, without a config.json: " + std::string(kFetch);
    if (has(directory, "adapter_config.json")) {
        return "holds a LoRA adapter (adapter_config.json) and no model: give its base model, and "
               "the adapter as --lora-modules NAME=FOLDER";
    }
    if (has(directory, "model_index.json")) {
        return "holds a pipeline of diffusers (model_index.json), and no model that writes text";
    }
    if (has(directory, "snapshots")) {
        return fmt::format(
            "is a model's folder in the Hugging Face cache: give the model's name, org/name, or "
            "one of its snapshots ({})",
            some_of(names_in(directory / "snapshots")));
    }
    for (const std::string& name : names) {
        if (!name.starts_with("models--")) continue;
        return "is a Hugging Face cache: name a model of it as org/name, with --download-dir or "
               "HF_HUB_CACHE for the folder";
    }
    for (const std::string& name : names) {
        const auto about = about_weight_file(directory / name);
        if (about) return fmt::format("has no config.json, and holds {}; {}", name, *about);
    }
    const std::vector<std::string> models = folders_with(directory, "config.json");
    if (!models.empty()) {
        return "has no config.json; there are models in its folders: " + some_of(models);
    }
    if (has(directory, "params.json")) {
        return "has no config.json; its params.json is of Meta's or Mistral's own format: give the "
               "repository that is made for transformers";
    }
    return fmt::format("has no config.json, so it is no Hugging Face checkpoint; it holds {}",
                       some_of(names));
}

std::string why_no_model_file(const fs::path& file) {
    if (const auto about = about_weight_file(file)) return "is a file, and " + *about;
    return fmt::format("is a file; give the folder that holds config.json and the weights{}",
                       has(file.parent_path(), "config.json")
                           ? ", " + file.parent_path().lexically_normal().string()
                           : "");
}

std::optional<std::string> why_no_hub_name(const std::string& model) {
    const size_t scheme = model.find("://");
    if (scheme != std::string::npos)
        return about_address(std::string_view(model).substr(scheme + 3));
    if (model.starts_with("hf.co/") || model.starts_with("huggingface.co/")) {
        return about_address(model);
    }
    const size_t colon = model.find(':');
    if (colon != std::string::npos && colon > 0 && model[0] != '.' && model[0] != '/') {
        const std::string name = model.substr(0, colon);
        if (name.find('/') == std::string::npos) {
            return "is a name of Ollama's library: find the model on huggingface.co, 'hf download "
                   "org/name' brings it, and -m org/name takes it";
        }
        return fmt::format("names a GGUF file of {0} by its tag, and GGUF is not read: {1}", name,
                           kFetch);
    }
    const fs::path path = model;
    if (path.extension() == ".safetensors") {
        return "no such file; give the folder that holds config.json and the weights";
    }
    for (const FormatRow& row : kFormats) {
        if (lower(path.extension().string()) != row.ending) continue;
        return fmt::format("no such file, and {}", fmt::format(fmt::runtime(row.what), kFetch));
    }
    return std::nullopt;
}

void require_config(const fs::path& directory) {
    std::error_code ignored;
    if (fs::exists(directory / "config.json", ignored)) return;
    throw Error(ErrorKind::not_found,
                fmt::format("{}: {}", directory.string(), why_no_model_folder(directory)));
}

}  // namespace nvllm
