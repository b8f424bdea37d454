// What the CUDA module finds of NCCL.
#include "kernels/collectives.h"
#include "kernels/shared_library.h"

namespace nvllm::cuda {
namespace {

// Since 2.9 ten thousands are the major version.
std::string version_text(int version) {
    return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
           "." + std::to_string(version % 100);
}

CollectivesLibrary look_for_nccl() {
    const SharedLibrary library =
        open_first_library({"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"});
    CollectivesLibrary found{"NCCL", "", library.file, library.fault};
    if (library.handle == nullptr) return found;
    const auto version = library.find<int(int*)>("ncclGetVersion");
    int number = 0;
    if (version == nullptr || version(&number) != 0) {
        found.fault = library.file + " does not say its version (ncclGetVersion)";
        return found;
    }
    found.version = version_text(number);
    return found;
}

}  // namespace
}  // namespace nvllm::cuda

NVLLM_COLLECTIVES_ENTRY() {
    static const nvllm::CollectivesTable table{.name = "nccl", .look = nvllm::cuda::look_for_nccl};
    return &table;
}
