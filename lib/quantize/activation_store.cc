// Memory, or a mapping of a file that is gone with the process.
#include "lib/quantize/activation_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "kernels/error.h"
#include "lib/base/fault_points.h"
#include "lib/system/memory_info.h"

namespace nvllm::quantize {

ActivationStore::ActivationStore(const std::vector<std::vector<int32_t>>& samples,
                                 int64_t hidden_size, const std::filesystem::path& spill_folder)
    : hidden_size_(hidden_size), starts_{0} {
    for (const std::vector<int32_t>& sample : samples) {
        starts_.push_back(starts_.back() + static_cast<int64_t>(sample.size()));
    }
    bytes_ = bytes_of(starts_.back(), hidden_size);
    if (spill_folder.empty() || bytes_ == 0) {
        memory_ = Tensor::allocate(DType::f32, {std::max<int64_t>(1, starts_.back()), hidden_size});
    } else {
        map_file(spill_folder);
    }
}

ActivationStore::~ActivationStore() {
    if (mapped_ != nullptr) ::munmap(mapped_, bytes_);
}

void ActivationStore::map_file(const std::filesystem::path& folder) {
    std::string name = (folder / "activations.XXXXXX").string();
    const int fd = ::mkostemp(name.data(), O_CLOEXEC);
    const auto fail = [&](const char* doing, int error) {
        if (fd >= 0) ::close(fd);
        throw Error(
            ErrorKind::io,
            fmt::format("{}: cannot {} a file of {} bytes for activations: {}; name another "
                        "folder (--offload-dir) or calibrate with less (--num-samples)",
                        folder.string(), doing, bytes_, std::strerror(error)));
    };
    if (fd < 0) fail("create", errno);
    ::unlink(name.c_str());
    // A hole would become a bus error on a full disk.
    const int pretended = fault_point("file.write").error_number;
    const int error =
        pretended != 0 ? pretended : ::posix_fallocate(fd, 0, static_cast<off_t>(bytes_));
    if (error != 0) fail("fill", error);
    void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) fail("map", errno);
    ::close(fd);
    mapped_ = static_cast<std::byte*>(memory);
}

TensorView ActivationStore::sample(size_t index) const {
    const int64_t first = starts_[index];
    const int64_t count = starts_[index + 1] - first;
    if (mapped_ == nullptr) return memory_.mutable_view().rows(first, count);
    return {mapped_ + bytes_of(first, hidden_size_), DType::f32, {count, hidden_size_}};
}

void ActivationStore::release(size_t index) const {
    if (mapped_ == nullptr) return;
    const TensorView view = sample(index);
    release_mapped_pages({view.as<std::byte>(), static_cast<size_t>(view.numel()) * sizeof(float)});
}

}  // namespace nvllm::quantize
