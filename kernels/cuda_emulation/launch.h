// Launches: a grid of blocks, run one after another by the calling thread before launch() returns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>

#include "kernels/cuda/primitives/extent.h"
#include "kernels/cuda/primitives/overlap.h"
#include "kernels/cuda_emulation/site.h"

namespace nvllm::gpu {

namespace emulation {

// A kernel and its arguments, as every thread of the grid calls it.
struct Call {
    void (*run)(const void* arguments);
    const void* arguments;
    size_t bytes;        // of the arguments
    const void* kernel;  // the function
    const char* type;    // which names the types of the kernel's parameters
};

// Makes the call once for every thread of the grid. Throws Fault when the shape is one that no
// device takes, or when a kernel breaks a rule. One launch at a time in the process: others wait.
void run_grid(const Launch& shape, const Call& call);
// How many grids were run since the process began, by Call::type.
std::map<std::string, uint64_t> grids_by_type();

// This thread of a block has waited for the work before, if its kernel's compiled code waits.
void note_wait_for_work_before();

// As if a kernel had been compiled as this version; others are compiled as 90.
void set_compiled_version(const void* kernel, CompiledVersion version);
// The launch as a device does it: one whose compiled code does not wait overlaps nothing.
Launch as_compiled(const Launch& shape, const void* kernel);

// Where launches into a stream go instead of being run at once: a device that records graphs. Null:
// run at once. `run` does the launch, as often as it is called.
using Recorder = void (*)(void* stream, std::function<void()> run);
void set_launch_recorder(Recorder recorder);
void submit(void* stream, std::function<void()> run);

}  // namespace emulation

// Launches run one after the other here; that every thread of those that overlap waits is checked.
inline void wait_for_work_before() { emulation::note_wait_for_work_before(); }

// Of shared memory, for a block of the emulated device.
size_t max_shared_bytes();

// Runs kernel(args...) for every thread of the shape, in the order of its stream.
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), const Launch& shape, Arguments&&... arguments) {
    static_assert((std::is_trivially_copyable_v<Parameters> && ...),
                  "kernel parameters are copied as bytes");
    struct Bound {
        void (*kernel)(Parameters...);
        std::tuple<Parameters...> values;
    };
    const Bound own{kernel, {static_cast<Parameters>(arguments)...}};
    const auto* const function = reinterpret_cast<const void*>(kernel);
    const Launch launched = emulation::as_compiled(shape, function);
    emulation::submit(shape.stream, [own, launched, function] {
        const auto run = [](const void* of_grid) {
            const auto* call = static_cast<const Bound*>(of_grid);
            std::apply(call->kernel, call->values);
        };
        emulation::run_grid(launched, {run, &own, sizeof own, function, typeid(own.kernel).name()});
    });
}

}  // namespace nvllm::gpu
