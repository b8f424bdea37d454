// The folder of the disk tier: which contents it holds, and where new ones are written.
//
// Values lie in segments (NAME.kv), which are written from the front and never changed; what they
// hold is told by a log beside each (NAME.log), to which a record is added once its values are
// there. A process writes to segments of its own, and reads those of all: several may share a
// folder. Logs are read when the folder is opened and as they grow, up to the first record that is
// not whole. A process that needs room removes the segments that were used least recently, those of
// others too.
//
// The folder is one of many below the one that the user names: FOLDER/IDENTITY, where the identity
// is a digest of all that keys and values depend on. A random key of the folder, made by who comes
// first, takes the place of the prefix cache's own: block keys stay the same from process to
// process.
//
// Nothing here is believed: a record says what its block should be, and BlockFiles compares the
// digests of its values when they are read. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/owned_descriptor.h"
#include "lib/cache/prefix/siphash.h"
#include "lib/cache/tiers/disk_log.h"
#include "lib/cache/tiers/disk_move.h"

namespace nvllm {

struct DiskStoreConfig {
    std::filesystem::path folder;  // that the user names
    std::string identity;          // text: what keys and values depend on
    uint64_t limit_bytes = 0;      // of all segments of this identity
};

class DiskStore {
  public:
    // Makes the folder where it is missing, and reads its logs. Throws cannot_create or io when it
    // cannot be made, read or written to; files in it that are not understood are left alone.
    explicit DiskStore(const DiskStoreConfig& config);
    DiskStore(const DiskStore&) = delete;
    DiskStore& operator=(const DiskStore&) = delete;

    // With the segments.
    const std::filesystem::path& folder() const { return folder_; }
    const HashKey& hash_key() const { return hash_key_; }

    // Whether a record has this key; cheap.
    bool knows(int32_t group, const BlockKey& key) const {
        return find_entry(group, key) != nullptr;
    }
    // Where the content lies, if its record says the same of it.
    std::optional<DiskPlace> find(int32_t group, const BlockKey& key, const BlockKey& parent,
                                  std::span<const int32_t> tokens, std::string_view extra) const;
    // The values were not what the record says.
    void forget(int32_t group, const BlockKey& key);
    // The segment was used.
    void touch(uint64_t segment);

    // A place for so many bytes, which become the caller's; nothing: there is none, of which the
    // log has told.
    std::optional<DiskPlace> reserve(uint64_t bytes);
    // The values are at `place`: from now on the content is found, by other processes too.
    void commit(uint64_t segment, const DiskRecord& record);

    // Nothing more is written to the segment, if it is this process's.
    void leave_segment(uint64_t segment) {
        if (own_ == segment) own_ = 0;
    }
    // Writes zeros over bytes of a block, so that it is not believed any more.
    void destroy(const DiskPlace& place, uint64_t first, uint64_t bytes) const;

    // Reads what others have added, and leaves out what they have removed.
    void refresh();

    int64_t num_contents() const { return num_contents_; }
    uint64_t bytes() const;
    size_t num_segments() const { return segments_.size(); }

  private:
    struct Segment {
        OwnedDescriptor log;
        uint64_t log_bytes = 0;  // read so far
        uint64_t bytes = 0;      // of values, when it was looked at last
        int64_t last_use = 0;    // its time of change, ns
        bool is_foreign = false;
    };
    struct Entry {
        int32_t group = 0;
        uint64_t segment = 0;
        uint64_t log_offset = 0;  // of its record
        uint64_t offset = 0;      // of its values
    };
    struct KeyHash {
        size_t operator()(const BlockKey& key) const { return static_cast<size_t>(key.low); }
    };

    std::filesystem::path path_of(uint64_t segment, const char* suffix) const;
    void read_log(uint64_t name, Segment& segment);
    const Entry* find_entry(int32_t group, const BlockKey& key) const;
    void add(const DiskRecord& record, const Entry& entry);
    bool begin_segment();
    void make_room(uint64_t bytes);
    void remove_segment(uint64_t name);
    void say_once(const std::string& message);

    uint64_t limit_bytes_;
    uint64_t segment_bytes_;
    uint64_t identity_ = 0;
    std::filesystem::path folder_;
    HashKey hash_key_;
    std::map<uint64_t, Segment> segments_;
    std::unordered_map<BlockKey, std::vector<Entry>, KeyHash> entries_;
    int64_t num_contents_ = 0;
    uint64_t own_ = 0;        // the segment that is written to; 0: none yet
    uint64_t own_bytes_ = 0;  // of it, that are taken
    bool has_said_ = false;
};

}  // namespace nvllm
