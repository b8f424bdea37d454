// nvllm-inspect: looks at models, memory, tokens, chat templates, and into engines; loads no
// weight.
#include <fmt/format.h>

#include <array>
#include <cstdio>

#include "lib/cli/main_guard.h"
#include "lib/engine/default_model.h"
#include "lib/server/config/shared_sections.h"
#include "tools/inspect/commands.h"

namespace nvllm::inspect {

const ProgramDescription kProgram = {
    .name = "nvllm-inspect",
    .version = NVLLM_VERSION,
    .summary =
        "Looks at models without loading a weight, and into engines while they run or "
        "afterwards. What was found goes to standard output, everything else to "
        "standard error.",
    .examples =
        "  nvllm-inspect list\n"
        "  nvllm-inspect model models/demo\n"
        "  nvllm-inspect plan -m models/demo --max-model-len 2k --json\n"
        "  echo \"Once upon a time\" | nvllm-inspect tokens -m models/demo\n"
        "  nvllm-inspect template -m models/demo < conversations.jsonl\n"
        "\n"
        "Settings: flag > environment NVLLM_* > --config FILE (YAML) > default.\n"
        "Exit codes: 0 ok, 64 usage, 65 bad data, 66 no input, 69 unavailable, 70 internal,\n"
        "74 input/output, 77 does not fit, 78 bad configuration, 130 interrupted.\n",
    .sections = server::shared_sections,
};

std::string named_or_bundled_model(const std::string& named) {
    if (!named.empty()) return named;
    const std::string model = require_bundled_model().string();
    fmt::print(stderr, "nvllm-inspect: no model was named; using the bundled demo, {}\n", model);
    return model;
}

}  // namespace nvllm::inspect

int main(int argc, char** argv) {
    using namespace nvllm::inspect;
    const std::array commands = {list_command(),     model_command(),   plan_command(),
                                 topology_command(), tokens_command(),  template_command(),
                                 tools_command(),    grammar_command(), cache_command(),
                                 table_command(),    tree_command(),    requests_command(),
                                 adapters_command(), watch_command(),   trace_command(),
                                 drafts_command(),   diff_command(),    doctor_command()};
    return nvllm::run_main("nvllm-inspect", [&] {
        if (argc < 2) {
            fmt::print(stderr, "{}\n",
                       nvllm::help_text(nvllm::describe_commands(kProgram, commands)));
        }
        return nvllm::run_command(kProgram, commands, argc, argv);
    });
}
