// Fills one chunk while the other is on its way.
#include "lib/tensor/upload.h"

#include <algorithm>
#include <cstring>

namespace nvllm {
namespace {

constexpr size_t kChunkBytes = size_t{16} << 20;
constexpr int64_t kGrainBytes = int64_t{1} << 20;

}  // namespace

Uploader::Chunk::Chunk(const ComputeDevice& device)
    : memory(device.allocate_host(kChunkBytes)), sent(device) {
    sent.record(nullptr);
}

Uploader::Uploader(const ComputeDevice& device, ThreadPool& threads)
    : device_(device), threads_(threads) {}

Tensor Uploader::upload(const Tensor& tensor) {
    if (device_.is_cpu() || tensor.empty()) return tensor;
    const Tensor result = Tensor::allocate(tensor.view(), device_);
    upload_into(tensor, result.mutable_view());
    return result;
}

void Uploader::upload_into(const Tensor& tensor, const TensorView& target) {
    if (queue_ == nullptr) queue_ = std::make_unique<Stream>(device_);
    const ConstTensorView& from = tensor.view();
    NVLLM_CHECK(from.contiguous() && target.contiguous() && from.dtype == target.dtype &&
                    from.numel() == target.numel(),
                "what is uploaded lies side by side, here and there");
    auto* const to = target.as<std::byte>();
    for (size_t done = 0; done < tensor.bytes(); done += kChunkBytes) {
        std::unique_ptr<Chunk>& chunk = chunks_[next_++ % chunks_.size()];
        if (chunk == nullptr) chunk = std::make_unique<Chunk>(device_);
        chunk->sent.await();
        const size_t bytes = std::min(kChunkBytes, tensor.bytes() - done);
        const std::byte* const source = from.as<std::byte>() + done;
        threads_.parallel_for(static_cast<int64_t>(bytes), kGrainBytes,
                              [&](int64_t begin, int64_t end, int) {
                                  std::memcpy(chunk->memory.get() + begin, source + begin,
                                              static_cast<size_t>(end - begin));
                              });
        device_.copy_in(queue_->stream(), to + done, chunk->memory.get(), bytes);
        chunk->sent.record(queue_->stream());
    }
}

void Uploader::finish() {
    if (queue_ != nullptr) device_.synchronize(queue_->stream());
}

}  // namespace nvllm
