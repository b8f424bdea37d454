// Masks that were made at some position of a grammar, for other sequences and for later positions
// that are like it: inside a long text one mask serves all tokens.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace nvllm {

// Of all grammars of an engine. Thread-safe.
class MaskCache {
  public:
    // Of all masks; then all go, and those that are needed come again.
    static constexpr size_t kMostBytes = size_t{64} << 20;
    // Longer keys cost more than they spare.
    static constexpr size_t kLongestKey = 4096;

    // Sets a grammar's keys apart from those of others.
    uint64_t new_grammar() { return ++num_grammars_; }

    // Keys are equal only where all masks from there on are equal, of one grammar.
    // False: it is not there, and the mask was left alone.
    bool find(const std::string& key, std::span<uint32_t> mask) {
        const std::lock_guard lock(mutex_);
        const auto found = masks_.find(key);
        if (found == masks_.end()) return false;
        std::ranges::copy(found->second, mask.begin());
        return true;
    }

    void keep(const std::string& key, std::span<const uint32_t> mask) {
        const size_t bytes = key.size() + mask.size_bytes();
        const std::lock_guard lock(mutex_);
        if (bytes_ + bytes > kMostBytes) {
            masks_.clear();
            bytes_ = 0;
        }
        if (bytes <= kMostBytes &&
            masks_.emplace(key, std::vector(mask.begin(), mask.end())).second)
            bytes_ += bytes;
    }

  private:
    std::mutex mutex_;
    std::unordered_map<std::string, std::vector<uint32_t>> masks_;
    size_t bytes_ = 0;
    std::atomic<uint64_t> num_grammars_ = 0;
};

}  // namespace nvllm
