// Folders, segments and logs.
#include "lib/cache/tiers/disk_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

#include "kernels/error.h"
#include "lib/base/digest.h"
#include "lib/base/fault_points.h"
#include "lib/base/file.h"
#include "lib/base/log.h"

namespace nvllm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKeyName = "key";
constexpr const char* kIdentityName = "identity.txt";
constexpr const char* kLogSuffix = ".log";
constexpr const char* kValueSuffix = ".kv";
// Of what is removed at once; small enough that little is lost, large enough that files stay few.
constexpr uint64_t kSegmentShare = 16;
constexpr uint64_t kSmallestSegment = uint64_t{4} << 20;
constexpr uint64_t kLargestSegment = uint64_t{1} << 30;
constexpr size_t kMostSegments = 512;
// Blocks begin where pages do.
constexpr uint64_t kAlignment = 4096;
constexpr mode_t kOwnerOnly = 0600;

// Of an identity, to be a folder's name: no secret, so any key will do.
Hash128 hash_of(const std::string& text) {
    SipHash128 hash(HashKey{0x6e616e6f, 0x766c6c6d});
    hash.add(std::as_bytes(std::span(text)));
    return hash.finish();
}

// The value of a system call that may fill the disk, or what a test injects.
template <typename Call>
auto attempt(Call call) -> decltype(call()) {
    const int injected = fault_point("file.write").error_number;
    if (injected == 0) return call();
    errno = injected;
    return -1;
}

// False with errno where not all of it could be written.
bool write_all(int file, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t count = attempt([&] { return ::write(file, bytes.data(), bytes.size()); });
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return false;
        bytes.remove_prefix(static_cast<size_t>(count));
    }
    return true;
}

// Up to `bytes` from `offset` on; as many as could be read.
std::string read_at(int file, uint64_t offset, size_t bytes) {
    std::string text(bytes, '\0');
    size_t length = 0;
    while (length < bytes) {
        const ssize_t count = ::pread(file, text.data() + length, bytes - length,
                                      static_cast<off_t>(offset + length));
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) break;
        length += static_cast<size_t>(count);
    }
    text.resize(length);
    return text;
}

int64_t nanoseconds(const struct timespec& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

// The number that a file of a segment is named after.
std::optional<uint64_t> segment_of(const fs::path& path, const char* suffix) {
    const std::string name = path.filename().string();
    const std::string ending = suffix;
    if (name.size() != 16 + ending.size() || !name.ends_with(ending)) return std::nullopt;
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + 16, number, 16);
    if (error != std::errc() || end != name.data() + 16 || number == 0) return std::nullopt;
    return number;
}

// The file appears under its name whole, and the first one stays.
HashKey folder_key(const fs::path& folder) {
    const fs::path path = folder / kKeyName;
    const auto text_of = [](const HashKey& key) {
        const uint64_t check = digest(&key, sizeof(key));
        return fmt::format("{:016x} {:016x} {:016x}\n", key.low, key.high, check);
    };
    // A key that was damaged makes all logs those of another one.
    for (int trial = 0; trial < 3; ++trial) {
        if (std::error_code error; fs::exists(path, error)) {
            const std::string text = read_file(path, kAlignment);
            HashKey key;
            if (text.size() == text_of(key).size() &&
                std::from_chars(text.data(), text.data() + 16, key.low, 16).ptr ==
                    text.data() + 16 &&
                std::from_chars(text.data() + 17, text.data() + 33, key.high, 16).ptr ==
                    text.data() + 33 &&
                text == text_of(key)) {
                return key;
            }
            log_warning(
                fmt::format("{}: is damaged: a new one is made, and what the folder holds "
                            "is not used any more",
                            path.string()));
            fs::remove(path, error);
        }
        const fs::path made = folder / fmt::format("{}.{}.part", kKeyName, ::getpid());
        write_new_file(made, text_of(HashKey::random()));
        std::error_code error;
        fs::create_hard_link(made, path, error);
        // File systems without links: two that come at once may not share what they write.
        if (error && error != std::errc::file_exists) fs::rename(made, path, error);
        fs::remove(made, error);
        fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write, error);
    }
    throw Error(ErrorKind::io, path.string() + ": cannot be made");
}

}  // namespace

DiskStore::DiskStore(const DiskStoreConfig& config)
    : limit_bytes_(config.limit_bytes),
      segment_bytes_(
          std::clamp(config.limit_bytes / kSegmentShare, kSmallestSegment, kLargestSegment)) {
    const Hash128 name = hash_of(config.identity);
    make_folder(config.folder);
    folder_ = config.folder / fmt::format("{:016x}{:016x}", name.high, name.low);
    make_folder(folder_);
    hash_key_ = folder_key(folder_);
    identity_ = digest(&hash_key_, sizeof(hash_key_), name.low);
    const fs::path described = folder_ / kIdentityName;
    if (!fs::exists(described)) write_new_file(described, config.identity + "\n");
    refresh();
}

fs::path DiskStore::path_of(uint64_t segment, const char* suffix) const {
    return folder_ / fmt::format("{:016x}{}", segment, suffix);
}

const DiskStore::Entry* DiskStore::find_entry(int32_t group, const BlockKey& key) const {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return nullptr;
    const auto entry = std::ranges::find(found->second, group, &Entry::group);
    return entry == found->second.end() ? nullptr : &*entry;
}

std::optional<DiskPlace> DiskStore::find(int32_t group, const BlockKey& key, const BlockKey& parent,
                                         std::span<const int32_t> tokens,
                                         std::string_view extra) const {
    const Entry* entry = find_entry(group, key);
    if (entry == nullptr) return std::nullopt;
    DiskRecord expected{.group = group,
                        .offset = entry->offset,
                        .key = key,
                        .parent = parent,
                        .tokens = {tokens.begin(), tokens.end()},
                        .extra = std::string(extra)};
    std::string bytes;
    append_record(expected, bytes);
    const int log = segments_.at(entry->segment).log.get();
    if (read_at(log, entry->log_offset, bytes.size()) != bytes) return std::nullopt;
    return DiskPlace{entry->segment, entry->offset};
}

void DiskStore::forget(int32_t group, const BlockKey& key) {
    const auto found = entries_.find(key);
    if (found == entries_.end()) return;
    num_contents_ -= static_cast<int64_t>(
        std::erase_if(found->second, [&](const Entry& entry) { return entry.group == group; }));
    if (found->second.empty()) entries_.erase(found);
}

void DiskStore::touch(uint64_t segment) {
    ::utimensat(AT_FDCWD, path_of(segment, kValueSuffix).c_str(), nullptr, 0);
}

std::optional<DiskPlace> DiskStore::reserve(uint64_t bytes) {
    const uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (rounded > limit_bytes_) return std::nullopt;
    if (own_ == 0 || own_bytes_ + rounded > std::max(segment_bytes_, rounded)) {
        make_room(std::max(segment_bytes_, rounded));
        if (!begin_segment()) return std::nullopt;
    }
    const DiskPlace place{own_, own_bytes_};
    own_bytes_ += rounded;
    segments_.at(own_).bytes = own_bytes_;
    return place;
}

bool DiskStore::begin_segment() {
    own_ = 0;
    uint64_t name = 0;
    while (name == 0 || segments_.contains(name)) name = HashKey::random().low;
    const fs::path values = path_of(name, kValueSuffix);
    const fs::path log = path_of(name, kLogSuffix);
    constexpr int kMake = O_CREAT | O_EXCL | O_RDWR | O_APPEND | O_CLOEXEC;
    const OwnedDescriptor made(attempt([&] { return ::open(values.c_str(), kMake, kOwnerOnly); }));
    OwnedDescriptor made_log;
    if (made) {
        made_log = OwnedDescriptor(attempt([&] { return ::open(log.c_str(), kMake, kOwnerOnly); }));
    }
    const std::string header = log_header(identity_);
    if (!made || !made_log || !write_all(made_log.get(), header)) {
        say_once(
            fmt::format("{}: cannot write: {}; blocks of the prefix cache are not kept on disk "
                        "while that is so",
                        log.string(), std::strerror(errno)));
        ::unlink(values.c_str());
        ::unlink(log.c_str());
        return false;
    }
    Segment& segment = segments_[name];
    segment.log = std::move(made_log);
    segment.log_bytes = header.size();
    own_ = name;
    own_bytes_ = 0;
    return true;
}

void DiskStore::commit(uint64_t segment, const DiskRecord& record) {
    const auto found = segments_.find(segment);
    // Another process removed it.
    if (found == segments_.end()) return;
    Segment& own = found->second;
    std::string bytes;
    append_record(record, bytes);
    if (!write_all(own.log.get(), bytes)) {
        say_once(
            fmt::format("{}: cannot write: {}; blocks of the prefix cache are not kept on disk "
                        "while that is so",
                        path_of(segment, kLogSuffix).string(), std::strerror(errno)));
        // Nothing behind a record that is not whole would be read.
        if (own_ == segment) own_ = 0;
        return;
    }
    has_said_ = false;
    add(record, {record.group, segment, own.log_bytes, record.offset});
    own.log_bytes += bytes.size();
}

void DiskStore::destroy(const DiskPlace& place, uint64_t first, uint64_t bytes) const {
    const fs::path path = path_of(place.segment, kValueSuffix);
    const OwnedDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    const std::string zeros(bytes, '\0');
    if (file) {
        const ssize_t written =
            ::pwrite(file.get(), zeros.data(), bytes, static_cast<off_t>(place.offset + first));
        if (written == static_cast<ssize_t>(bytes)) return;
    }
    log_warning(fmt::format("{}: cannot write: {}; a block that may be wrong stays in it",
                            path.string(), std::strerror(errno)));
}

void DiskStore::add(const DiskRecord& record, const Entry& entry) {
    std::vector<Entry>& entries = entries_[record.key];
    const auto known = std::ranges::find(entries, entry.group, &Entry::group);
    if (known != entries.end()) {
        *known = entry;
        return;
    }
    entries.push_back(entry);
    ++num_contents_;
}

void DiskStore::refresh() {
    std::vector<uint64_t> gone;
    for (const auto& [name, segment] : segments_) gone.push_back(name);
    std::error_code error;
    for (fs::directory_iterator file(folder_, error), end; !error && file != end;
         file.increment(error)) {
        const auto name = segment_of(file->path(), kLogSuffix);
        if (!name) continue;
        struct stat values {};
        if (::stat(path_of(*name, kValueSuffix).c_str(), &values) != 0) continue;
        std::erase(gone, *name);
        Segment& segment = segments_[*name];
        if (*name != own_) segment.bytes = static_cast<uint64_t>(values.st_size);
        segment.last_use = nanoseconds(values.st_mtim);
        read_log(*name, segment);
    }
    if (error) return;
    for (const uint64_t name : gone) remove_segment(name);
}

void DiskStore::read_log(uint64_t name, Segment& segment) {
    if (!segment.log) {
        const fs::path path = path_of(name, kLogSuffix);
        segment.log = OwnedDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    }
    struct stat info {};
    if (!segment.log || ::fstat(segment.log.get(), &info) != 0) return;
    const auto size = static_cast<uint64_t>(info.st_size);
    if (segment.is_foreign || size <= segment.log_bytes) return;
    const std::string bytes = read_at(segment.log.get(), segment.log_bytes,
                                      static_cast<size_t>(size - segment.log_bytes));
    std::string_view rest = bytes;
    if (segment.log_bytes == 0) {
        if (rest.size() < kLogHeaderBytes) return;
        segment.is_foreign = !is_log_header(rest.substr(0, kLogHeaderBytes), identity_);
        if (segment.is_foreign) return;
        rest.remove_prefix(kLogHeaderBytes);
        segment.log_bytes = kLogHeaderBytes;
    }
    while (const std::optional<ReadRecord> read = read_record(rest)) {
        const DiskRecord& record = read->record;
        add(record, {record.group, name, segment.log_bytes, record.offset});
        segment.log_bytes += read->bytes;
        rest.remove_prefix(read->bytes);
    }
}

uint64_t DiskStore::bytes() const {
    uint64_t sum = 0;
    for (const auto& [name, segment] : segments_) sum += segment.bytes;
    return sum;
}

void DiskStore::make_room(uint64_t needed) {
    refresh();
    const auto is_short = [&] {
        return bytes() + needed > limit_bytes_ || segments_.size() >= kMostSegments;
    };
    while (is_short()) {
        auto oldest = segments_.end();
        for (auto one = segments_.begin(); one != segments_.end(); ++one) {
            if (oldest == segments_.end() || one->second.last_use < oldest->second.last_use) {
                oldest = one;
            }
        }
        if (oldest == segments_.end()) return;
        const uint64_t name = oldest->first;
        // The log first: a segment without one is not found.
        ::unlink(path_of(name, kLogSuffix).c_str());
        ::unlink(path_of(name, kValueSuffix).c_str());
        remove_segment(name);
    }
}

void DiskStore::remove_segment(uint64_t name) {
    segments_.erase(name);
    if (own_ == name) own_ = 0;
    for (auto one = entries_.begin(); one != entries_.end();) {
        num_contents_ -= static_cast<int64_t>(
            std::erase_if(one->second, [&](const Entry& entry) { return entry.segment == name; }));
        one = one->second.empty() ? entries_.erase(one) : std::next(one);
    }
}

void DiskStore::say_once(const std::string& message) {
    if (!std::exchange(has_said_, true)) log_warning(message);
}

}  // namespace nvllm
