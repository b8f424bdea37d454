// A table of launchers.
#include "lib/parallel/launch_environment.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>

#include "kernels/error.h"
#include "lib/base/option_values.h"

namespace nvllm {
namespace {

struct Launcher {
    const char* name;
    const char* rank;
    const char* num_ranks;
    const char* local_rank;  // null: one rank a machine
    const char* num_local;   // alike
    const char* leader = nullptr;
};

constexpr std::array kLaunchers = {
    Launcher{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
             "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Launcher{"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    Launcher{"LeaderWorkerSet", "LWS_WORKER_INDEX", "LWS_GROUP_SIZE", nullptr, nullptr,
             "LWS_LEADER_ADDRESS"},
    Launcher{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"},
    Launcher{"a launcher", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR"},
};

int number_of(const ReadVariable& read, const char* name, int absent, int least) {
    const char* const text = name == nullptr ? nullptr : read(name);
    if (text == nullptr) return absent;
    const std::optional<int> number = parse_integer<int>(text);
    if (number && *number >= least) return *number;
    throw Error(ErrorKind::usage,
                fmt::format("{}={}: a whole number from {} on is expected", name, text, least));
}

}  // namespace

std::optional<LaunchedRank> launched_rank(const ReadVariable& read) {
    for (const Launcher& launcher : kLaunchers) {
        if (read(launcher.rank) == nullptr || read(launcher.num_ranks) == nullptr) continue;
        LaunchedRank rank;
        rank.launcher = launcher.name;
        rank.rank = number_of(read, launcher.rank, 0, 0);
        rank.num_ranks = number_of(read, launcher.num_ranks, 1, 1);
        rank.local_rank = number_of(read, launcher.local_rank, 0, 0);
        // Slurm names it only where it was asked for.
        rank.num_local = number_of(read, launcher.num_local, rank.local_rank + 1, 1);
        if (launcher.leader != nullptr && read(launcher.leader) != nullptr) {
            rank.leader_address = read(launcher.leader);
        }
        if (rank.rank >= rank.num_ranks || rank.local_rank >= rank.num_local) {
            throw Error(ErrorKind::usage,
                        fmt::format("{}={} and {}={}: there is no such rank", launcher.rank,
                                    rank.rank, launcher.num_ranks, rank.num_ranks));
        }
        return rank;
    }
    return std::nullopt;
}

std::optional<LaunchedRank> launched_rank() {
    return launched_rank([](const char* name) { return std::getenv(name); });
}

}  // namespace nvllm
