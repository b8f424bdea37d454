// Sets of logical processors, as the system and people write them: "0-3,8" and hexadecimal masks.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nvllm {

// Numbers of logical processors, ascending, each once.
using CpuList = std::vector<int>;

// No machine has more; what names a greater number is nonsense.
inline constexpr int kMaxCpus = 1 << 16;

// "0-3,8"; the empty text is the empty list. Nothing when it is something else.
std::optional<CpuList> parse_cpu_list(std::string_view text);

// A list with a dash or a comma in it, such as "0-3,8" or "5,"; else a hexadecimal mask, such as
// "f" or "0x10f", whose lowest bit is processor 0. Nothing when it is neither, or names none.
std::optional<CpuList> parse_cpu_mask(std::string_view text);

// As parse_cpu_list() reads it, runs of three and more with a dash.
std::string format_cpu_list(const CpuList& cpus);

CpuList intersection(const CpuList& one, const CpuList& other);

}  // namespace nvllm
