// Variables of launchers.
#include "lib/parallel/launch_environment.h"

#include <doctest/doctest.h>

#include <map>

#include "kernels/error.h"

using namespace nvllm;

namespace {

std::optional<LaunchedRank> rank_with(const std::map<std::string, const char*>& variables) {
    return launched_rank([&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second;
    });
}

}  // namespace

TEST_CASE("each launcher's variables name a rank") {
    CHECK(!rank_with({}));
    const auto open_mpi = rank_with({{"OMPI_COMM_WORLD_RANK", "3"},
                                     {"OMPI_COMM_WORLD_SIZE", "4"},
                                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                     {"SLURM_PROCID", "0"},
                                     {"SLURM_NTASKS", "1"}});
    REQUIRE(open_mpi);
    CHECK(open_mpi->launcher == "Open MPI");
    CHECK(open_mpi->rank == 3);
    CHECK(open_mpi->num_ranks == 4);
    CHECK(open_mpi->local_rank == 1);
    CHECK(open_mpi->num_local == 2);
    const auto pods = rank_with({{"LWS_WORKER_INDEX", "1"},
                                 {"LWS_GROUP_SIZE", "2"},
                                 {"LWS_LEADER_ADDRESS", "model-0.model.default"}});
    REQUIRE(pods);
    CHECK(pods->launcher == "LeaderWorkerSet");
    CHECK(pods->rank == 1);
    CHECK(pods->leader_address == "model-0.model.default");
    const auto slurm = rank_with({{"SLURM_PROCID", "5"},
                                  {"SLURM_NTASKS", "8"},
                                  {"SLURM_LOCALID", "1"},
                                  {"SLURM_NTASKS_PER_NODE", "4"}});
    REQUIRE(slurm);
    CHECK(slurm->rank == 5);
    CHECK(slurm->num_local == 4);
    const auto on_one_node =
        rank_with({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "2"}, {"SLURM_LOCALID", "1"}});
    REQUIRE(on_one_node);
    CHECK(on_one_node->num_local == 2);
    CHECK(rank_with({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}})->launcher == "MPICH");
    CHECK(rank_with({{"RANK", "1"}, {"WORLD_SIZE", "2"}})->rank == 1);
    CHECK(!rank_with({{"RANK", "1"}}));
}

TEST_CASE("ranks that there cannot be are refused, with the variable's name") {
    for (const char* rank : {"x", "-1", "", "2"}) {
        try {
            rank_with({{"RANK", rank}, {"WORLD_SIZE", "2"}});
            FAIL("a rank " << rank);
        } catch (const Error& error) {
            CHECK(error.kind() == ErrorKind::usage);
            CHECK(std::string(error.what()).find("RANK=") == 0);
        }
    }
}
