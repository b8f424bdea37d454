// Tests of placement: plans for a machine that is made up, and what carrying one out does here.
#include "kernels/host/cpu_placement.h"

#include <set>
#include <thread>

#include "kernels/error.h"
#include "kernels/host/cpu_count.h"
#include "tests/kernels/made_up_machine.h"
#include "tests/kernels/testing.h"

using nvllm::CpuList;
using nvllm::CpuPlacement;
using nvllm::CpuResources;
using nvllm::MemoryPolicy;
using nvllm::NumaMode;
using nvllm::PlacementOptions;
using nvllm::plan_placement;

namespace {

const CpuList kNode0 = {0, 1, 2, 3, 8, 9, 10, 11};
const CpuList kNode1 = {4, 5, 6, 7, 12, 13, 14, 15};

CpuResources two_sockets() {
    const testing::MadeUpMachine machine = testing::MadeUpMachine::two_sockets();
    CpuResources resources;
    resources.topology = nvllm::read_cpu_topology(machine.root());
    resources.allowed = resources.topology.cpus;
    resources.current_cpu = 13;
    return resources;
}

PlacementOptions options(NumaMode numa, CpuList mask = {}, int num_threads = 0) {
    return {num_threads, std::move(mask), numa};
}

int num_on(const CpuPlacement& placement, const CpuList& cpus) {
    int count = 0;
    for (const CpuList& own : placement.threads) {
        count += nvllm::intersection(own, cpus) == own ? 1 : 0;
    }
    return count;
}

}  // namespace

TEST_CASE("one thread for each physical core, where the system wants it") {
    const CpuPlacement placement = plan_placement(two_sockets(), options(NumaMode::off));
    CHECK(placement.num_threads() == 8);
    CHECK(placement.cpus().empty());
    CHECK(placement.memory == MemoryPolicy::standard);
    CHECK(placement.memory_nodes.empty());
    CHECK(placement.reason.find("physical core") != std::string::npos);
}

TEST_CASE("affinity and quota limit the number of threads") {
    CpuResources resources = two_sockets();
    resources.allowed = {0, 1, 8, 9};
    CHECK(plan_placement(resources, {}).num_threads() == 2);
    resources.allowed = {0, 9, 10};
    CHECK(plan_placement(resources, {}).num_threads() == 3);
    resources.quota = 2.9;
    CHECK(plan_placement(resources, {}).num_threads() == 2);
    CHECK(plan_placement(resources, {}).reason.find("quota") != std::string::npos);
    resources.quota = 0.4;
    CHECK(plan_placement(resources, {}).num_threads() == 1);
    CHECK(plan_placement(resources, options(NumaMode::off, {0, 9})).num_threads() == 1);
    // A requested number is used.
    CHECK(plan_placement(resources, options(NumaMode::off, {}, 5)).num_threads() == 5);
}

TEST_CASE("threads are bound to the processors of a mask, one to each") {
    const CpuPlacement all = plan_placement(two_sockets(), options(NumaMode::off, {0, 1, 8, 9}));
    CHECK(all.threads == std::vector<CpuList>{{0}, {1}, {8}, {9}});
    CHECK(all.memory == MemoryPolicy::standard);
    CHECK(all.cpus() == CpuList{0, 1, 8, 9});
    // Fewer threads take whole cores first, more take turns.
    CHECK(plan_placement(two_sockets(), options(NumaMode::off, {0, 8, 9}, 2)).threads ==
          std::vector<CpuList>{{0}, {9}});
    CHECK(plan_placement(two_sockets(), options(NumaMode::off, {2, 3}, 3)).threads ==
          std::vector<CpuList>{{2}, {3}, {2}});
}

TEST_CASE("distribute: threads evenly over the nodes, memory interleaved") {
    for (const NumaMode mode : {NumaMode::automatic, NumaMode::distribute}) {
        const CpuPlacement placement = plan_placement(two_sockets(), options(mode));
        CHECK(placement.numa == NumaMode::distribute);
        CHECK(placement.num_threads() == 8);
        CHECK(num_on(placement, kNode0) == 4);
        CHECK(num_on(placement, kNode1) == 4);
        CHECK(placement.threads[0] == kNode0);
        CHECK(placement.memory == MemoryPolicy::interleaved);
        CHECK(placement.memory_nodes == std::vector<int>{0, 1});
    }
    const CpuPlacement three = plan_placement(two_sockets(), options(NumaMode::distribute, {}, 3));
    CHECK(num_on(three, kNode0) == 2);
    CHECK(num_on(three, kNode1) == 1);
}

TEST_CASE("distribute heeds the mask") {
    const CpuPlacement both =
        plan_placement(two_sockets(), options(NumaMode::automatic, {0, 1, 2, 4, 12}));
    CHECK(both.threads == std::vector<CpuList>{{0}, {4}, {1}, {12}, {2}});
    CHECK(both.memory == MemoryPolicy::interleaved);
    // Nothing to distribute over.
    for (const NumaMode mode : {NumaMode::automatic, NumaMode::distribute}) {
        const CpuPlacement one = plan_placement(two_sockets(), options(mode, {4, 5}));
        CHECK(one.numa == NumaMode::off);
        CHECK(one.threads == std::vector<CpuList>{{4}, {5}});
        CHECK(one.memory == MemoryPolicy::standard);
    }
}

TEST_CASE("isolate: the node in which the process started, alone") {
    const CpuPlacement placement = plan_placement(two_sockets(), options(NumaMode::isolate));
    CHECK(placement.num_threads() == 4);
    CHECK(num_on(placement, kNode1) == 4);
    CHECK(placement.memory == MemoryPolicy::preferred);
    CHECK(placement.memory_nodes == std::vector<int>{1});
    // A mask without processors of that node decides.
    const CpuPlacement masked = plan_placement(two_sockets(), options(NumaMode::isolate, {0, 2}));
    CHECK(masked.threads == std::vector<CpuList>{{0}, {2}});
    CHECK(masked.memory_nodes == std::vector<int>{0});
}

TEST_CASE("a machine of which nothing is known") {
    CpuResources resources;
    resources.allowed = {0, 1, 2};
    const CpuPlacement placement = plan_placement(resources, {});
    CHECK(placement.num_threads() == 3);
    CHECK(placement.numa == NumaMode::off);
    CHECK(plan_placement(resources, options(NumaMode::isolate)).cpus() == resources.allowed);
}

TEST_CASE("a mask beyond what is allowed is our own mistake") {
    CHECK_THROWS_AS(plan_placement(two_sockets(), options(NumaMode::off, {0, 99})), nvllm::Error);
}

TEST_CASE("this machine's resources and number of threads") {
    const CpuResources resources = nvllm::read_cpu_resources();
    CHECK(!resources.allowed.empty());
    CHECK(nvllm::default_num_threads() >= 1);
    CHECK(nvllm::default_num_threads() <= nvllm::usable_cpu_count());
}

TEST_CASE("a thread is bound as planned, and refusals are told") {
    const CpuList allowed = nvllm::allowed_cpus();
    REQUIRE(!allowed.empty());
    std::thread([&] {
        CpuPlacement placement = nvllm::free_placement(1);
        CHECK(nvllm::bind_this_thread(placement, 0).empty());
        CHECK(nvllm::allowed_cpus() == allowed);
        placement.threads = {{allowed.back()}};
        CHECK(nvllm::bind_this_thread(placement, 0).empty());
        CHECK(nvllm::allowed_cpus() == CpuList{allowed.back()});
        // A processor that no machine has, and memory in a node that this one has not.
        placement.threads = {{nvllm::kMaxCpus - 1}};
        placement.memory = MemoryPolicy::preferred;
        placement.memory_nodes = {900};
        const std::string refused = nvllm::bind_this_thread(placement, 0);
        CHECK(refused.find(std::to_string(nvllm::kMaxCpus - 1)) != std::string::npos);
        CHECK(refused.find("nodes 900") != std::string::npos);
    }).join();
}
