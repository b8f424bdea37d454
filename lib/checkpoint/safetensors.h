// Reading and writing safetensors files: a checked header and the mapped bytes behind it.
//
// Layout: 8 bytes header length (little endian), a JSON object, then the data of all tensors
// without holes. Nothing announced by a file is believed before it was compared with the file's
// real length.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/view.h"
#include "lib/base/file.h"

namespace nvllm {

constexpr uint64_t kMaxSafetensorsHeaderBytes = uint64_t{64} << 20;
constexpr size_t kMaxSafetensorsTensors = 1'000'000;
constexpr size_t kMaxSafetensorsNameBytes = 512;
constexpr size_t kMaxSafetensorsRank = 8;

// One tensor as the header describes it; offsets count from the start of the file.
struct SafetensorsEntry {
    std::string name;
    DType dtype = DType::f32;
    uint8_t rank = 0;
    std::array<int64_t, kMaxSafetensorsRank> shape{};
    uint64_t begin = 0;
    uint64_t end = 0;

    // "float32[2, 3]", for messages.
    std::string describe() const;
};

struct SafetensorsHeader {
    std::vector<SafetensorsEntry> entries;  // by name, ascending
    std::map<std::string, std::string> metadata;
    uint64_t data_begin = 0;
};

// The checked header of a whole file's bytes. Throws bad_data that names `file_name`, what is wrong
// and, where the file is too short, how long it should be.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file,
                                           const std::string& file_name);

// A tensor's bytes in its whole file's, as they lie, possibly at an odd address. Throws bad_data
// that names the file when its rank is above kMaxRank.
ConstTensorView safetensors_view(const SafetensorsEntry& entry, std::span<const std::byte> file,
                                 const std::string& file_name);

// A mapped file. Immutable and thread-safe; views point into the mapping and need the file to stay
// alive.
class SafetensorsFile {
  public:
    // Throws not_found, io or bad_data.
    explicit SafetensorsFile(const std::filesystem::path& path);

    const std::filesystem::path& path() const { return file_.path(); }
    std::span<const SafetensorsEntry> entries() const { return header_.entries; }
    const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
    std::span<const std::byte> bytes() const { return file_.bytes(); }

    // Null when there is no tensor of this name.
    const SafetensorsEntry* find(std::string_view name) const;
    // As safetensors_view().
    ConstTensorView view(const SafetensorsEntry& entry) const {
        return safetensors_view(entry, file_.bytes(), path().string());
    }

  private:
    MappedFile file_;
    SafetensorsHeader header_;
};

struct TensorToWrite {
    std::string name;
    ConstTensorView view;  // contiguous
};

// Writes `path` whole or not at all, as NewFile does and with its errors. Data starts at a multiple
// of 64 and wider types come first, so that every value is aligned.
void write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace nvllm
