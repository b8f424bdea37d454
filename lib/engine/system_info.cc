// Asks the kernels.
#include "lib/engine/system_info.h"

#include "kernels/collectives.h"
#include "kernels/cpu/dispatch/isa.h"
#include "kernels/error.h"
#include "kernels/host/cpu_count.h"
#include "kernels/ops/open_backend.h"
#include "kernels/shared_library.h"

namespace nvllm {
namespace {

LibraryInfo cublaslt_info() {
    const SharedLibrary library = open_first_library(
        {"libcublasLt.so.13", "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.13"});
    return {"cuBLASLt", "", library.file, library.fault};
}

// What the module of this name says of the library that ranks compute together by.
LibraryInfo collectives_info(const char* library, const std::string& module) {
    const auto found = find_backend(module);
    if (!found) return {library, "", "", "there is no module libnanovllm_" + module + ".so"};
    try {
        CollectivesLibrary info = open_collectives(found->path).look();
        return {info.name, info.version, info.file, info.fault};
    } catch (const Error& error) {
        return {library, "", found->path, error.what()};
    }
}

}  // namespace

AcceleratorInfo accelerator_info() {
    AcceleratorInfo info;
    info.cuda = backend_info("cuda");
    info.libraries = {cublaslt_info(), collectives_info("NCCL", "cuda"),
                      collectives_info("MPI", "mpi")};
    return info;
}

MachineInfo machine_info() {
    MachineInfo info;
    for (int i = 0; i < cpu::kNumIsas; ++i) {
        const auto isa = static_cast<cpu::Isa>(i);
        if (cpu::isa_supported(isa)) info.usable.emplace_back(cpu::isa_name(isa));
    }
    try {
        info.isa = cpu::isa_name(cpu::current_isa());
    } catch (const Error& error) {
        info.isa_fault = error.what();
    }
    info.num_cores = usable_cpu_count();
    info.cpus = read_cpu_resources();
    info.placement = plan_placement(info.cpus, {});
    return info;
}

}  // namespace nvllm
