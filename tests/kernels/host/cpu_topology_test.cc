// Tests of the topology: machines made up in a folder, whole ones and ones with nonsense in them.
#include "kernels/host/cpu_topology.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/kernels/made_up_machine.h"
#include "tests/kernels/testing.h"

using nvllm::CpuList;
using nvllm::CpuTopology;
using nvllm::NumaNode;
using nvllm::read_cpu_topology;
using testing::MadeUpMachine;

TEST_CASE("two sockets of four cores of two threads") {
    const MadeUpMachine machine = MadeUpMachine::two_sockets();
    const CpuTopology topology = read_cpu_topology(machine.root());
    CHECK(topology.cpus.size() == 16);
    CHECK(topology.threads_per_core() == 2);
    REQUIRE(topology.cores.size() == 8);
    CHECK(topology.cores[0] == CpuList{0, 8});
    CHECK(topology.cores[7] == CpuList{7, 15});
    CHECK(topology.nodes == std::vector<NumaNode>{{0, {0, 1, 2, 3, 8, 9, 10, 11}},
                                                  {1, {4, 5, 6, 7, 12, 13, 14, 15}}});
    CHECK(topology.num_cores_of({0, 8, 1, 4}) == 3);
    CHECK(topology.cores_first({0, 1, 4, 8, 12}) == std::vector<int>{0, 1, 4, 8, 12});
    CHECK(topology.cores_first({0, 8, 9}) == std::vector<int>{0, 9, 8});
}

TEST_CASE("processors that are offline do not count") {
    MadeUpMachine machine = MadeUpMachine::two_sockets();
    machine.write("cpu/online", "0-6,8-9\n");
    const CpuTopology topology = read_cpu_topology(machine.root());
    CHECK(topology.cpus == CpuList{0, 1, 2, 3, 4, 5, 6, 8, 9});
    REQUIRE(topology.cores.size() == 7);
    CHECK(topology.cores[1] == CpuList{1, 9});
    CHECK(topology.cores[2] == CpuList{2});
    REQUIRE(topology.nodes.size() == 2);
    CHECK(topology.nodes[1].cpus == CpuList{4, 5, 6});
}

TEST_CASE("a node whose processors are all offline, and one without any, are none") {
    MadeUpMachine machine = MadeUpMachine::two_sockets();
    machine.write("cpu/online", "0-3,8-11\n");
    machine.write("node/node2/cpulist", "\n");
    CHECK(read_cpu_topology(machine.root()).nodes.size() == 1);
}

TEST_CASE("missing files mean the simplest machine") {
    CHECK(read_cpu_topology("/nowhere/at/all").cpus.empty());
    CHECK(read_cpu_topology("/nowhere/at/all").nodes.empty());
    CHECK(read_cpu_topology("/nowhere/at/all").threads_per_core() == 1);
    MadeUpMachine machine;
    for (const char* name : {"cpu/cpu0/x", "cpu/cpu1/x", "cpu/cpufreq/x", "cpu/cpu2x/x"}) {
        machine.write(name, "");
    }
    const CpuTopology topology = read_cpu_topology(machine.root());
    CHECK(topology.cpus == CpuList{0, 1});
    CHECK(topology.cores.size() == 2);
    CHECK(topology.nodes == std::vector<NumaNode>{{0, {0, 1}}});
}

TEST_CASE("only the list of online processors") {
    MadeUpMachine machine;
    machine.write("cpu/online", "0-2\n");
    CHECK(read_cpu_topology(machine.root()).cores.size() == 3);
}

TEST_CASE("nonsense in the files is not believed") {
    MadeUpMachine machine = MadeUpMachine::two_sockets();
    machine.write("cpu/online", "all of them\n");
    machine.write("cpu/cpu0/topology/thread_siblings_list", "3-1\n");
    machine.write("cpu/cpu1/topology/thread_siblings_list", "5\n");        // not itself
    machine.write("cpu/cpu2/topology/thread_siblings_list", "2,10,77\n");  // one that is not there
    machine.write("node/node0/cpulist", "0-99999999\n");
    machine.write("node/node-1/cpulist", "0\n");
    machine.write("node/node9999999999/cpulist", "0\n");
    const CpuTopology topology = read_cpu_topology(machine.root());
    CHECK(topology.cpus.size() == 16);
    CHECK(topology.cores[0] == CpuList{0});
    CHECK(topology.cores[1] == CpuList{1});
    CHECK(topology.cores[2] == CpuList{2, 10});
    // Every processor is in exactly one core and in one node.
    CHECK(topology.num_cores_of(topology.cpus) == static_cast<int>(topology.cores.size()));
    REQUIRE(topology.nodes.size() == 1);
    CHECK(topology.nodes[0].cpus == topology.cpus);
}

TEST_CASE("this machine has a topology that holds together") {
    const CpuTopology topology = read_cpu_topology();
    size_t in_cores = 0;
    size_t in_nodes = 0;
    for (const CpuList& core : topology.cores) in_cores += core.size();
    for (const NumaNode& node : topology.nodes) in_nodes += node.cpus.size();
    CHECK(in_cores == topology.cpus.size());
    CHECK(in_nodes == topology.cpus.size());
}
