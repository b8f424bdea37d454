// Opens libnvidia-ml.so.1, of which three functions are called.
#include "kernels/cuda/runtime/free_memory.h"

#include <cuda_runtime.h>

#include <array>

#include "kernels/shared_library.h"

namespace nvllm::cuda {
namespace {

// As nvml.h has it; the header is not part of every toolkit.
struct NvmlMemory {
    unsigned long long total, free, used;
};
using NvmlDevice = void*;

// Of a context with this module's kernels, and of cuBLASLt's.
constexpr uint64_t kContextBytes = uint64_t{640} << 20;

class Nvml {
  public:
    Nvml() {
        const SharedLibrary library = open_first_library({"libnvidia-ml.so.1"});
        const auto start = library.find<int()>("nvmlInit_v2");
        find_ = library.find<int(const char*, NvmlDevice*)>("nvmlDeviceGetHandleByPciBusId_v2");
        ask_ = library.find<int(NvmlDevice, NvmlMemory*)>("nvmlDeviceGetMemoryInfo");
        is_there_ = start != nullptr && find_ != nullptr && ask_ != nullptr && start() == 0;
    }

    bool ask(const char* bus_id, NvmlMemory& memory) const {
        NvmlDevice device = nullptr;
        return is_there_ && find_(bus_id, &device) == 0 && ask_(device, &memory) == 0;
    }

  private:
    int (*find_)(const char*, NvmlDevice*) = nullptr;
    int (*ask_)(NvmlDevice, NvmlMemory*) = nullptr;
    bool is_there_ = false;
};

}  // namespace

bool ask_without_context(int device, DeviceMemoryStats& stats) {
    static const Nvml nvml;
    std::array<char, 32> bus_id{};
    if (cudaDeviceGetPCIBusId(bus_id.data(), static_cast<int>(bus_id.size()), device) !=
        cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        return false;
    }
    NvmlMemory memory{};
    if (!nvml.ask(bus_id.data(), memory)) return false;
    stats.total_bytes = memory.total;
    stats.free_bytes = memory.free > kContextBytes ? memory.free - kContextBytes : 0;
    return true;
}

}  // namespace nvllm::cuda
