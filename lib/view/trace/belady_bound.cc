// Belady's MIN with bypassing, L. A. Belady, "A study of replacement algorithms for a
// virtual-storage computer", IBM Systems Journal 1966.
#include <algorithm>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

#include "lib/view/trace/trace_replay.h"

namespace nvllm::view {
namespace {

constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();

// One block of one prompt.
struct Access {
    uint32_t content = 0;
    int32_t depth = 0;
    // The last token of a prompt is always computed, so a block that holds it is not looked up.
    bool counts = true;
};

uint64_t mixed(uint64_t state, uint64_t value) {
    state = (state ^ value) * 0x9e3779b97f4a7c15;
    return state ^ (state >> 32);
}

bool fits(const TraceRequest& request, const ReplayConfig& config) {
    const int64_t positions = int64_t{request.num_prompt_tokens} + request.num_answer_tokens - 1;
    return (positions + config.block_size - 1) / config.block_size <= config.num_blocks;
}

// Contents are told apart by 64 bits over all tokens up to their end.
std::vector<Access> accesses_of(const Trace& trace, const ReplayConfig& config) {
    std::vector<Access> accesses;
    std::unordered_map<uint64_t, uint32_t> numbers;
    for (const TraceRequest& request : trace.requests) {
        if (!fits(request, config)) continue;
        const std::vector<int32_t> tokens = prompt_of(request);
        const auto size = static_cast<size_t>(config.block_size);
        uint64_t state = 1;
        for (size_t first = 0; first + size <= tokens.size(); first += size) {
            for (size_t i = first; i < first + size; ++i) {
                state = mixed(state, static_cast<uint32_t>(tokens[i]));
            }
            const auto number = static_cast<uint32_t>(numbers.size());
            const uint32_t content = numbers.try_emplace(state, number).first->second;
            accesses.push_back(
                {content, static_cast<int32_t>(first / size), first + size < tokens.size()});
        }
    }
    return accesses;
}

// For each access, the place of the next one to the same content that counts.
std::vector<uint32_t> next_uses(const std::vector<Access>& accesses) {
    std::vector<uint32_t> next(accesses.size(), kNever);
    std::unordered_map<uint32_t, uint32_t> latest;
    for (size_t i = accesses.size(); i-- > 0;) {
        const auto found = latest.find(accesses[i].content);
        if (found != latest.end()) next[i] = found->second;
        if (accesses[i].counts) latest[accesses[i].content] = static_cast<uint32_t>(i);
    }
    return next;
}

// What is kept, by next use; what is never used again is not kept.
class KeptBlocks {
  public:
    explicit KeptBlocks(int32_t capacity) : capacity_(static_cast<size_t>(capacity)) {}

    bool holds(uint32_t content) const { return next_use_.contains(content); }

    void keep(uint32_t content, uint32_t next_use) {
        if (next_use == kNever) {
            next_use_.erase(content);
            return;
        }
        next_use_[content] = next_use;
        order_.emplace(next_use, content);
        while (next_use_.size() > capacity_) drop_farthest();
    }

  private:
    // Entries that are not up to date are skipped.
    void drop_farthest() {
        const auto [next_use, content] = order_.top();
        order_.pop();
        const auto found = next_use_.find(content);
        if (found != next_use_.end() && found->second == next_use) next_use_.erase(found);
    }

    size_t capacity_;
    std::unordered_map<uint32_t, uint32_t> next_use_;
    std::priority_queue<std::pair<uint32_t, uint32_t>> order_;
};

}  // namespace

Optimum offline_optimum(const Trace& trace, const ReplayConfig& config) {
    const std::vector<Access> accesses = accesses_of(trace, config);
    const std::vector<uint32_t> next = next_uses(accesses);
    KeptBlocks kept(config.num_blocks);
    Optimum optimum;
    for (size_t i = 0; i < accesses.size(); ++i) {
        const Access& access = accesses[i];
        if (access.counts && kept.holds(access.content)) {
            optimum.hit_tokens += config.block_size;
            optimum.saved_prefill_s +=
                config.step.prefill_ms(int64_t{access.depth} * config.block_size,
                                       config.block_size) /
                1000.0;
        }
        kept.keep(access.content, next[i]);
    }
    return optimum;
}

}  // namespace nvllm::view
