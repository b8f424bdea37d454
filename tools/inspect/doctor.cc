// nvllm-inspect doctor: whether this machine can run models, and a given one.
#include "lib/view/doctor.h"
#include "lib/engine/options/neighbour_flags.h"

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/error_kinds.h"
#include "lib/base/json.h"
#include "lib/base/units.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/engine.h"
#include "lib/engine/known_models.h"
#include "lib/engine/system_info.h"
#include "tools/inspect/commands.h"

namespace nvllm::inspect {
namespace {

struct DoctorOptions {
    std::string model;
    bool json = false;
};

OptionList<DoctorOptions> doctor_options() {
    OptionList<DoctorOptions> list("inspect");
    list.add("model", &DoctorOptions::model, "Look at this model too.", short_name('m'),
             value_name("MODEL"), positional(), default_text("none"), refuses_empty(),
             named_once());
    list.add("json", &DoctorOptions::json, "One JSON object, schema nvllm-inspect.doctor/1.");
    return list;
}

void add_accelerators(view::ComputeInfo& compute) {
    const AcceleratorInfo info = accelerator_info();
    const BackendMachine& machine = info.cuda.machine;
    compute.cuda_module = info.cuda.path;
    compute.cuda_fault = info.cuda.fault.empty() ? machine.fault : info.cuda.fault;
    compute.cuda_driver = machine.driver;
    for (size_t i = 0; i < machine.devices.size(); ++i) {
        const BackendDevice& device = machine.devices[i];
        compute.devices.push_back({info.cuda.name + ":" + std::to_string(i), device.name,
                                   device.memory_bytes, device.unusable});
    }
    for (const LibraryInfo& library : info.libraries) {
        compute.libraries.push_back({library.name, library.version, library.file, library.fault});
    }
}

view::ComputeInfo compute_info() {
    const MachineInfo info = machine_info();
    view::ComputeInfo compute;
    compute.isa = info.isa;
    compute.isa_fault = info.isa_fault;
    compute.usable_isas = info.usable;
    compute.num_cores = info.num_cores;
    const CpuTopology& topology = info.cpus.topology;
    compute.num_physical_cores = static_cast<int>(topology.cores.size());
    compute.threads_per_core = topology.threads_per_core();
    compute.allowed_cpus = format_cpu_list(info.cpus.allowed);
    for (const NumaNode& node : topology.nodes) {
        compute.nodes.push_back(format_cpu_list(node.cpus) + " in " + std::to_string(node.id));
    }
    compute.quota = info.cpus.quota;
    compute.num_threads = info.placement.num_threads();
    compute.why_so_many = info.placement.reason;
    compute.is_distributed = info.placement.numa == NumaMode::distribute;
    add_accelerators(compute);
    return compute;
}

// What would stop an engine from starting with it, found without starting one.
view::Finding examine_model(const std::string& model) {
    try {
        const std::filesystem::path directory = resolve_model_directory(model);
        if (const auto obstacle = find_obstacle(directory)) {
            return {"model", view::Health::problem, obstacle->message, ""};
        }
        EngineConfig config;
        config.model.name = model;
        const MemoryPlan plan = Engine::plan(config);
        if (!plan.shortage.empty()) {
            return {"model", view::Health::problem, plan.shortage,
                    "nvllm-inspect plan shows what takes the memory"};
        }
        return {"model", view::Health::ok, directory.string() + ": " + plan.summary(), ""};
    } catch (const Error& error) {
        return {"model", view::Health::problem, error.what(), ""};
    }
}

int inspect_doctor(const Invocation& invocation) {
    DoctorOptions flags;
    const auto list = doctor_options();
    OptionSet options;
    options.add(list, flags);
    options.add_foreign(hub_name_flags());
    if (answered(invocation, options)) return 0;
    std::vector<view::Finding> findings = view::examine_machine(compute_info());
    if (!flags.model.empty()) findings.push_back(examine_model(flags.model));
    write_output(flags.json ? write_json(view::findings_json(findings)) + "\n"
                            : view::findings_text(findings));
    return view::has_problem(findings) ? exit_code_for(ErrorKind::unavailable) : 0;
}

}  // namespace

Command doctor_command() {
    return {"doctor", "Says whether this machine is fit to run models.", inspect_doctor,
            "  nvllm-inspect doctor -m models/demo\n\nEnds with 69 when there is "
            "a problem.\n"};
}

}  // namespace nvllm::inspect
