// Asks the kernels.
#include "lib/engine/machine.h"

#include "kernels/backend.h"
#include "kernels/collectives.h"
#include "kernels/cpu/dispatch/isa.h"
#include "kernels/host/cpu_count.h"
#include "kernels/error.h"
#include "kernels/shared_library.h"

namespace nvllm {
namespace {

LibraryFacts cublaslt_facts() {
    const SharedLibrary library = open_first_library(
        {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.13"});
    return {"cuBLASLt", "", library.file, library.fault};
}

// What the module of this name says of the library that ranks compute together by.
LibraryFacts collectives_facts(const char* library, const std::string& module) {
    const auto found = find_backend(module);
    if (!found) return {library, "", "", "there is no module libnanovllm_" + module + ".so"};
    try {
        CollectivesLibrary facts = open_collectives(found->path).look();
        return {facts.name, facts.version, facts.file, facts.fault};
    } catch (const Error& error) {
        return {library, "", found->path, error.what()};
    }
}

}  // namespace

AcceleratorFacts accelerator_facts() {
    AcceleratorFacts facts;
    facts.cuda = backend_facts("cuda");
    facts.libraries = {cublaslt_facts(), collectives_facts("NCCL", "cuda"),
                       collectives_facts("MPI", "mpi")};
    return facts;
}

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
