// The files that clients uploaded and those that batches made, in one folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/server/batches/batch_types.h"

namespace nvllm::server {

// `prefix` and 32 hexadecimal digits: half of them the time, so that ids of one prefix are in the
// order in which they were made, half random.
std::string new_id(std::string_view prefix);

// `owner`, everywhere: the name of the API key that the file belongs to, empty without keys. Others
// do not see it. Thread-safe. Functions that write throw io when the disk is full or broken.
class FileStore {
  public:
    // Reads what is there; a file without a readable record is left alone, with a line in the log.
    FileStore(std::filesystem::path folder, uint64_t max_bytes);

    // Survives a power cut once it has returned. A fault (does_not_fit) when all files together
    // would be larger than they may be.
    Result<StoredFile> add(const std::string& owner, std::string name, std::string purpose,
                           std::string_view content);
    // The same for a file on the same disk, which is renamed into the store as `id`. Nothing where
    // the store has that id already.
    void adopt(const std::string& owner, const std::string& id, std::string name,
               std::string purpose, const std::filesystem::path& path);

    std::optional<StoredFile> find(const std::string& owner, const std::string& id) const;
    // The newest first.
    std::vector<StoredFile> list(const std::string& owner) const;
    // Nothing when there is no such file.
    std::optional<std::string> content(const std::string& owner, const std::string& id) const;
    bool remove(const std::string& owner, const std::string& id);

  private:
    struct Entry {
        std::string owner;
        StoredFile file;
    };

    std::filesystem::path path_of(const std::string& id) const { return folder_ / id; }
    std::filesystem::path record_path(const std::string& id) const {
        return folder_ / (id + ".json");
    }
    void write_record(const Entry& entry) const;
    void keep(Entry entry);
    const Entry* find_locked(const std::string& owner, const std::string& id) const;

    const std::filesystem::path folder_;
    const uint64_t max_bytes_;
    mutable std::mutex mutex_;
    std::map<std::string, Entry> entries_;  // by id, so the oldest first
    uint64_t num_bytes_ = 0;                // of all files
};

}  // namespace nvllm::server
