// The models in a folder of the Hugging Face cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nvllm {

struct CachedModel {
    std::string name;                 // "org/name", with "@revision" where it is not main
    std::filesystem::path directory;  // of the snapshot; empty: there is none
    uint64_t bytes = 0;               // of the snapshot's files, links followed
    uint64_t unfinished_bytes = 0;    // of downloads that were not finished
};

// By name; none when there is no such folder. Revisions that no branch or tag names are left out,
// unless a model has no others.
std::vector<CachedModel> cached_models(const std::filesystem::path& cache);

// The names alone, those nearest to `wanted` first.
std::vector<std::string> cached_names_near(const std::filesystem::path& cache,
                                           const std::string& wanted);

}  // namespace nvllm
