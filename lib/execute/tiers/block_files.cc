// One block after another.
#include "lib/execute/tiers/block_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "kernels/host/start_thread.h"
#include "lib/base/digest.h"
#include "lib/base/fault_points.h"

namespace nvllm {
namespace {

constexpr size_t kMostOpenFiles = 64;

// False where not all of it could be.
bool read_all(int file, std::byte* to, size_t bytes, uint64_t offset) {
    while (bytes > 0) {
        const ssize_t count = ::pread(file, to, bytes, static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        to += count;
        offset += static_cast<uint64_t>(count);
        bytes -= static_cast<size_t>(count);
    }
    return true;
}

bool write_all(int file, const std::byte* from, size_t bytes, uint64_t offset) {
    while (bytes > 0) {
        if (fault_point("file.write").error_number != 0) return false;
        const ssize_t count = ::pwrite(file, from, bytes, static_cast<off_t>(offset));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return false;
        from += count;
        offset += static_cast<uint64_t>(count);
        bytes -= static_cast<size_t>(count);
    }
    return true;
}

uint64_t digest_of(const BlockRun& run, int64_t piece, const std::byte* block, uint64_t seed) {
    const auto before = static_cast<uint64_t>(run.first_piece + piece);
    return fast_digest(block + run.memory + static_cast<size_t>(piece) * run.piece_bytes,
                       run.piece_bytes, seed + before);
}

}  // namespace

BlockFiles::BlockFiles(std::filesystem::path folder, std::vector<BlockFileLayout> layouts,
                       std::function<std::byte*(int32_t, HostBlockId)> host_block)
    : folder_(std::move(folder)),
      layouts_(std::move(layouts)),
      host_block_(std::move(host_block)),
      thread_(start_thread([this] { run(); })) {}

BlockFiles::~BlockFiles() {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

std::filesystem::path BlockFiles::path_of(const std::filesystem::path& folder, uint64_t segment) {
    return folder / fmt::format("{:016x}.kv", segment);
}

void BlockFiles::add(std::span<const DiskMove> reads, std::span<const DiskMove> writes) {
    if (reads.empty() && writes.empty()) return;
    {
        const std::lock_guard lock(mutex_);
        reads_.insert(reads_.end(), reads.begin(), reads.end());
        writes_.insert(writes_.end(), writes.begin(), writes.end());
    }
    changed_.notify_all();
}

std::vector<DiskEvent> BlockFiles::take_events(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    const auto has_ended = [this] {
        return !done_.empty() || (!is_busy_ && reads_.empty() && writes_.empty());
    };
    if (most.count() > 0) changed_.wait_for(lock, most, has_ended);
    return std::exchange(done_, {});
}

void BlockFiles::clear() {
    std::unique_lock lock(mutex_);
    reads_.clear();
    writes_.clear();
    changed_.wait(lock, [this] { return !is_busy_; });
    done_.clear();
}

void BlockFiles::run() {
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return is_ending_ || !reads_.empty() || !writes_.empty(); });
        if (is_ending_) return;
        const bool is_read = !reads_.empty();
        std::deque<DiskMove>& moves = is_read ? reads_ : writes_;
        const DiskMove move = moves.front();
        moves.pop_front();
        is_busy_ = true;
        lock.unlock();
        const bool succeeded = is_read ? read(move) : write(move);
        lock.lock();
        is_busy_ = false;
        done_.push_back({is_read, move.number, succeeded});
        changed_.notify_all();
    }
}

bool BlockFiles::read(const DiskMove& move) {
    const int file = file_of(move.place.segment, false);
    if (file < 0) return false;
    const BlockFileLayout& layout = layouts_.at(static_cast<size_t>(move.group));
    std::byte* const block = host_block_(move.group, move.host_block);
    for (const BlockRun& run : layout.runs) {
        const auto count = static_cast<size_t>(run.num_pieces);
        digests_.resize(count);
        const uint64_t digests = layout.value_bytes + run.first_piece * sizeof(uint64_t);
        if (!read_all(file, block + run.memory, count * run.piece_bytes,
                      move.place.offset + run.file) ||
            !read_all(file, reinterpret_cast<std::byte*>(digests_.data()), count * sizeof(uint64_t),
                      move.place.offset + digests)) {
            return false;
        }
        for (int64_t piece = 0; piece < run.num_pieces; ++piece) {
            if (digests_[static_cast<size_t>(piece)] != digest_of(run, piece, block, move.seed)) {
                return false;
            }
        }
    }
    return true;
}

bool BlockFiles::write(const DiskMove& move) {
    const int file = file_of(move.place.segment, true);
    if (file < 0) return false;
    const BlockFileLayout& layout = layouts_.at(static_cast<size_t>(move.group));
    const std::byte* const block = host_block_(move.group, move.host_block);
    for (const BlockRun& run : layout.runs) {
        const auto count = static_cast<size_t>(run.num_pieces);
        digests_.resize(count);
        for (int64_t piece = 0; piece < run.num_pieces; ++piece) {
            digests_[static_cast<size_t>(piece)] = digest_of(run, piece, block, move.seed);
        }
        const uint64_t digests = layout.value_bytes + run.first_piece * sizeof(uint64_t);
        if (!write_all(file, block + run.memory, count * run.piece_bytes,
                       move.place.offset + run.file) ||
            !write_all(file, reinterpret_cast<const std::byte*>(digests_.data()),
                       count * sizeof(uint64_t), move.place.offset + digests)) {
            return false;
        }
    }
    return true;
}

// The file that was used least recently is closed when there are too many. -1: it is gone.
int BlockFiles::file_of(uint64_t segment, bool is_written) {
    OpenFile& open = files_[segment];
    open.last_use = ++num_uses_;
    if (!open.file || (is_written && !open.is_written)) {
        const int flags = (is_written ? O_RDWR : O_RDONLY) | O_CLOEXEC;
        open.file = OwnedDescriptor(::open(path_of(folder_, segment).c_str(), flags));
        open.is_written = is_written;
    }
    const int file = open.file.get();
    if (files_.size() > kMostOpenFiles) {
        files_.erase(std::ranges::min_element(files_, {},
                                              [](const auto& one) { return one.second.last_use; }));
    }
    return file;
}

}  // namespace nvllm
