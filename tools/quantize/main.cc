// nvllm-quantize: makes a smaller checkpoint of a model, and says what that cost.
#include <array>

#include "lib/cli/main_guard.h"
#include "lib/server/config/shared_sections.h"
#include "tools/quantize/quantize.h"

namespace nvllm::quantize_tool {
namespace {

const ProgramDescription kProgram = {
    .name = "nvllm-quantize",
    .version = NVLLM_VERSION,
    .summary =
        "Turns a Hugging Face checkpoint into a smaller one, in the memory of one block. Without a "
        "command, it quantizes. The summary goes to standard output, everything else to standard "
        "error.",
    .examples =
        "  nvllm-quantize -m model --scheme W4A16 -o model-W4A16\n"
        "  nvllm-quantize -m model --scheme W8A8 --method smoothquant --method gptq\n"
        "\n"
        "Settings: flag > environment NVLLM_* > --config FILE (YAML) > default.\n"
        "Exit codes: 0 ok, 64 usage, 65 bad data, 66 no input, 70 internal, 73 cannot create,\n"
        "74 input/output, 77 does not fit, 78 bad configuration, 130 interrupted.\n",
    .sections = server::shared_sections,
};

}  // namespace
}  // namespace nvllm::quantize_tool

int main(int argc, char** argv) {
    using namespace nvllm::quantize_tool;
    const std::array commands = {
        nvllm::Command{"quantize", "Makes the smaller checkpoint.", run_quantize,
                       "  nvllm-quantize --scheme W4A16\n"
                       "  nvllm-quantize -m model --method rtn --scheme W8A16 -o out\n"},
        nvllm::Command{"report", "Says again what was done to a model, and what it cost.",
                       run_report,
                       "  nvllm-quantize report model-W4A16 --linears\n"
                       "  nvllm-quantize report model-W4A16 --svg errors.svg\n"},
        nvllm::Command{"compare", "Several results side by side.", run_compare,
                       "  nvllm-quantize compare model-gptq model-awq -m model --eval text.txt\n"}};
    return nvllm::run_main("nvllm-quantize", [&] {
        return nvllm::run_command(kProgram, commands, argc, argv, "quantize");
    });
}
