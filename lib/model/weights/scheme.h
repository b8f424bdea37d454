// How a linear is stored and multiplied: the table of quantized formats, and the list of parts that
// a linear is.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/ops/matmul.h"
#include "lib/model/weights/quantized_matrix.h"
#include "lib/model/weights/weight_source.h"

namespace nvllm {

// y = x W^T + b for one stored matrix. Immutable.
class LinearPart {
  public:
    virtual ~LinearPart() = default;

    virtual int64_t in() const = 0;
    virtual int64_t out() const = 0;
    // Bytes of weights, mapped or owned.
    virtual size_t bytes() const = 0;
    // x: float32 [tokens, in]; y: float32 [tokens, out]; rows of both may be strided.
    virtual void apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput output,
                       const TensorView& y) const = 0;
};

// Which axis of a stored matrix comes first.
enum class MatrixOrder : uint8_t {
    out_in,  // as matmuls take it
    in_out,  // GPT-2's Conv1D
};

// A linear in a checkpoint: its tensors are NAME.weight, NAME.bias and whatever a scheme adds.
struct LinearSpec {
    std::string name;
    int64_t in = 0;
    int64_t out = 0;
    bool bias = false;
    ShardAxis axis = ShardAxis::none;  // which side ranks share out
    // Of its outputs, where linears are stored in it side by side or consist of heads.
    std::vector<ShardPiece> pieces = {};
    MatrixOrder order = MatrixOrder::out_in;
    std::string tied_to = {};  // the embedding that is its dense matrix; empty: it has its own
    Shard shard = {};          // `in` and `out` are those of this slice
    // Of a slice of the inputs: the layer that applies it sums the results of the ranks.
    bool is_partial = false;

    // The tensor that is its dense matrix.
    std::string weight() const { return tied_to.empty() ? name + ".weight" : tied_to; }
    // What this rank has of a tensor [out, in] or [in, out], in any units of both.
    TensorSlice slice(MatrixOrder stored = MatrixOrder::out_in) const;
    // The linear that it is a slice of.
    LinearSpec whole() const;
};

// A rank's slice of a linear: equal shares of its outputs or inputs, or all of it. Throws
// bad_config when the ranks do not divide them. REQUIRES: a whole linear.
LinearSpec slice_of(const LinearSpec& linear, const Shard& shard);
// Why the linear cannot be shared out among so many ranks by multiples of this; empty: it can.
std::string why_not_cut(const LinearSpec& linear, int32_t ranks,
                        const ShardGranularity& granularity);
// Throws bad_config when the linear is a slice that this granularity does not allow.
void check_slice(const LinearSpec& linear, const ShardGranularity& granularity);

class QuantizedReader;

// One storage format, by the name that a checkpoint's config has for it.
struct WeightScheme {
    const char* name;
    // The matrix out of its tensors. Without values where the source has none. Throws bad_data.
    QuantizedMatrix (*read)(const QuantizedReader& reader);
    // The tensors of a matrix, named after `linear`. Throws bad_data for one that it cannot store.
    std::vector<NamedTensor> (*pack)(const QuantizedMatrix& matrix, const std::string& linear,
                                     DType scale_type);
    // Why the format has no place for a matrix [out, in] of these arguments; null: it has. Null
    // itself where a format follows from its arguments.
    const char* (*refuses)(const QuantizationArguments& arguments, int64_t out, int64_t in);
    // Whether linears that are MatrixOrder::in_out when dense are stored like all others.
    bool stores_in_out;
    // What a slice may not part.
    ShardGranularity (*granularity)(const QuantizationArguments& arguments);
};

// All formats of quantized linears.
std::span<const WeightScheme> weight_schemes();
// Throws bad_data when the format has no place for the linear with these arguments.
void check_storable(std::string_view format, const LinearSpec& linear,
                    const QuantizationArguments& arguments);
// What its storage does not allow to be parted.
ShardGranularity granularity_of(const WeightSource& source, const LinearSpec& linear);
// Whether the source keeps all values of this linear, unquantized.
bool is_dense(const WeightSource& source, const LinearSpec& linear);

// One or several matrices over the same x whose outputs lie side by side. Those of one storage
// format are one part and one matmul where an op supports that: dense ones each where it is stored,
// so that none is copied at load, quantized ones packed as one.
class LinearWeight {
  public:
    LinearWeight() = default;
    // `sums_ranks`: the parts are slices of the inputs; results are summed over the context's
    // ranks.
    explicit LinearWeight(std::vector<std::unique_ptr<LinearPart>> parts, bool sums_ranks = false);

    int64_t in() const { return parts_.empty() ? 0 : parts_.front()->in(); }
    // Columns of all parts together.
    int64_t out() const;
    // Whether its results are summed over ranks.
    bool sums_ranks() const { return sums_ranks_; }
    // Matmuls that it takes.
    size_t num_parts() const { return parts_.size(); }
    // The number by which adapters know it (LoraTargets); -1: none changes it.
    void set_lora_target(int32_t target) { lora_target_ = target; }
    size_t bytes() const;
    // x: float32 [tokens, in]; y: float32 [tokens, out]; rows of both may be strided.
    void apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput output,
               const TensorView& y) const;

  private:
    void apply_parts(const Context& context, const ConstTensorView& x, ops::MatmulOutput output,
                     const TensorView& y) const;

    std::vector<std::unique_ptr<LinearPart>> parts_;
    bool sums_ranks_ = false;
    int32_t lora_target_ = -1;
};

// The linear's matrix as float32 [out, in], however it is stored. Throws bad_data.
Tensor read_values(WeightSource& source, const LinearSpec& linear);
// The same of a matrix that is stored so, be it no linear.
Tensor read_values(WeightSource& source, const LinearSpec& linear,
                   const QuantizationScheme& scheme);

// Loads each name as one part: quantized where the source says so and does not keep it dense.
// Throws bad_data.
LinearWeight load_linear(WeightSource& source, std::span<const LinearSpec> names);
LinearWeight load_linear(WeightSource& source, const LinearSpec& name);
// A linear of one part that is there already; the source's hook wraps it like all others.
LinearWeight wrap_linear(WeightSource& source, const LinearSpec& name,
                         std::unique_ptr<LinearPart> part);

}  // namespace nvllm
