// The functions and handles of the installed MPI, found at run time without its headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/collectives.h"

namespace nvllm::mpi {

// A communicator or datatype: an int of MPICH, a pointer of Open MPI. Both are passed in a register
// of 64 bits, of which MPICH reads the lower half.
using Handle = std::intptr_t;

struct Library {
    CollectivesLibrary info;
    // Why its operations cannot be called; empty: they can.
    std::string fault;

    int (*initialized)(int* flag) = nullptr;
    int (*finalized)(int* flag) = nullptr;
    int (*init_thread)(int* argc, char*** argv, int required, int* provided) = nullptr;
    int (*finalize)() = nullptr;
    int (*comm_rank)(Handle communicator, int* rank) = nullptr;
    int (*comm_size)(Handle communicator, int* size) = nullptr;
    int (*send)(const void* from, int count, Handle type, int to_rank, int tag,
                Handle communicator) = nullptr;
    int (*receive)(void* to, int count, Handle type, int from_rank, int tag, Handle communicator,
                   void* status) = nullptr;
    int (*exchange)(const void* from, int count, Handle type, int to_rank, int tag, void* to,
                    int to_count, Handle to_type, int from_rank, int from_tag, Handle communicator,
                    void* status) = nullptr;

    Handle world = 0;                // MPI_COMM_WORLD
    Handle byte = 0;                 // MPI_BYTE
    void* ignored_status = nullptr;  // MPI_STATUS_IGNORE
};

// Opened at the first call. Never throws: a library that is missing is told by `info.fault`.
const Library& library();

}  // namespace nvllm::mpi
