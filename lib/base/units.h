// Amounts as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace nvllm {

// "4.00 GiB", "512.0 MiB", "96 B".
std::string describe_bytes(uint64_t bytes);

// "6,738,415,616".
std::string with_separators(int64_t value);

// "6.74 billion", "2.90 million"; small numbers as they are.
std::string describe_count(int64_t value);

}  // namespace nvllm
