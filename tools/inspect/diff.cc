// nvllm-inspect diff: two checkpoints side by side.
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/json.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/options/neighbour_flags.h"
#include "lib/view/checkpoint_diff.h"
#include "tools/inspect/commands.h"

namespace nvllm::inspect {
namespace {

struct DiffOptions {
    std::string one;
    std::string other;
    bool values = false;
    bool json = false;
};

OptionList<DiffOptions> diff_options() {
    OptionList<DiffOptions> list("inspect");
    list.add("a", &DiffOptions::one, "A checkpoint: a model's folder or name, or one .safetensors.",
             value_name("A"), positional());
    list.add("b", &DiffOptions::other, "The one to compare it with.", value_name("B"),
             positional());
    list.add("values", &DiffOptions::values, "Compare every value, not just types and shapes.");
    list.add("json", &DiffOptions::json, "One JSON object, schema nvllm-inspect.diff/1.");
    return list;
}

std::filesystem::path located(const std::string& name) {
    if (std::filesystem::is_regular_file(name)) return name;
    return resolve_model_directory(name);
}

int inspect_diff(const Invocation& invocation) {
    DiffOptions flags;
    const auto list = diff_options();
    OptionSet options;
    options.add(list, flags);
    options.add_foreign(hub_name_flags());
    if (answered(invocation, options)) return 0;
    if (flags.one.empty() || flags.other.empty()) {
        throw Error(ErrorKind::usage, "name two checkpoints");
    }
    const auto difference =
        view::compare_checkpoints(located(flags.one), located(flags.other), flags.values);
    write_output(flags.json ? write_json(view::difference_json(difference)) + "\n"
                            : view::difference_text(difference));
    return 0;
}

}  // namespace

Command diff_command() {
    return {"diff", "Compares two checkpoints: config, tensors, values.", inspect_diff,
            "  nvllm-inspect diff models/demo models/demo-draft --values\n"};
}

}  // namespace nvllm::inspect
