// Reads cpu/online, cpu/cpu*/topology/thread_siblings_list and node/node*/cpulist.
#include "kernels/host/cpu_topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <system_error>

namespace nvllm {
namespace {

std::optional<CpuList> list_in(const std::filesystem::path& file) {
    std::ifstream stream(file);
    std::string line;
    if (!std::getline(stream, line)) return std::nullopt;
    return parse_cpu_list(line);
}

// N of the entries "<prefix>N" of a folder, ascending.
std::vector<int> numbers_of(const std::filesystem::path& folder, const std::string& prefix) {
    std::vector<int> numbers;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (!name.starts_with(prefix)) continue;
        int number = 0;
        const char* last = name.data() + name.size();
        const auto parsed = std::from_chars(name.data() + prefix.size(), last, number);
        if (parsed.ec == std::errc() && parsed.ptr == last && number >= 0 && number < kMaxCpus) {
            numbers.push_back(number);
        }
    }
    std::ranges::sort(numbers);
    return numbers;
}

CpuList online_cpus(const std::filesystem::path& folder) {
    const CpuList present = numbers_of(folder, "cpu");
    const std::optional<CpuList> online = list_in(folder / "online");
    if (!online || online->empty()) return present;
    return present.empty() ? *online : intersection(*online, present);
}

bool contains(const CpuList& cpus, int cpu) { return std::ranges::binary_search(cpus, cpu); }

// What is left of `cpus` takes its siblings out of it.
std::vector<CpuList> read_cores(const std::filesystem::path& folder, CpuList cpus) {
    std::vector<CpuList> cores;
    while (!cpus.empty()) {
        const int first = cpus.front();
        const auto siblings =
            list_in(folder / ("cpu" + std::to_string(first)) / "topology" / "thread_siblings_list");
        CpuList core = siblings ? intersection(*siblings, cpus) : CpuList{first};
        if (!contains(core, first)) core = {first};
        std::erase_if(cpus, [&](int cpu) { return contains(core, cpu); });
        cores.push_back(std::move(core));
    }
    return cores;
}

std::vector<NumaNode> read_nodes(const std::filesystem::path& folder, CpuList cpus) {
    std::vector<NumaNode> nodes;
    for (const int id : numbers_of(folder, "node")) {
        const auto listed = list_in(folder / ("node" + std::to_string(id)) / "cpulist");
        CpuList own = listed ? intersection(*listed, cpus) : CpuList{};
        if (own.empty()) continue;
        std::erase_if(cpus, [&](int cpu) { return contains(own, cpu); });
        nodes.push_back({id, std::move(own)});
    }
    if (cpus.empty()) return nodes;
    if (nodes.empty()) return {{0, std::move(cpus)}};
    // In no node that the system names: somewhere they must be.
    CpuList& first = nodes.front().cpus;
    first.insert(first.end(), cpus.begin(), cpus.end());
    std::ranges::sort(first);
    return nodes;
}

}  // namespace

int CpuTopology::threads_per_core() const {
    size_t most = 1;
    for (const CpuList& core : cores) most = std::max(most, core.size());
    return static_cast<int>(most);
}

std::vector<int> CpuTopology::cores_first(const CpuList& wanted) const {
    std::vector<int> order;
    for (size_t sibling = 0; order.size() < wanted.size(); ++sibling) {
        const size_t before = order.size();
        for (const CpuList& core : cores) {
            const CpuList own = intersection(core, wanted);
            if (sibling < own.size()) order.push_back(own[sibling]);
        }
        if (order.size() == before) break;
    }
    for (const int cpu : wanted) {
        if (std::ranges::find(order, cpu) == order.end()) order.push_back(cpu);
    }
    return order;
}

int CpuTopology::num_cores_of(const CpuList& wanted) const {
    size_t listed = 0;
    int count = 0;
    for (const CpuList& core : cores) {
        const size_t own = intersection(core, wanted).size();
        listed += own;
        count += own > 0 ? 1 : 0;
    }
    return count + static_cast<int>(wanted.size() - listed);
}

CpuTopology read_cpu_topology(const std::filesystem::path& root) {
    CpuTopology topology;
    topology.cpus = online_cpus(root / "cpu");
    topology.cores = read_cores(root / "cpu", topology.cpus);
    topology.nodes = read_nodes(root / "node", topology.cpus);
    return topology;
}

}  // namespace nvllm
