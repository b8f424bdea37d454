// The access counters: lanes' accesses gathered into requests of a warp, and what each costs.
#include "kernels/cuda_emulation/counters.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "kernels/cuda_emulation/shared_memory.h"
#include "kernels/error.h"

namespace nvllm::gpu::emulation {

namespace {

constexpr int kBanks = 32;
constexpr size_t kBankBytes = 4;
constexpr size_t kSectorBytes = 32;

// What the lanes of a warp access together; a lane with 0 bytes is not part of it.
struct Request {
    std::array<uintptr_t, kWarpSize> addresses{};
    std::array<uint32_t, kWarpSize> bytes{};
};

using PlaceKey = std::tuple<Origin, bool, Access>;
using RequestKey = std::tuple<PlaceKey, int, uint32_t>;  // a warp's n-th from a place

struct Counting {
    bool on = false;
    std::map<PlaceKey, PlaceCount> places;
    std::map<RequestKey, Request> open;
    std::array<std::unordered_map<Origin, uint32_t>, kMaxThreads> executions;
};

Counting state;

// Passes over the banks for the lanes of one phase.
uint64_t passes_of(const Request& request, int first_lane, int lanes) {
    std::array<std::set<uintptr_t>, kBanks> words;
    for (int lane = first_lane; lane < first_lane + lanes; ++lane) {
        const auto at = static_cast<size_t>(lane);
        if (request.bytes[at] == 0) continue;
        const uintptr_t end = request.addresses[at] + request.bytes[at];
        for (uintptr_t word = request.addresses[at] / kBankBytes; word * kBankBytes < end; ++word) {
            words[word % kBanks].insert(word);
        }
    }
    size_t most = 0;
    for (const auto& bank : words) most = std::max(most, bank.size());
    return most;
}

// Wide accesses go by phases of as many lanes as 128 bytes serve.
int lanes_of_phase(const Request& request) {
    const uint32_t widest = *std::max_element(request.bytes.begin(), request.bytes.end());
    return widest > 8 ? 8 : widest > 4 ? 16 : 32;
}

void add_shared(PlaceCount& place, const Request& request) {
    const int lanes = lanes_of_phase(request);
    for (int first = 0; first < kWarpSize; first += lanes) {
        const uint64_t passes = passes_of(request, first, lanes);
        place.passes += passes;
        place.min_passes += passes > 0 ? 1 : 0;
    }
}

void add_global(PlaceCount& place, const Request& request) {
    std::set<uintptr_t> bytes;
    std::set<uintptr_t> sectors;
    for (size_t lane = 0; lane < kWarpSize; ++lane) {
        for (uintptr_t i = 0; i < request.bytes[lane]; ++i) {
            bytes.insert(request.addresses[lane] + i);
            sectors.insert((request.addresses[lane] + i) / kSectorBytes);
        }
    }
    place.sectors += sectors.size();
    place.min_sectors += (bytes.size() + kSectorBytes - 1) / kSectorBytes;
}

double factor(uint64_t cost, uint64_t least) {
    return least == 0 ? 1.0 : static_cast<double>(cost) / static_cast<double>(least);
}

}  // namespace

double PlaceCount::conflict_factor() const { return factor(passes, min_passes); }

double PlaceCount::sector_factor() const { return factor(sectors, min_sectors); }

std::string PlaceCount::describe() const {
    char text[96];
    std::snprintf(text, sizeof text, ": %s, %zu requests, %.2f %s for one",
                  access == Access::read ? "read" : "write", static_cast<size_t>(requests),
                  shared ? conflict_factor() : sector_factor(), shared ? "passes" : "sectors");
    return describe_origin(origin) + text;
}

AccessCounts::AccessCounts() {
    NVLLM_CHECK(!state.on, "accesses are counted by one at a time");
    state.on = true;
    state.places.clear();
}

AccessCounts::~AccessCounts() { state.on = false; }

std::vector<PlaceCount> AccessCounts::places() const {
    std::vector<PlaceCount> all;
    for (const auto& [key, place] : state.places) all.push_back(place);
    std::sort(all.begin(), all.end(), [](const PlaceCount& a, const PlaceCount& b) {
        return a.passes + a.sectors > b.passes + b.sectors;
    });
    return all;
}

double AccessCounts::worst_conflict_factor() const {
    double worst = 1;
    for (const PlaceCount& place : places()) worst = std::max(worst, place.conflict_factor());
    return worst;
}

double AccessCounts::worst_sector_factor() const {
    double worst = 1;
    for (const PlaceCount& place : places()) worst = std::max(worst, place.sector_factor());
    return worst;
}

std::string AccessCounts::describe() const {
    std::string text;
    for (const PlaceCount& place : places()) text += place.describe() + "\n";
    return text;
}

bool counting() { return state.on; }

void count_access(const Thread& thread, const void* address, size_t bytes, Access access,
                  Origin origin) {
    const PlaceKey place{origin, is_shared(address), access};
    const uint32_t turn = state.executions[static_cast<size_t>(thread.number)][origin]++;
    Request& request = state.open[{place, thread.warp, turn}];
    request.addresses[static_cast<size_t>(thread.lane)] = reinterpret_cast<uintptr_t>(address);
    request.bytes[static_cast<size_t>(thread.lane)] = static_cast<uint32_t>(bytes);
}

void finish_counting_block() {
    for (const auto& [key, request] : state.open) {
        const PlaceKey& at = std::get<0>(key);
        PlaceCount& place = state.places[at];
        place.origin = std::get<0>(at);
        place.shared = std::get<1>(at);
        place.access = std::get<2>(at);
        ++place.requests;
        place.shared ? add_shared(place, request) : add_global(place, request);
    }
    state.open.clear();
    for (auto& executions : state.executions) executions.clear();
}

}  // namespace nvllm::gpu::emulation
