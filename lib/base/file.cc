// POSIX file access with errors that name the file.
#include "lib/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "kernels/error.h"
#include "lib/base/fault_points.h"

namespace nvllm {
namespace {

[[noreturn]] void throw_errno(const std::filesystem::path& path, const char* doing, int error) {
    const ErrorKind kind =
        (error == ENOENT || error == ENOTDIR) ? ErrorKind::not_found : ErrorKind::io;
    throw Error(kind, path.string() + ": cannot " + doing + ": " + std::strerror(error));
}

// Opens a regular file and gives its size.
OwnedDescriptor open_regular(const std::filesystem::path& path, uint64_t& size) {
    // Without O_NONBLOCK, opening a pipe would wait for its writer before it can be refused.
    OwnedDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file) throw_errno(path, "open", errno);
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) throw_errno(path, "read its size", errno);
    if (!S_ISREG(info.st_mode)) {
        throw Error(ErrorKind::io, path.string() + ": not a regular file");
    }
    size = static_cast<uint64_t>(info.st_size);
    return file;
}

// A system call that may fill the disk, or the error that a test injects.
template <typename Call>
auto attempt(Call call) -> decltype(call()) {
    const int injected = fault_point("file.write").error_number;
    if (injected == 0) return call();
    errno = injected;
    return -1;
}

// `kind`: of what has nothing to do with the disk.
[[noreturn]] void fail_to(const std::filesystem::path& path, const char* doing, ErrorKind kind) {
    const int error = errno;
    const bool is_disk = error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO;
    throw Error(is_disk ? ErrorKind::io : kind,
                path.string() + ": cannot " + doing + ": " + std::strerror(error));
}

void write_all(int fd, const std::filesystem::path& path, const void* data, size_t bytes) {
    const char* cursor = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t written =
            attempt([&] { return ::write(fd, cursor, std::min(bytes, size_t{1} << 30)); });
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) fail_to(path, "write", ErrorKind::io);
        cursor += written;
        bytes -= static_cast<size_t>(written);
    }
}

// Names in the folder survive a power cut; file systems that cannot do that lose nothing by it.
void sync_folder(const std::filesystem::path& folder) {
    const OwnedDescriptor file(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC));
    if (file) ::fsync(file.get());
}

}  // namespace

std::string read_file(const std::filesystem::path& path, uint64_t max_bytes) {
    uint64_t size = 0;
    const OwnedDescriptor file = open_regular(path, size);
    if (size > max_bytes) {
        throw Error(ErrorKind::does_not_fit, path.string() + ": has " + std::to_string(size) +
                                                 " bytes, at most " + std::to_string(max_bytes) +
                                                 " are read");
    }
    std::string text(size, '\0');
    size_t filled = 0;
    while (filled < text.size()) {
        const ssize_t got = ::read(file.get(), text.data() + filled, text.size() - filled);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) throw_errno(path, "read", errno);
        if (got == 0) break;
        filled += static_cast<size_t>(got);
    }
    text.resize(filled);
    return text;
}

void write_file(const std::filesystem::path& path, std::string_view text) {
    const OwnedDescriptor file(attempt(
        [&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); }));
    if (!file) fail_to(path, "create", ErrorKind::cannot_create);
    write_all(file.get(), path, text.data(), text.size());
}

NewFile::NewFile(const std::filesystem::path& target)
    : target_(target), path_(target.string() + "." + std::to_string(::getpid()) + ".part") {
    file_ = OwnedDescriptor(attempt(
        [&] { return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644); }));
    if (!file_) fail_to(path_, "create", ErrorKind::cannot_create);
}

NewFile::~NewFile() {
    if (!published_) ::unlink(path_.c_str());
}

void NewFile::write(const void* data, size_t bytes) { write_all(file_.get(), path_, data, bytes); }

void NewFile::publish() {
    if (attempt([&] { return ::fsync(file_.get()); }) != 0) fail_to(path_, "flush", ErrorKind::io);
    rename_path(path_, target_);
    published_ = true;
}

void write_new_file(const std::filesystem::path& path, std::string_view text) {
    NewFile file(path);
    file.write(text.data(), text.size());
    file.publish();
}

void copy_to_new_file(const std::filesystem::path& from, const std::filesystem::path& to) {
    const MappedFile source(from);
    NewFile file(to);
    file.write(source.bytes().data(), source.size());
    file.publish();
}

void make_folder(const std::filesystem::path& path) {
    std::error_code error;
    const int made = attempt([&] {
        std::filesystem::create_directories(path, error);
        errno = error.value();
        return error ? -1 : 0;
    });
    if (made != 0) fail_to(path, "create the folder", ErrorKind::cannot_create);
}

void rename_path(const std::filesystem::path& from, const std::filesystem::path& to) {
    if (attempt([&] { return ::rename(from.c_str(), to.c_str()); }) != 0) {
        fail_to(to, "move to this name", ErrorKind::cannot_create);
    }
    sync_folder(to.parent_path());
}

bool FolderLock::take(const std::filesystem::path& folder) {
    OwnedDescriptor file(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!file) throw_errno(folder, "open", errno);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
    folder_ = std::move(file);
    return true;
}

MappedFile::MappedFile(const std::filesystem::path& path) : path_(path) {
    uint64_t size = 0;
    const OwnedDescriptor file = open_regular(path, size);
    size_ = size;
    if (size_ == 0) return;
    void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) throw_errno(path, "map", errno);
    data_ = static_cast<const std::byte*>(memory);
}

MappedFile::~MappedFile() {
    if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace nvllm
