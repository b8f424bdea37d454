// Greedy, twice.
#include "lib/parallel/expert_placement.h"

#include <algorithm>

#include "kernels/error.h"

namespace nvllm {
namespace {

std::vector<int32_t> copies_of(const ExpertSlots& slots, size_t experts) {
    std::vector<int32_t> copies(experts);
    for (const int32_t expert : slots) ++copies[static_cast<size_t>(expert)];
    return copies;
}

double share(std::span<const int64_t> tokens, const std::vector<int32_t>& copies, size_t expert) {
    return static_cast<double>(tokens[expert]) / copies[expert];
}

// Of each expert, how many there are.
std::vector<int32_t> copied(std::span<const int64_t> tokens, int32_t ranks, int32_t slots) {
    std::vector<int32_t> copies(tokens.size(), 1);
    for (auto free = slots - static_cast<int32_t>(tokens.size()); free > 0; --free) {
        size_t most = tokens.size();
        for (size_t expert = 0; expert < tokens.size(); ++expert) {
            if (copies[expert] == ranks) continue;
            if (most == tokens.size() ||
                share(tokens, copies, expert) > share(tokens, copies, most)) {
                most = expert;
            }
        }
        ++copies[most];
    }
    return copies;
}

struct RankLoad {
    std::vector<int32_t> experts;
    double tokens = 0.0;

    bool has(int32_t expert) const { return std::ranges::find(experts, expert) != experts.end(); }
};

}  // namespace

// Copies of the experts with the most copies are dealt out first: there are fewest ranks for them.
ExpertSlots balanced_experts(std::span<const int64_t> tokens, int32_t ranks, int32_t slots) {
    const auto experts = static_cast<int32_t>(tokens.size());
    NVLLM_CHECK(slots % ranks == 0 && slots >= experts && slots <= experts * ranks,
                "slots for each expert, as many on each rank");
    const std::vector<int32_t> copies = copied(tokens, ranks, slots);
    std::vector<int32_t> order;
    for (int32_t expert = 0; expert < experts; ++expert) {
        order.insert(order.end(), static_cast<size_t>(copies[static_cast<size_t>(expert)]), expert);
    }
    std::ranges::stable_sort(order, [&](int32_t one, int32_t other) {
        const auto a = static_cast<size_t>(one);
        const auto b = static_cast<size_t>(other);
        if (copies[a] != copies[b]) return copies[a] > copies[b];
        return share(tokens, copies, a) > share(tokens, copies, b);
    });
    const auto most = static_cast<size_t>(slots / ranks);
    std::vector<RankLoad> loads(static_cast<size_t>(ranks));
    for (const int32_t expert : order) {
        RankLoad* least = nullptr;
        for (RankLoad& load : loads) {
            if (load.experts.size() == most || load.has(expert)) continue;
            if (least == nullptr || load.tokens < least->tokens) least = &load;
        }
        NVLLM_CHECK(least != nullptr, "a rank has room for each copy");
        least->experts.push_back(expert);
        least->tokens += share(tokens, copies, static_cast<size_t>(expert));
    }
    ExpertSlots placed;
    for (RankLoad& load : loads) {
        std::ranges::sort(load.experts);
        placed.insert(placed.end(), load.experts.begin(), load.experts.end());
    }
    return placed;
}

double imbalance(const ExpertSlots& slots, std::span<const int64_t> tokens, int32_t ranks) {
    const std::vector<int32_t> copies = copies_of(slots, tokens.size());
    const size_t of_rank = slots.size() / static_cast<size_t>(ranks);
    double most = 0.0;
    double sum = 0.0;
    for (size_t first = 0; first < slots.size(); first += of_rank) {
        double own = 0.0;
        for (size_t i = first; i < first + of_rank; ++i) {
            own += share(tokens, copies, static_cast<size_t>(slots[i]));
        }
        most = std::max(most, own);
        sum += own;
    }
    return sum > 0.0 ? most * ranks / sum : 0.0;
}

}  // namespace nvllm
