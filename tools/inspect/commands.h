// The commands of nvllm-inspect, each in a file of its own.
#pragma once

#include "lib/cli/commands.h"

namespace nvllm::inspect {

extern const ProgramDescription kProgram;

Command list_command();
Command model_command();
Command plan_command();
Command topology_command();
Command tokens_command();
Command template_command();
Command tools_command();
Command grammar_command();
Command cache_command();
Command table_command();
Command tree_command();
Command requests_command();
Command adapters_command();
Command watch_command();
Command trace_command();
Command drafts_command();
Command diff_command();
Command doctor_command();

// `named`, or the bundled demo when it is empty, which is said on standard error. Throws usage when
// there is neither.
std::string named_or_bundled_model(const std::string& named);

}  // namespace nvllm::inspect
