// The context of a dry run.
#include "kernels/host/dry_run.h"

namespace nvllm {

DryRun::DryRun(const ComputeDevice& device, DType activations, int num_threads)
    : threads_(ThreadPool::of_dry_run(num_threads)), nowhere_(ScratchArena::of_dry_run().take(0)) {
    context_.device = device.id();
    context_.backend = device.backend();
    context_.scratch = &scratch_;
    context_.threads = &threads_;
    context_.activations = activations;
    if (!device.is_cpu()) context_.host_scratch = &host_scratch_;
}

TensorView DryRun::view(DType dtype, std::initializer_list<int64_t> shape) const {
    return {nowhere_, dtype, shape, context_.device};
}

}  // namespace nvllm
