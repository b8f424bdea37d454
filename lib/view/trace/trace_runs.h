// Many replays of one trace, several at once.
#pragma once

#include <string>
#include <vector>

#include "lib/view/trace/trace_report.h"

namespace nvllm::view {

struct ReplayChoices {
    std::vector<std::string> scheduling_policies;
    std::vector<std::string> eviction_policies;
    std::vector<int32_t> num_blocks;
};

// Every combination, on `num_threads` threads; the outcome does not depend on their number. Throws
// what replay_trace() throws.
std::vector<ReplayTable> replay_all(const Trace& trace, const ReplayConfig& config,
                                    const ReplayChoices& choices, int num_threads);

// "a,b" or "all", each one of `known`. Throws usage that names `flag`.
std::vector<std::string> chosen_names(const std::string& text,
                                      const std::vector<std::string>& known, const char* flag);
std::vector<std::string> scheduling_policy_names();
std::vector<std::string> eviction_policy_names();

}  // namespace nvllm::view
