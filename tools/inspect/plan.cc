// nvllm-inspect plan: what a model would need, and whether that fits.
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/error_kinds.h"
#include "lib/base/json.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/options/engine_options.h"
#include "tools/inspect/commands.h"
#include "tools/inspect/plan_report.h"

namespace nvllm::inspect {
namespace {

struct PlanOptions {
    std::optional<uint64_t> available_memory;
    bool json = false;
};

OptionList<PlanOptions> plan_options() {
    OptionList<PlanOptions> list("inspect");
    list.group("Plan");
    list.add("available-memory", &PlanOptions::available_memory,
             "Plan for a machine with this much free memory, such as 80GiB.", counts_bytes(),
             at_least(1), default_text("what is free here"));
    list.add("json", &PlanOptions::json, "One JSON object, schema nvllm-inspect.plan/1.");
    return list;
}

int inspect_plan(const Invocation& invocation) {
    PlanOptions plan_flags;
    EngineConfig config;
    const auto own_list = plan_options();
    const auto engine_list = engine_options();
    OptionSet options;
    options.add(own_list, plan_flags);
    options.add(engine_list, config);
    if (answered(invocation, options)) return 0;
    config.model.name = named_or_bundled_model(config.model.name);
    const MemoryPlan plan = Engine::plan(config, plan_flags.available_memory);
    write_output(plan_flags.json ? write_json(plan_json(plan, config.model.name)) + "\n"
                                 : plan_text(plan, config.model.name));
    if (!plan.shortage.empty()) throw Error(ErrorKind::does_not_fit, plan.shortage);
    return 0;
}

}  // namespace

Command plan_command() {
    return {"plan", "Plans memory for a model and a set of engine options.", inspect_plan};
}

}  // namespace nvllm::inspect
