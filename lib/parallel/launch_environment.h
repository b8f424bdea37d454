// Which rank a process is, as the launcher that started it says in variables of its environment.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace nvllm {

struct LaunchedRank {
    int rank = 0;
    int num_ranks = 1;
    int local_rank = 0;  // among those of this machine
    int num_local = 1;
    std::string launcher;        // "Open MPI"
    std::string leader_address;  // where the launcher names a host that leads; empty: it does not
};

// Reads one variable; null: it is not set.
using ReadVariable = std::function<const char*(const char* name)>;

// Open MPI's mpirun, MPICH's and Intel's mpiexec, Slurm's srun, Kubernetes' LeaderWorkerSet, or
// RANK, WORLD_SIZE and LOCAL_RANK, as other launchers have them; the first of these that has set
// its variables. Empty: none has. Throws usage where one has no number that it could have.
std::optional<LaunchedRank> launched_rank(const ReadVariable& read);
std::optional<LaunchedRank> launched_rank();

}  // namespace nvllm
