// The weights of one model directory: one safetensors file, or shards joined by an index.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/checkpoint/safetensors.h"
#include "lib/tensor/tensor.h"

namespace nvllm {

// Immutable and thread-safe. Tensors taken from it keep the file they lie in mapped, even after the
// checkpoint is gone.
class Checkpoint {
  public:
    // Reads model.safetensors, else the shards of model.safetensors.index.json. Only headers are
    // read now; data is read when it is touched. Throws not_found (nothing there, shards missing)
    // or bad_data (broken files, or an index of others).
    static Checkpoint open(const std::filesystem::path& directory);
    // Whether there is something to open: false for a folder with, say, just a config.json.
    static bool is_present(const std::filesystem::path& directory);

    // The stored bytes, read-only. Empty when there is no such tensor.
    std::optional<ConstTensorView> find(std::string_view name) const;
    // The same as a tensor that keeps the mapping alive.
    std::optional<Tensor> tensor(std::string_view name) const;
    // What keeps a tensor's bytes mapped; null when there is no such tensor.
    std::shared_ptr<const SafetensorsFile> file(std::string_view name) const;
    // Where a tensor lies, for messages; the directory when there is no such tensor.
    std::string file_of(std::string_view name) const;
    // The shard that the index promises for a tensor that none has; empty: it promises none.
    std::string promised_file(std::string_view name) const;

    // Of all tensors, ascending.
    std::vector<std::string_view> names() const;
    size_t num_files() const { return files_.size(); }
    std::span<const std::shared_ptr<const SafetensorsFile>> files() const { return files_; }
    // Bytes of all tensors.
    uint64_t data_bytes() const;
    // Asks the system to read all files ahead.
    void prefetch() const;

  private:
    struct Row {
        const SafetensorsEntry* entry;
        uint32_t file;
    };

    void add_rows();
    // Throws bad_data when a tensor lies in another shard than this map says.
    void check_index(const std::map<std::string, std::string>& weights);
    const Row* row(std::string_view name) const;

    std::filesystem::path directory_;
    std::vector<std::shared_ptr<const SafetensorsFile>> files_;
    std::vector<Row> rows_;                                   // by name
    std::map<std::string, std::string, std::less<>> absent_;  // in no shard, though the index says
};

}  // namespace nvllm
