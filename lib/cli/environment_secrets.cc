// Overwriting before forgetting: /proc shows the memory that the process began with.
#include "lib/cli/environment_secrets.h"

#include <cstdlib>
#include <cstring>

namespace nvllm {

void forget_environment_secrets(const OptionSet& options) {
    for (const BoundOption& option : options.all()) {
        if (!option.field().is_secret) continue;
        const std::string name = environment_name(option.field().name);
        if (char* value = std::getenv(name.c_str())) std::memset(value, '*', std::strlen(value));
        ::unsetenv(name.c_str());
    }
}

}  // namespace nvllm
