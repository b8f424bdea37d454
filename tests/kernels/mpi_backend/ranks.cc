// One rank of a test of the MPI module, started by mpirun: ranks MODULE. Prints what is wrong.
// Without mpirun: ranks MODULE look, which prints the library that the module opens, or nothing.
#include <cstdlib>
#include <iostream>
#include <string>

#include "kernels/error.h"
#include "tests/kernels/collectives_checks.h"

namespace {

// Of the variables of MPICH's and of Open MPI's mpirun.
int number_of(const char* mpich, const char* open_mpi) {
    const char* text = std::getenv(mpich);
    if (text == nullptr) text = std::getenv(open_mpi);
    return text == nullptr ? -1 : std::atoi(text);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2 && argc != 3) return 2;
    if (argc == 3) {
        const nvllm::CollectivesLibrary found = nvllm::open_collectives(argv[1]).look();
        if (found.fault.empty()) std::cout << found.version << "\n";
        return 0;
    }
    const int rank = number_of("PMI_RANK", "OMPI_COMM_WORLD_RANK");
    const int num_ranks = number_of("PMI_SIZE", "OMPI_COMM_WORLD_SIZE");
    try {
        const nvllm::CollectivesTable& table = nvllm::open_collectives(argv[1]);
        try {
            const nvllm::RankGroup other(table,
                                         {.id = {}, .rank = rank, .num_ranks = num_ranks + 1});
            std::cout << "a rank of another number of ranks was let in\n";
            return 1;
        } catch (const nvllm::Error& error) {
            if (error.kind() != nvllm::ErrorKind::bad_config) throw;
        }
        const nvllm::RankGroup group(table,
                                     {.id = table.make_id(), .rank = rank, .num_ranks = num_ranks});
        const std::string wrong = nvllm::test::find_wrong_operation(group);
        std::cout << "rank " << rank << " of " << num_ranks << ": "
                  << (wrong.empty() ? "ok" : wrong) << "\n";
        return wrong.empty() ? 0 : 1;
    } catch (const std::exception& error) {
        std::cout << error.what() << "\n";
        return 1;
    }
}
