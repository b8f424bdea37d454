// Secrets that came by the environment, taken out of it.
#pragma once

#include "lib/cli/options.h"

namespace nvllm {

// Takes the variables of secret options (NVLLM_API_KEY) out of this process's environment: /proc
// shows it to others of the same user, and programs that are started inherit it. Call it once the
// options are read, while no other thread reads the environment.
void forget_environment_secrets(const OptionSet& options);

}  // namespace nvllm
