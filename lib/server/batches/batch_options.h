// Options on files and batches.
#pragma once

#include <cstdint>
#include <filesystem>

#include "lib/cli/option_list.h"

namespace nvllm::server {

struct BatchOptions {
    std::filesystem::path directory;                // of files and batches; empty: there are none
    int32_t concurrency = 16;                       // lines in flight
    uint64_t max_stored_bytes = uint64_t{4} << 30;  // of all files

    bool is_on() const { return !directory.empty(); }
};

OptionList<BatchOptions> batch_options();

}  // namespace nvllm::server
