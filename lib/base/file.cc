// POSIX file access with errors that name the file.
#include "lib/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "kernels/error.h"

namespace nvllm {
namespace {

// Closes on scope exit.
struct Descriptor {
    int fd = -1;
    ~Descriptor() {
        if (fd >= 0) ::close(fd);
    }
};

[[noreturn]] void throw_errno(const std::filesystem::path& path, const char* doing, int error) {
    const ErrorKind kind =
        (error == ENOENT || error == ENOTDIR) ? ErrorKind::not_found : ErrorKind::io;
    throw Error(kind, path.string() + ": cannot " + doing + ": " + std::strerror(error));
}

// Opens a regular file and gives its size.
int open_regular(const std::filesystem::path& path, uint64_t& size) {
    // Without O_NONBLOCK, opening a pipe would wait for its writer before it can be refused.
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) throw_errno(path, "open", errno);
    struct stat info {};
    if (::fstat(fd, &info) != 0) {
        const int error = errno;
        ::close(fd);
        throw_errno(path, "read its size", error);
    }
    if (!S_ISREG(info.st_mode)) {
        ::close(fd);
        throw Error(ErrorKind::io, path.string() + ": not a regular file");
    }
    size = static_cast<uint64_t>(info.st_size);
    return fd;
}

}  // namespace

std::string read_file(const std::filesystem::path& path, uint64_t max_bytes) {
    uint64_t size = 0;
    const Descriptor file{open_regular(path, size)};
    if (size > max_bytes) {
        throw Error(ErrorKind::does_not_fit, path.string() + ": has " + std::to_string(size) +
                                                 " bytes, at most " + std::to_string(max_bytes) +
                                                 " are read");
    }
    std::string text(size, '\0');
    size_t filled = 0;
    while (filled < text.size()) {
        const ssize_t got = ::read(file.fd, text.data() + filled, text.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw_errno(path, "read", errno);
        if (got == 0) break;
        filled += static_cast<size_t>(got);
    }
    text.resize(filled);
    return text;
}

void write_file(const std::filesystem::path& path, std::string_view text) {
    std::ofstream stream(path, std::ios::binary | std::ios::trunc);
    if (!stream) throw Error(ErrorKind::cannot_create, path.string() + ": cannot be written");
    stream << text;
    stream.close();
    if (!stream) throw Error(ErrorKind::io, path.string() + ": cannot be written in full");
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
    uint64_t size = 0;
    const Descriptor file{open_regular(path, size)};
    size_ = size;
    if (size_ == 0) return;
    void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.fd, 0);
    if (memory == MAP_FAILED) throw_errno(path, "map", errno);
    data_ = static_cast<const std::byte*>(memory);
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace nvllm
