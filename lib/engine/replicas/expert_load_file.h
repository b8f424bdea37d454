// Files of how many tokens chose each expert: written while a model runs, read to share out its
// experts.
//
// JSON: {"schema": "nanovllm.expert-load/1", "blocks": {"model.layers.3": [tokens of each expert]}}
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "lib/request/expert_load.h"

namespace nvllm {

// Throws not_found, io or bad_data.
std::vector<ExpertLoad> read_expert_load(const std::filesystem::path& file);

// Both throw bad_data where the file is of another model: that has not `blocks` blocks with
// experts, or not so many experts in one. load_of_block(): the tokens of a block's experts.
void check_blocks(const std::vector<ExpertLoad>& loads, size_t blocks);
std::vector<int64_t> load_of_block(const std::vector<ExpertLoad>& loads, const std::string& block,
                                   size_t experts);

// Adds up what steps say. Not thread-safe.
class ExpertLoadRecorder {
  public:
    // Throws cannot_create.
    explicit ExpertLoadRecorder(const std::filesystem::path& file);
    // Writes what came since the last time; errors are logged.
    ~ExpertLoadRecorder();
    ExpertLoadRecorder(const ExpertLoadRecorder&) = delete;
    ExpertLoadRecorder& operator=(const ExpertLoadRecorder&) = delete;

    // Writes the file when that was last done more than a second ago; errors are logged.
    void add(const std::vector<ExpertLoad>& load);

  private:
    void write();

    std::filesystem::path file_;
    std::vector<ExpertLoad> sum_;
    bool is_written_ = false;  // as sum_ has it
    std::chrono::steady_clock::time_point last_;
};

}  // namespace nvllm
