// Blocks between host memory and the files of the disk tier, beside steps.
//
// One thread does what it is told in order, reads before writes. A block that is read is compared
// with its digests, whose seed is another one for another content: what was torn, written over or
// never written is no block. Used by the worker's thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "lib/base/owned_descriptor.h"
#include "lib/cache/tiers/disk_move.h"
#include "lib/execute/tiers/block_layout.h"

namespace nvllm {

class BlockFiles {
  public:
    // `layouts`: of each cache group. `host_block`: its memory; called by the thread.
    BlockFiles(std::filesystem::path folder, std::vector<BlockFileLayout> layouts,
               std::function<std::byte*(int32_t group, HostBlockId block)> host_block);
    ~BlockFiles();
    BlockFiles(const BlockFiles&) = delete;
    BlockFiles& operator=(const BlockFiles&) = delete;

    // The blocks are not touched by others until their events are taken.
    void add(std::span<const DiskMove> reads, std::span<const DiskMove> writes);
    // What has ended since the last call; waits for something so long at most, if there is
    // something under way.
    std::vector<DiskEvent> take_events(std::chrono::milliseconds most = {});
    // Forgets what was not begun, and waits for what was. Nothing is under way afterwards.
    void clear();

    static std::filesystem::path path_of(const std::filesystem::path& folder, uint64_t segment);

  private:
    void run();
    bool read(const DiskMove& move);
    bool write(const DiskMove& move);
    int file_of(uint64_t segment, bool is_written);

    std::filesystem::path folder_;
    std::vector<BlockFileLayout> layouts_;
    std::function<std::byte*(int32_t, HostBlockId)> host_block_;
    // Of the thread.
    struct OpenFile {
        OwnedDescriptor file;
        bool is_written = false;
        uint64_t last_use = 0;
    };
    std::map<uint64_t, OpenFile> files_;
    uint64_t num_uses_ = 0;
    std::vector<uint64_t> digests_;
    std::mutex mutex_;  // of what follows
    std::condition_variable changed_;
    std::deque<DiskMove> reads_;
    std::deque<DiskMove> writes_;
    bool is_busy_ = false;
    std::vector<DiskEvent> done_;
    bool is_ending_ = false;
    std::thread thread_;
};

}  // namespace nvllm
