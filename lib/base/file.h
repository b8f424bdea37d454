// Files: reading and writing whole ones, mapping large ones, checking that they exist.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/owned_descriptor.h"

namespace nvllm {

// The whole file. Throws not_found when it does not exist, does_not_fit when it is larger than
// max_bytes, io otherwise.
std::string read_file(const std::filesystem::path& path, uint64_t max_bytes = uint64_t{1} << 30);

// Replaces the file's content where it lies, which may be a pipe or a device. Throws cannot_create
// when it cannot be opened, io when not all of it could be written.
void write_file(const std::filesystem::path& path, std::string_view text);

// A file that appears under its name whole or not at all: it is written beside it (NAME.PID.part),
// flushed and renamed by publish(), and gone where that is never called. What was published
// survives a power cut. Its functions, and those below, throw io when the disk is full or broken,
// cannot_create when it is the name that is wrong.
class NewFile {
  public:
    explicit NewFile(const std::filesystem::path& target);
    ~NewFile();
    NewFile(const NewFile&) = delete;
    NewFile& operator=(const NewFile&) = delete;

    void write(const void* data, size_t bytes);
    void publish();

  private:
    std::filesystem::path target_;
    std::filesystem::path path_;
    OwnedDescriptor file_;
    bool published_ = false;
};

void write_new_file(const std::filesystem::path& path, std::string_view text);
// Throws also what reading throws.
void copy_to_new_file(const std::filesystem::path& from, const std::filesystem::path& to);
// With the folders above it; one that is there stays as it is.
void make_folder(const std::filesystem::path& path);
// Gives a file or a folder another name, which survives a power cut.
void rename_path(const std::filesystem::path& from, const std::filesystem::path& to);

// A folder that this process alone works in, for as long as this is there or the process lives.
// File systems that know no locks do not keep others out.
class FolderLock {
  public:
    // False while another one has it. Throws not_found or io when the folder cannot be opened.
    bool take(const std::filesystem::path& folder);

  private:
    OwnedDescriptor folder_;
};

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
