// Brings rows that a device computed to the host, as float32.
#pragma once

#include <cstddef>

#include "kernels/context.h"
#include "kernels/view.h"

namespace nvllm {

class HostRows {
  public:
    explicit HostRows(const ComputeDevice& device) : device_(device) {}

    // rows [rows, columns] of any float type. On the CPU these rows themselves; else a float32 copy
    // in pinned memory, valid until the next call. Waits for the stream.
    ConstTensorView fetch(const Context& context, const ConstTensorView& rows);

  private:
    ComputeDevice device_;
    DeviceMemory memory_;
    size_t capacity_ = 0;  // bytes
};

}  // namespace nvllm
