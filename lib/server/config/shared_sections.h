// The sections of a configuration file that all programs share.
#pragma once

#include "lib/cli/config_sections.h"

namespace nvllm::server {

// The keys of every shared section; in "api" also the server's options, under their own names.
ConfigSections shared_sections();

}  // namespace nvllm::server
