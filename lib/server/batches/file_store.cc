// A file is two: its content under its id, and a record beside it, written last.
#include "lib/server/batches/file_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <random>

#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/base/log.h"
#include "lib/server/batches/record_reader.h"
#include "lib/server/openai/response_fields.h"

namespace nvllm::server {

namespace fs = std::filesystem;

std::string new_id(std::string_view prefix) {
    using std::chrono::duration_cast, std::chrono::microseconds, std::chrono::system_clock;
    const auto now = duration_cast<microseconds>(system_clock::now().time_since_epoch());
    std::random_device device;
    return fmt::format("{}{:016x}{:08x}{:08x}", prefix, now.count(), device(), device());
}

FileStore::FileStore(fs::path folder, uint64_t max_bytes)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {
    make_folder(folder_);
    for (const auto& item : fs::directory_iterator(folder_)) {
        if (item.path().extension() != ".json") continue;
        try {
            const auto json = parse_ordered_json(read_file(item.path()), item.path().string());
            Entry entry{json.at("owner").get<std::string>(),
                        RecordReader::whole<StoredFile>(json.at("file"))};
            if (fs::exists(path_of(entry.file.id))) keep(std::move(entry));
        } catch (const std::exception& error) {
            log_warning(
                fmt::format("{} is no record of a file: {}", item.path().string(), error.what()));
        }
    }
}

void FileStore::write_record(const Entry& entry) const {
    write_new_file(record_path(entry.file.id),
                   fmt::format("{{\"owner\":{},\"file\":{}}}\n", json_quoted(entry.owner),
                               json_of(entry.file)));
}

void FileStore::keep(Entry entry) {
    const std::lock_guard lock(mutex_);
    num_bytes_ += static_cast<uint64_t>(entry.file.bytes);
    const std::string id = entry.file.id;
    entries_.emplace(id, std::move(entry));
}

Result<StoredFile> FileStore::add(const std::string& owner, std::string name, std::string purpose,
                                  std::string_view content) {
    {
        const std::lock_guard lock(mutex_);
        if (num_bytes_ + content.size() > max_bytes_) {
            return Fault{ErrorKind::does_not_fit,
                         fmt::format("the files of all clients would be {} bytes, and {} are "
                                     "allowed (--max-batch-storage): delete some",
                                     num_bytes_ + content.size(), max_bytes_),
                         "file", "storage_full"};
        }
    }
    Entry entry{owner, {}};
    entry.file.id = new_id("file-");
    entry.file.bytes = static_cast<int64_t>(content.size());
    entry.file.created_at = std::time(nullptr);
    entry.file.filename = std::move(name);
    entry.file.purpose = std::move(purpose);
    write_new_file(path_of(entry.file.id), content);
    write_record(entry);
    StoredFile file = entry.file;
    keep(std::move(entry));
    return file;
}

void FileStore::adopt(const std::string& owner, const std::string& id, std::string name,
                      std::string purpose, const fs::path& path) {
    if (find(owner, id)) return;
    Entry entry{owner, {}};
    entry.file.id = id;
    // A process that ended here before may have renamed the file and no more.
    if (fs::exists(path)) rename_path(path, path_of(id));
    entry.file.bytes = static_cast<int64_t>(fs::file_size(path_of(id)));
    entry.file.created_at = std::time(nullptr);
    entry.file.filename = std::move(name);
    entry.file.purpose = std::move(purpose);
    write_record(entry);
    keep(std::move(entry));
}

const FileStore::Entry* FileStore::find_locked(const std::string& owner,
                                               const std::string& id) const {
    const auto found = entries_.find(id);
    if (found == entries_.end() || found->second.owner != owner) return nullptr;
    return &found->second;
}

std::optional<StoredFile> FileStore::find(const std::string& owner, const std::string& id) const {
    const std::lock_guard lock(mutex_);
    const Entry* entry = find_locked(owner, id);
    if (entry == nullptr) return std::nullopt;
    return entry->file;
}

std::vector<StoredFile> FileStore::list(const std::string& owner) const {
    std::vector<StoredFile> files;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [id, entry] : entries_) {
            if (entry.owner == owner) files.push_back(entry.file);
        }
    }
    std::ranges::reverse(files);
    return files;
}

std::optional<std::string> FileStore::content(const std::string& owner,
                                              const std::string& id) const {
    if (!find(owner, id)) return std::nullopt;
    return read_file(path_of(id), max_bytes_);
}

bool FileStore::remove(const std::string& owner, const std::string& id) {
    {
        const std::lock_guard lock(mutex_);
        const Entry* entry = find_locked(owner, id);
        if (entry == nullptr) return false;
        num_bytes_ -= static_cast<uint64_t>(entry->file.bytes);
        entries_.erase(id);
    }
    std::error_code gone;  // what is left is no file of the store without its record
    fs::remove(record_path(id), gone);
    fs::remove(path_of(id), gone);
    return true;
}

}  // namespace nvllm::server
