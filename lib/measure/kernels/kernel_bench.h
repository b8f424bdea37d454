// Where ops are timed: the CPU or a device, what they are handed there, and what limits them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "kernels/context.h"
#include "kernels/device.h"
#include "kernels/host/thread_pool.h"
#include "kernels/ops/open_backend.h"
#include "lib/measure/kernels/kernel_measure.h"

namespace nvllm {

// Used by one thread. Throws what open_device() throws, and does_not_fit.
class KernelBench {
  public:
    explicit KernelBench(const KernelOptions& options);

    const Context& context() const { return context_; }
    // Frees the scratch memory that ops took.
    void reset() { scratch_.reset(); }
    // How long calls of ops take. On a device, where the host puts them into a queue and goes on,
    // one graph of all of them is timed, if its backend keeps graphs; what they make with their
    // first call must be there.
    double seconds_of(const std::function<void()>& calls);
    // What the machine can do at this moment.
    Roof probe();
    // Of the CPU; 0 of a device.
    double int8_gop_s();

  private:
    DeviceGraph captured(const std::function<void()>& calls);
    double device_seconds(const std::function<void()>& calls);
    double best_pass(const std::function<void()>& calls);
    double copied_gb_s(uint64_t bytes);
    double read_by_product_gb_s(uint64_t bytes);
    double product_gflop_s();

    KernelShapes shapes_;
    uint64_t probe_bytes_;
    ComputeDevice device_;
    ThreadPool threads_;
    Stream queue_;
    ScratchArena scratch_;
    ScratchArena host_scratch_;
    Context context_;
    bool keeps_graphs_ = true;
    std::optional<bool> multiplies_bf16_;  // of the CPU; by the first probe
};

}  // namespace nvllm
