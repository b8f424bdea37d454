// A GPU's memory, streams, events and graphs, as the module's table has them (kernels/backend.h
// says what each does). device_cuda.cc asks the CUDA runtime; cuda_emulation/runtime/device_host.cc
// is the twin in host memory.
#pragma once

#include "kernels/backend.h"

namespace nvllm::cuda::device {

BackendMachine look();
DeviceMemoryStats memory(int device);

// Memory as the driver gives it; null when there is none left. Kept for reuse by allocator.h.
void* take(int device, size_t bytes);
void give_back(int device, void* memory);

void* allocate_pinned(int device, size_t bytes);
void release_pinned(int device, void* memory);

void copy(int device, DeviceStream stream, CopyDirection direction, void* to, const void* from,
          size_t bytes);
void fill(int device, DeviceStream stream, void* memory, uint8_t value, size_t bytes);

DeviceStream make_stream(int device);
void end_stream(int device, DeviceStream stream);
void synchronize(int device, DeviceStream stream);

DeviceEvent make_event(int device, bool timed);
void end_event(int device, DeviceEvent event);
void record(int device, DeviceEvent event, DeviceStream stream);
void wait(int device, DeviceStream stream, DeviceEvent event);
bool is_done(int device, DeviceEvent event);
void await(int device, DeviceEvent event);
double elapsed_ms(int device, DeviceEvent begin, DeviceEvent end);

void begin_capture(int device, DeviceStream stream);
DeviceGraph end_capture(int device, DeviceStream stream);
void launch(int device, DeviceGraph graph, DeviceStream stream);
void end_graph(int device, DeviceGraph graph);

// Makes the device the calling thread's, as kernels are launched on that. Throws Error.
void make_current(int device);

}  // namespace nvllm::cuda::device
