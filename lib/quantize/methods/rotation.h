// Turning the residual stream by a randomised Hadamard matrix that is folded into the weights: no
// channel stands out any more, and the model computes what it did (QuIP#, Tseng et al. 2024;
// QuaRot, Ashkboos et al. 2024).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/model/weights/quantized_matrix.h"
#include "lib/quantize/hooked_model.h"

namespace nvllm::quantize {

// R = S H: signs drawn from a seed, then Hadamard matrices of the largest power of two that divides
// the size, one beside the other. R R^T is the identity.
class Rotation {
  public:
    Rotation(int64_t size, uint64_t seed);

    int64_t size() const { return static_cast<int64_t>(signs_.size()); }
    // Each row of a float32 matrix [rows, size], times R or R^T.
    void turn_rows(ThreadPool& threads, const TensorView& matrix, bool back) const;
    // Each column of a float32 matrix [size, columns]: R^T times it, or R.
    void turn_columns(ThreadPool& threads, const TensorView& matrix, bool back) const;

  private:
    std::vector<float> signs_;
    int64_t block_;
};

// Which side of each linear touches the residual stream.
enum class ResidualSide : uint8_t { none, reads, writes };

// A model whose residual stream is turned: norms become ones, and their weights and R go into the
// linears that read the stream; those that write it get R^T. Immutable.
class ModelRotation {
  public:
    // Throws bad_data for families of which it is not known how (norms behind layers, layer norms)
    // and for norm weights of 0.
    ModelRotation(const HookedModel& model, uint64_t seed);

    const Rotation& rotation() const { return rotation_; }
    static ResidualSide side_of(const std::string& linear);
    // Weights of the norm that this linear reads.
    std::vector<float> norm_before(const HookedModel& model, const std::string& linear) const;
    // Norms of a block as ones; outside of blocks the final norm, the embedding, and an output
    // matrix of its own where it was the embedding.
    std::vector<NamedTensor> tensors(const HookedModel& model, std::optional<int32_t> block) const;

  private:
    Rotation rotation_;
};

}  // namespace nvllm::quantize
