// A module's device for tests: a context on it, and tensors that go there and come back.
#pragma once

#include <string>
#include <vector>

#include "../testing.h"
#include "kernels/ops/open_backend.h"

namespace testing {

// Views of device memory that live as long as it does.
class DeviceMachine {
  public:
    explicit DeviceMachine(const nvllm::BackendTable& backend)
        : device_(backend, 0),
          queue_(device_),
          scratch_(size_t{1} << 20, device_),
          host_scratch_(size_t{1} << 16),
          threads_(1) {
        context_.device = device_.id();
        context_.stream = queue_.stream();
        context_.scratch = &scratch_;
        context_.host_scratch = &host_scratch_;
        context_.threads = &threads_;
        context_.backend = &backend;
    }
    ~DeviceMachine() { device_.synchronize(queue_.stream()); }

    const nvllm::Context& context() const { return context_; }
    const nvllm::ComputeDevice& device() const { return device_; }

    nvllm::TensorView put(const nvllm::ConstTensorView& host) {
        const size_t bytes = bytes_of(host);
        kept_.push_back(device_.allocate(bytes));
        device_.copy_in(queue_.stream(), kept_.back().get(), host.data, bytes);
        nvllm::TensorView view(kept_.back().get(), host);
        view.device = device_.id();
        return view;
    }
    // The values of `dtype` as floats.
    nvllm::TensorView put(nvllm::DType dtype, const std::vector<float>& values,
                          std::initializer_list<int64_t> shape) {
        Buffer buffer(dtype, values);
        return put(buffer.view(shape));
    }
    nvllm::TensorView put(std::vector<int32_t> values, std::initializer_list<int64_t> shape) {
        return put(view(values, shape));
    }
    // REQUIRES: a contiguous view of floats.
    std::vector<float> get(const nvllm::ConstTensorView& of_device) {
        Buffer buffer(of_device.dtype, of_device.numel());
        device_.copy_out(queue_.stream(), buffer.view({of_device.numel()}).data, of_device.data,
                         bytes_of(of_device));
        device_.synchronize(queue_.stream());
        std::vector<float> values;
        for (int64_t i = 0; i < buffer.size(); ++i) values.push_back(buffer[i]);
        return values;
    }

  private:
    static size_t bytes_of(const nvllm::ViewLayout& layout) {
        return static_cast<size_t>(layout.numel()) * nvllm::dtype_bytes(layout.dtype);
    }

    nvllm::ComputeDevice device_;
    nvllm::Stream queue_;
    nvllm::ScratchArena scratch_;
    nvllm::ScratchArena host_scratch_;
    nvllm::ThreadPool threads_;
    nvllm::Context context_;
    std::vector<nvllm::DeviceMemory> kept_;
};

}  // namespace testing
