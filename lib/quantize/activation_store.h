// The hidden states of all calibration samples between two blocks: in memory, or in a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "lib/tensor/tensor.h"

namespace nvllm::quantize {

class ActivationStore {
  public:
    // Room for samples of these lengths. `spill_folder` empty: in memory; else in a file there
    // that has no name. Throws does_not_fit, io (the disk is full).
    ActivationStore(const std::vector<std::vector<int32_t>>& samples, int64_t hidden_size,
                    const std::filesystem::path& spill_folder);
    ~ActivationStore();
    ActivationStore(const ActivationStore&) = delete;
    ActivationStore& operator=(const ActivationStore&) = delete;

    // float32 [tokens of the sample, hidden].
    TensorView sample(size_t index) const;
    // Gives the memory of a sample back when it lies in a file.
    void release(size_t index) const;

    static uint64_t bytes_of(int64_t num_tokens, int64_t hidden_size) {
        return static_cast<uint64_t>(num_tokens * hidden_size) * sizeof(float);
    }

  private:
    void map_file(const std::filesystem::path& folder);

    int64_t hidden_size_;
    std::vector<int64_t> starts_;  // first row of each sample, and the end
    uint64_t bytes_ = 0;
    Tensor memory_;
    std::byte* mapped_ = nullptr;
};

}  // namespace nvllm::quantize
