// Asks the kernels.
#include "lib/engine/machine.h"

#include "kernels/cpu/isa.h"
#include "kernels/cpu_count.h"
#include "kernels/error.h"

namespace nvllm {

MachineFacts machine_facts() {
    MachineFacts facts;
    for (int i = 0; i < cpu::kNumIsas; ++i) {
        const auto isa = static_cast<cpu::Isa>(i);
        if (cpu::isa_supported(isa)) facts.usable.emplace_back(cpu::isa_name(isa));
    }
    try {
        facts.isa = cpu::isa_name(cpu::current_isa());
    } catch (const Error& error) {
        facts.isa_fault = error.what();
    }
    facts.num_cores = usable_cpu_count();
    facts.cpus = read_cpu_resources();
    facts.placement = plan_placement(facts.cpus, {});
    return facts;
}

}  // namespace nvllm
