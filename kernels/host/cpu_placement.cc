// Counts, deals out, and calls the system.
#include "kernels/host/cpu_placement.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "kernels/error.h"
#include "kernels/host/cpu_count.h"

namespace nvllm {
namespace {

// Values of <linux/mempolicy.h>, which not every system has installed.
constexpr int kPolicyPreferred = 1;
constexpr int kPolicyInterleave = 3;

// A group of processors over which threads are spread: a node, or all.
struct Share {
    int node = 0;
    CpuList cpus;
};

// Processors of no node that is known are in the first share.
std::vector<Share> shares_by_node(const CpuTopology& topology, CpuList usable) {
    std::vector<Share> shares;
    for (const NumaNode& node : topology.nodes) {
        CpuList own = intersection(node.cpus, usable);
        if (own.empty()) continue;
        std::erase_if(usable, [&](int cpu) { return std::ranges::binary_search(own, cpu); });
        shares.push_back({node.id, std::move(own)});
    }
    if (shares.empty()) shares.push_back({});
    CpuList& first = shares.front().cpus;
    first.insert(first.end(), usable.begin(), usable.end());
    std::ranges::sort(first);
    return shares;
}

// The share in which the process runs, else the first.
const Share& home_of(const std::vector<Share>& shares, int current_cpu) {
    const auto home = std::ranges::find_if(shares, [&](const Share& share) {
        return std::ranges::binary_search(share.cpus, current_cpu);
    });
    return home == shares.end() ? shares.front() : *home;
}

// Processors in the order in which threads take one each: in turn from each share, of a share one
// of each core first.
std::vector<int> dealt(const CpuTopology& topology, const std::vector<Share>& shares) {
    std::vector<std::vector<int>> hands;
    size_t longest = 0;
    for (const Share& share : shares) {
        hands.push_back(topology.cores_first(share.cpus));
        longest = std::max(longest, hands.back().size());
    }
    std::vector<int> order;
    for (size_t i = 0; i < longest; ++i) {
        for (const std::vector<int>& hand : hands) {
            if (i < hand.size()) order.push_back(hand[i]);
        }
    }
    return order;
}

struct ThreadCount {
    int count = 0;
    std::string reason;
};

// One node alone leaves nothing to distribute.
NumaMode resolved(NumaMode asked, size_t num_nodes) {
    if (asked == NumaMode::off || asked == NumaMode::isolate) return asked;
    return num_nodes > 1 ? NumaMode::distribute : NumaMode::off;
}

ThreadCount count_threads(const CpuResources& resources, const PlacementOptions& options,
                          const std::vector<Share>& shares) {
    if (options.num_threads > 0) return {options.num_threads, "as asked for"};
    ThreadCount threads;
    for (const Share& share : shares) {
        threads.count += options.mask.empty() ? resources.topology.num_cores_of(share.cpus)
                                              : static_cast<int>(share.cpus.size());
    }
    threads.reason = options.mask.empty() ? "one for each physical core that may be used"
                                          : "one for each processor of the mask";
    if (resources.quota && *resources.quota < threads.count) {
        // Rounded down: a thread beyond the quota would be throttled, and all others wait for it.
        threads.count = std::max(1, static_cast<int>(*resources.quota));
        threads.reason = "as many as the control group's quota keeps busy";
    }
    return threads;
}

// Nodes as bits of words, as system calls want them.
std::vector<unsigned long> node_bits(const std::vector<int>& nodes) {
    constexpr size_t kBits = sizeof(unsigned long) * CHAR_BIT;
    std::vector<unsigned long> words(1);
    for (const int node : nodes) {
        const auto place = static_cast<size_t>(node);
        if (place / kBits >= words.size()) words.resize(place / kBits + 1);
        words[place / kBits] |= 1UL << (place % kBits);
    }
    return words;
}

std::string bind_to_cpus(const CpuList& cpus) {
    if (cpus.empty()) return "";
    std::vector<cpu_set_t> set(static_cast<size_t>(cpus.back()) / CPU_SETSIZE + 1);
    const size_t bytes = set.size() * sizeof(cpu_set_t);
    for (const int cpu : cpus) CPU_SET_S(static_cast<size_t>(cpu), bytes, set.data());
    if (::sched_setaffinity(0, bytes, set.data()) == 0) return "";
    return "threads cannot be bound to processors " + format_cpu_list(cpus) + ": " +
           std::strerror(errno);
}

std::string set_memory_policy(MemoryPolicy policy, const std::vector<int>& nodes) {
    if (policy == MemoryPolicy::standard) return "";
    const std::vector<unsigned long> bits = node_bits(nodes);
    const int mode = policy == MemoryPolicy::interleaved ? kPolicyInterleave : kPolicyPreferred;
    // The system takes one bit less than it is told of.
    const size_t num_bits = bits.size() * sizeof(unsigned long) * CHAR_BIT + 1;
    if (::syscall(SYS_set_mempolicy, mode, bits.data(), num_bits) == 0) return "";
    return "memory cannot be placed in nodes " + format_cpu_list(nodes) + ": " +
           std::strerror(errno);
}

}  // namespace

CpuResources read_cpu_resources() {
    CpuResources resources;
    resources.topology = read_cpu_topology();
    resources.allowed = allowed_cpus();
    resources.quota = cpu_quota();
    resources.current_cpu = std::max(0, ::sched_getcpu());
    if (resources.allowed.empty()) resources.allowed = resources.topology.cpus;
    if (resources.allowed.empty()) {
        resources.allowed.resize(std::max(1U, std::thread::hardware_concurrency()));
        std::iota(resources.allowed.begin(), resources.allowed.end(), 0);
    }
    return resources;
}

CpuList CpuPlacement::cpus() const {
    CpuList all;
    for (const CpuList& own : threads) all.insert(all.end(), own.begin(), own.end());
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
}

int default_num_threads() { return plan_placement(read_cpu_resources(), {}).num_threads(); }

CpuPlacement free_placement(int num_threads) {
    NVLLM_CHECK(num_threads >= 0, "a placement of " + std::to_string(num_threads) + " threads");
    CpuPlacement placement;
    placement.threads.resize(static_cast<size_t>(num_threads));
    return placement;
}

CpuPlacement plan_placement(const CpuResources& resources, const PlacementOptions& options) {
    const CpuList& usable = options.mask.empty() ? resources.allowed : options.mask;
    NVLLM_CHECK(!usable.empty() && intersection(usable, resources.allowed) == usable,
                "threads on processors that are not allowed");
    std::vector<Share> shares = shares_by_node(resources.topology, usable);
    const NumaMode mode = resolved(options.numa, shares.size());
    if (mode == NumaMode::off) shares = {{0, usable}};
    if (mode == NumaMode::isolate) shares = {home_of(shares, resources.current_cpu)};

    CpuPlacement placement;
    ThreadCount threads = count_threads(resources, options, shares);
    placement.reason = std::move(threads.reason);
    placement.numa = mode;
    const std::vector<int> order = dealt(resources.topology, shares);
    for (size_t i = 0; i < static_cast<size_t>(threads.count); ++i) {
        CpuList place;
        if (mode != NumaMode::off) place = shares[i % shares.size()].cpus;
        if (!options.mask.empty()) place = {order[i % order.size()]};
        placement.threads.push_back(std::move(place));
    }
    if (mode == NumaMode::off) return placement;
    placement.memory =
        mode == NumaMode::isolate ? MemoryPolicy::preferred : MemoryPolicy::interleaved;
    for (const Share& share : shares) placement.memory_nodes.push_back(share.node);
    return placement;
}

std::string bind_this_thread(const CpuPlacement& placement, int thread) {
    const std::string refused = bind_to_cpus(placement.threads.at(static_cast<size_t>(thread)));
    const std::string also = set_memory_policy(placement.memory, placement.memory_nodes);
    return refused.empty() || also.empty() ? refused + also : refused + "; " + also;
}

}  // namespace nvllm
