// A run of ops without memory, which tells how much scratch they take.
//
// Ops check what they are handed, take their temporaries and return before they touch anything, so
// that views need a type and a shape alone. No device is used: the numbers are those of a machine
// that has it.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "kernels/context.h"
#include "kernels/host/thread_pool.h"
#include "kernels/view.h"

namespace nvllm {

class DryRun {
  public:
    // As on `device`, or on the CPU with so many threads.
    DryRun(const ComputeDevice& device, DType activations, int num_threads);
    DryRun(const DryRun&) = delete;
    DryRun& operator=(const DryRun&) = delete;

    const Context& context() const { return context_; }
    // A view that lies on the device for all that ops can see, and is not counted.
    TensorView view(DType dtype, std::initializer_list<int64_t> shape) const;

    // The most scratch in use at one time: what an arena for the same calls has to reserve.
    size_t scratch_bytes() const { return scratch_.peak_bytes(); }

  private:
    ScratchArena scratch_ = ScratchArena::of_dry_run();
    ScratchArena host_scratch_ = ScratchArena::of_dry_run();
    ThreadPool threads_;
    Context context_;
    void* nowhere_;
};

}  // namespace nvllm
