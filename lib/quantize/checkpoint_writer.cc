// Shards in the order of their tensors' names.
#include "lib/quantize/checkpoint_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/checkpoint/safetensors.h"
#include "lib/quantize/report.h"
#include "lib/system/memory_info.h"

namespace nvllm::quantize {
namespace {

namespace fs = std::filesystem;

uint64_t bytes_of(const ConstTensorView& view) {
    return static_cast<uint64_t>(view.numel()) * dtype_bytes(view.dtype);
}

// Where a tensor of the output comes from.
struct Place {
    std::string name;
    uint64_t bytes = 0;
    std::optional<size_t> block;  // empty: the source
};

class WeightWriter {
  public:
    WeightWriter(const Checkpoint& source, const Replacement& replacement, uint64_t shard_bytes)
        : source_(source), replacement_(replacement) {
        list_places();
        cut_shards(shard_bytes);
    }

    WrittenSizes write(const fs::path& folder) {
        nlohmann::ordered_json map = nlohmann::ordered_json::object();
        for (size_t shard = 0; shard + 1 < shards_.size(); ++shard) {
            const std::string name = file_name(shard);
            write_shard(shard, folder / name);
            for (size_t i = shards_[shard]; i < shards_[shard + 1]; ++i)
                map[places_[i].name] = name;
        }
        WrittenSizes sizes{source_.data_bytes(), 0};
        for (const Place& place : places_) sizes.written_bytes += place.bytes;
        if (shards_.size() > 2) {
            const nlohmann::ordered_json index = {
                {"metadata", {{"total_size", sizes.written_bytes}}}, {"weight_map", map}};
            write_new_file(folder / "model.safetensors.index.json", index.dump(2) + "\n");
        }
        return sizes;
    }

  private:
    void list_places() {
        for (const std::string_view name : source_.names()) {
            if (replacement_.replaced.contains(name)) continue;
            places_.push_back({std::string(name), bytes_of(*source_.find(name)), std::nullopt});
        }
        for (size_t block = 0; block < replacement_.num_blocks; ++block) {
            for (const NamedTensor& tensor : replacement_.tensors(block)) {
                places_.push_back({tensor.name, bytes_of(tensor.tensor.view()), block});
            }
        }
        std::sort(places_.begin(), places_.end(),
                  [](const Place& a, const Place& b) { return a.name < b.name; });
    }

    void cut_shards(uint64_t shard_bytes) {
        shards_ = {0};
        uint64_t bytes = 0;
        for (size_t i = 0; i < places_.size(); ++i) {
            if (i > shards_.back() && bytes + places_[i].bytes > shard_bytes) {
                shards_.push_back(i);
                bytes = 0;
            }
            bytes += places_[i].bytes;
        }
        shards_.push_back(places_.size());
    }

    std::string file_name(size_t shard) const {
        const size_t count = shards_.size() - 1;
        if (count == 1) return "model.safetensors";
        return fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, count);
    }

    void write_shard(size_t shard, const fs::path& file) {
        std::vector<NamedTensor> held;
        std::vector<TensorToWrite> tensors;
        std::optional<size_t> loaded;
        std::vector<NamedTensor> block;
        for (size_t i = shards_[shard]; i < shards_[shard + 1]; ++i) {
            const Place& place = places_[i];
            if (!place.block) {
                tensors.push_back({place.name, *source_.find(place.name)});
                continue;
            }
            if (loaded != place.block) {
                block = replacement_.tensors(*place.block);
                loaded = place.block;
            }
            const auto found =
                std::find_if(block.begin(), block.end(),
                             [&](const NamedTensor& tensor) { return tensor.name == place.name; });
            NVLLM_CHECK(found != block.end(), "a tensor that was listed is there");
            held.push_back(*found);
            tensors.push_back({place.name, found->tensor.view()});
        }
        write_safetensors(file, tensors, {{"format", "pt"}});
        for (const TensorToWrite& tensor : tensors) {
            if (!source_.find(tensor.name)) continue;
            release_mapped_pages({tensor.view.as<std::byte>(), bytes_of(tensor.view)});
        }
    }

    const Checkpoint& source_;
    const Replacement& replacement_;
    std::vector<Place> places_;
    std::vector<size_t> shards_;  // first place of each, and the end
};

bool is_weights(const fs::path& file) {
    static constexpr std::array<const char*, 8> kEndings = {
        ".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack", ".onnx"};
    const std::string ending = file.extension().string();
    return std::any_of(kEndings.begin(), kEndings.end(),
                       [&](const char* known) { return ending == known; }) ||
           file.filename().string().ends_with(".index.json");
}

// What the source said of its own weights, here or of its text part, is no longer true.
void erase_quantization(nlohmann::ordered_json& config) {
    for (const char* const key : {"quantization_config", "compression_config"}) config.erase(key);
    const auto text = config.find("text_config");
    if (text != config.end() && text->is_object()) erase_quantization(*text);
}

// Files about the source's own quantization.
bool is_about_quantization(const fs::path& file) {
    const fs::path name = file.filename();
    return name == "quantize_config.json" || name == "quant_config.json" || name == kReportFile;
}

}  // namespace

WrittenSizes write_weights(const Checkpoint& source, const Replacement& replacement,
                           const fs::path& folder, uint64_t shard_bytes) {
    return WeightWriter(source, replacement, shard_bytes).write(folder);
}

void write_config(const fs::path& source, const fs::path& folder,
                  const std::optional<QuantizationConfig>& config, bool unties) {
    const fs::path file = source / "config.json";
    nlohmann::ordered_json object = parse_ordered_json(read_file(file), file.string());
    erase_quantization(object);
    if (unties) object["tie_word_embeddings"] = false;
    if (config) object["quantization_config"] = quantization_config_json(*config);
    write_new_file(folder / "config.json", object.dump(2) + "\n");
}

void copy_companions(const fs::path& source, const fs::path& folder) {
    for (const fs::directory_entry& entry : fs::directory_iterator(source)) {
        const fs::path target = folder / entry.path().filename();
        const bool is_left_out = is_weights(entry.path()) || is_about_quantization(entry.path());
        if (!entry.is_regular_file() || is_left_out || fs::exists(target)) continue;
        copy_to_new_file(entry.path(), target);
    }
}

}  // namespace nvllm::quantize
