// The device layer by the CUDA runtime; every answer is checked.
#include <cuda_runtime.h>

#include <array>
#include <string>

#include "kernels/cuda/primitives/runtime_error.h"
#include "kernels/cuda/runtime/allocator.h"
#include "kernels/cuda/runtime/architectures.h"
#include "kernels/cuda/runtime/blas.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/free_memory.h"

namespace nvllm::cuda::device {
namespace {

cudaStream_t as_stream(DeviceStream stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t as_event(DeviceEvent event) { return static_cast<cudaEvent_t>(event); }

// "13.0" for 13000.
std::string version_text(int version) {
    return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Why the runtime counts no devices.
std::string describe_fault(cudaError_t status) {
    int driver = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    static_cast<void>(cudaGetLastError());
    if (driver == 0) {
        return "no NVIDIA driver is installed (libcuda.so.1 is not there or does not work)";
    }
    if (driver < CUDART_VERSION && status == cudaErrorInsufficientDriver) {
        return "the NVIDIA driver is for CUDA " + version_text(driver) + " and this module needs " +
               version_text(CUDART_VERSION) + ": update the driver";
    }
    return std::string("the NVIDIA driver finds no usable GPU: ") + cudaGetErrorString(status);
}

BackendDevice describe(int index) {
    BackendDevice device;
    cudaDeviceProp properties{};
    const cudaError_t status = cudaGetDeviceProperties(&properties, index);
    if (status != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        device.name = "unknown";
        device.unusable = "cuda:" + std::to_string(index) +
                          " cannot be asked what it is: " + cudaGetErrorString(status);
        return device;
    }
    device.name = properties.name;
    device.memory_bytes = properties.totalGlobalMem;
    device.compute_major = properties.major;
    device.compute_minor = properties.minor;
    if (!is_compiled_for(properties.major, properties.minor)) {
        device.unusable = "cuda:" + std::to_string(index) + " (" + device.name +
                          ") has compute capability " + std::to_string(properties.major) + "." +
                          std::to_string(properties.minor) + ", and this module was compiled for " +
                          compiled_architectures();
    }
    return device;
}

}  // namespace

BackendMachine look() {
    BackendMachine machine;
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
        machine.fault = describe_fault(status);
        return machine;
    }
    int driver = 0;
    if (cudaDriverGetVersion(&driver) == cudaSuccess) {
        machine.driver = "for CUDA " + version_text(driver);
    }
    machine.libraries = {"CUDA runtime " + version_text(CUDART_VERSION), describe_blas()};
    for (int index = 0; index < count; ++index) machine.devices.push_back(describe(index));
    return machine;
}

void make_current(int device) {
    thread_local int current = -1;
    if (device == current) return;
    check(cudaSetDevice(device), "choosing the device");
    current = device;
}

DeviceMemoryStats memory(int device) {
    const AllocatorStats taken = allocator_stats(device);
    DeviceMemoryStats stats;
    stats.in_use_bytes = taken.in_use_bytes;
    stats.peak_bytes = taken.peak_bytes;
    // As long as this process has nothing there, it is asked without a context, which takes some.
    if (taken.peak_bytes == 0 && ask_without_context(device, stats)) return stats;
    make_current(device);
    size_t free = 0;
    size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "asking for free memory");
    stats.total_bytes = total;
    stats.free_bytes = free + taken.cached_bytes;
    return stats;
}

void* take(int device, size_t bytes) {
    make_current(device);
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, bytes);
    if (status == cudaErrorMemoryAllocation) {
        static_cast<void>(cudaGetLastError());
        return nullptr;
    }
    check(status, "allocating device memory");
    return memory;
}

// What is given back on a lost device is gone anyway.
void give_back(int device, void* memory) {
    make_current(device);
    static_cast<void>(cudaFree(memory));
}

void* allocate_pinned(int device, size_t bytes) {
    make_current(device);
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes > 0 ? bytes : 1, cudaHostAllocDefault),
          "allocating pinned host memory");
    return memory;
}

void release_pinned(int, void* memory) { static_cast<void>(cudaFreeHost(memory)); }

void copy(int device, DeviceStream stream, CopyDirection direction, void* to, const void* from,
          size_t bytes) {
    constexpr std::array kKinds = {cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
                                   cudaMemcpyDeviceToDevice};
    make_current(device);
    check(
        cudaMemcpyAsync(to, from, bytes, kKinds[static_cast<size_t>(direction)], as_stream(stream)),
        "copying memory");
}

void fill(int device, DeviceStream stream, void* memory, uint8_t value, size_t bytes) {
    make_current(device);
    check(cudaMemsetAsync(memory, value, bytes, as_stream(stream)), "filling memory");
}

DeviceStream make_stream(int device) {
    make_current(device);
    cudaStream_t stream = nullptr;
    check(cudaStreamCreate(&stream), "making a stream");
    return stream;
}

void end_stream(int, DeviceStream stream) {
    static_cast<void>(cudaStreamDestroy(as_stream(stream)));
}

void synchronize(int device, DeviceStream stream) {
    make_current(device);
    check(cudaStreamSynchronize(as_stream(stream)), "computing");
    check(cudaGetLastError(), "computing");
}

DeviceEvent make_event(int device, bool timed) {
    make_current(device);
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
          "making an event");
    return event;
}

void end_event(int, DeviceEvent event) { static_cast<void>(cudaEventDestroy(as_event(event))); }

void record(int device, DeviceEvent event, DeviceStream stream) {
    make_current(device);
    check(cudaEventRecord(as_event(event), as_stream(stream)), "recording an event");
}

void wait(int device, DeviceStream stream, DeviceEvent event) {
    make_current(device);
    check(cudaStreamWaitEvent(as_stream(stream), as_event(event), 0), "waiting for an event");
}

bool is_done(int device, DeviceEvent event) {
    make_current(device);
    const cudaError_t status = cudaEventQuery(as_event(event));
    if (status == cudaErrorNotReady) {
        static_cast<void>(cudaGetLastError());
        return false;
    }
    check(status, "asking for an event");
    return true;
}

void await(int device, DeviceEvent event) {
    make_current(device);
    check(cudaEventSynchronize(as_event(event)), "awaiting an event");
}

double elapsed_ms(int device, DeviceEvent begin, DeviceEvent end) {
    make_current(device);
    float passed_ms = 0.0f;
    check(cudaEventElapsedTime(&passed_ms, as_event(begin), as_event(end)), "taking the time");
    return passed_ms;
}

void begin_capture(int device, DeviceStream stream) {
    make_current(device);
    check(cudaStreamBeginCapture(as_stream(stream), cudaStreamCaptureModeThreadLocal),
          "beginning a graph");
}

DeviceGraph end_capture(int device, DeviceStream stream) {
    make_current(device);
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(as_stream(stream), &graph), "ending a graph");
    cudaGraphExec_t ready = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&ready, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    check(status, "making a graph ready");
    return ready;
}

void launch(int device, DeviceGraph graph, DeviceStream stream) {
    make_current(device);
    check(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), as_stream(stream)),
          "launching a graph");
}

void end_graph(int, DeviceGraph graph) {
    static_cast<void>(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
}

}  // namespace nvllm::cuda::device
