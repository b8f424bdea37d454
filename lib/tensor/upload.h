// Tensors from host memory to a device, through pinned memory.
//
// Two chunks take turns: while the device fetches one, threads fill the other, which is what reads
// a mapped file. Used by one thread while a model is made.
#pragma once

#include <array>
#include <memory>

#include "kernels/device.h"
#include "kernels/host/thread_pool.h"
#include "lib/tensor/tensor.h"

namespace nvllm {

class Uploader {
  public:
    // `threads` outlives the uploader.
    Uploader(const ComputeDevice& device, ThreadPool& threads);

    // A copy in memory of the device; on the CPU the tensor itself. The host's may be let go when
    // it returns. REQUIRES: a contiguous tensor. Throws does_not_fit.
    Tensor upload(const Tensor& tensor);
    // The same into memory of the device that is there already. REQUIRES: both contiguous and of
    // one size; not on the CPU.
    void upload_into(const Tensor& tensor, const TensorView& to);
    // Returns when all that was uploaded is there; what failed of it is thrown here at the latest.
    void finish();

  private:
    struct Chunk {
        explicit Chunk(const ComputeDevice& device);
        DeviceMemory memory;
        Event sent;
    };

    ComputeDevice device_;
    ThreadPool& threads_;
    std::unique_ptr<Stream> queue_;  // made with the first tensor
    std::array<std::unique_ptr<Chunk>, 2> chunks_;
    size_t next_ = 0;
};

}  // namespace nvllm
