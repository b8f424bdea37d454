// The written contract of what lets ranks compute together: NCCL through the CUDA module, MPI
// through a module of its own.
//
// A module that has it exports nvllm_collectives() beside, or instead of, nvllm_backend()
// (backend.h). So far a table tells what is there; the operations join it with parallelism.
#pragma once

#include <cstdint>
#include <string>

namespace nvllm {

// Changes whenever a table of before could not be used any more.
inline constexpr uint32_t kCollectivesVersion = 1;
// What a module exports: NVLLM_COLLECTIVES_ENTRY() { return &table; }
inline constexpr const char* kCollectivesEntry = "nvllm_collectives";
#define NVLLM_COLLECTIVES_ENTRY                       \
    extern "C" __attribute__((visibility("default"))) \
    const nvllm::CollectivesTable* nvllm_collectives

// The library behind a module, opened at run time.
struct CollectivesLibrary {
    std::string name;     // "NCCL"
    std::string version;  // as it says itself: "NCCL 2.28.3", "Open MPI v4.1.4"
    std::string file;     // that was opened, or is missing
    std::string fault;    // a sentence that says why it cannot be used; empty: it can
};

struct CollectivesTable {
    // First, so that tables of other versions can be told.
    uint32_t version = kCollectivesVersion;
    uint32_t table_bytes = sizeof(CollectivesTable);
    const char* name = nullptr;              // "nccl", "mpi"
    CollectivesLibrary (*look)() = nullptr;  // never throws for what is missing
};

// The table of the module in a file; it stays open until the process ends. Throws unavailable when
// the file is no such module, of another version, or lacks a function, saying which.
const CollectivesTable& open_collectives(const std::string& path);

}  // namespace nvllm
