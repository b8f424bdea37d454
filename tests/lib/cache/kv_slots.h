// The keys and values of a cache group as a test sees them: each slot remembers the whole prefix it
// was computed from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace nvllm {

// One number for tokens[0..i], for each i: what the keys and values of position i depend on.
inline std::vector<uint64_t> prefix_digests(std::span<const int32_t> tokens, uint64_t start = 1) {
    std::vector<uint64_t> digests;
    uint64_t digest = start;
    for (const int32_t token : tokens) {
        digest = (digest ^ static_cast<uint64_t>(token + 1)) * 0x9e3779b97f4a7c15;
        digest ^= digest >> 29;
        digests.push_back(digest);
    }
    return digests;
}

class KvSlots {
  public:
    KvSlots(int32_t num_blocks, int32_t block_size, int32_t window)
        : block_size_(block_size),
          window_(window),
          slots_(static_cast<size_t>(num_blocks) * static_cast<size_t>(block_size)) {}

    void write(std::span<const int32_t> table, int32_t position, uint64_t digest) {
        slots_.at(slot(table, position)) = digest;
    }
    // The first position that a query at `position` reads.
    int32_t first_read(int32_t position) const {
        return window_ == 0 || position < window_ ? 0 : position - window_ + 1;
    }
    // Whether a query at `position` finds the right prefix behind everything it reads, itself
    // included.
    bool reads_well(std::span<const int32_t> table, int32_t position,
                    std::span<const uint64_t> digests) const {
        for (int32_t read = first_read(position); read <= position; ++read) {
            if (slots_.at(slot(table, read)) != digests[static_cast<size_t>(read)]) return false;
        }
        return true;
    }
    std::optional<uint64_t> holds(std::span<const int32_t> table, int32_t position) const {
        return slots_.at(slot(table, position));
    }
    // Block `to` becomes a copy of the other's block `from`.
    void take_block(const KvSlots& other, int32_t from, int32_t to) {
        for (int32_t i = 0; i < block_size_; ++i) {
            slots_.at(static_cast<size_t>(to * block_size_ + i)) =
                other.slots_.at(static_cast<size_t>(from * block_size_ + i));
        }
    }
    void lose_everything() { slots_.assign(slots_.size(), std::nullopt); }
    int32_t window() const { return window_; }

  private:
    size_t slot(std::span<const int32_t> table, int32_t position) const {
        const auto index = static_cast<size_t>(position / block_size_);
        if (index >= table.size()) return slots_.size();  // out of range: at() throws
        return static_cast<size_t>(table[index]) * static_cast<size_t>(block_size_) +
               static_cast<size_t>(position % block_size_);
    }

    int32_t block_size_;
    int32_t window_;
    std::vector<std::optional<uint64_t>> slots_;
};

}  // namespace nvllm
