// Files: reading and writing whole ones, mapping large ones, checking that they exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace nvllm {

// The whole file. Throws not_found when it does not exist, does_not_fit when it is larger than
// max_bytes, io otherwise.
std::string read_file(const std::filesystem::path& path, uint64_t max_bytes = uint64_t{1} << 30);

// Replaces the file's content. Throws cannot_create when it cannot be opened, io when not all of it
// could be written.
void write_file(const std::filesystem::path& path, std::string_view text);

// A read-only mapping of a whole file; its real size at the time of mapping is what size() says.
// Pages are shared with the page cache and are read when touched. Thread-safe once made.
class MappedFile {
  public:
    // Throws not_found or io, with the path in the message.
    explicit MappedFile(const std::filesystem::path& path);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    std::span<const std::byte> bytes() const { return {data_, size_}; }
    size_t size() const { return size_; }
    const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
    const std::byte* data_ = nullptr;
    size_t size_ = 0;
};

}  // namespace nvllm
