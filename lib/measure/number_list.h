// Lists of numbers as llama-bench takes them: "512,1024", "128-512+128", "1-8*2".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nvllm {

// Comma-separated items, each a number, first-last (step 1), first-last+step or first-last*factor;
// the last is included when it is met. Numbers are from 0 to `most`; a list has at most 10000.
// Throws usage that begins with `flag` for anything else.
std::vector<int32_t> parse_number_list(const std::string& text, const std::string& flag,
                                       int32_t most);

}  // namespace nvllm
