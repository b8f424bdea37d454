// A quantized matrix between those who make it and those who store or multiply it, and the
// arithmetic of scales that all of them share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/host/thread_pool.h"
#include "kernels/small_floats.h"
#include "lib/checkpoint/quantization_config.h"
#include "lib/model/weights/shard.h"
#include "lib/tensor/tensor.h"

namespace nvllm {

// What any method makes and any format stores: value = (code - zero point) * scale, divided by
// global_scale where there is one. Host memory.
struct QuantizedMatrix {
    QuantizationArguments arguments;
    // int8 [out, in]: signed integers; or the bits of an E4M3; or 0 .. 15, an E2M1 with its sign in
    // bit 3.
    Tensor codes;
    // float32 [out, groups]; channel: one column; tensor: [1, 1]; block: [ceil(out / rows), ceil(in
    // / columns)]. Of tensor_group: the stored local scales, as E4M3 holds them.
    Tensor scales;
    Tensor zero_points;        // int8, as scales; empty: symmetric
    Tensor group_index;        // int32 [in]: the group of each column; empty: column / group_size
    std::vector<float> table;  // what codes 0 .. 15 stand for instead; empty: what they are
    std::optional<float> global_scale;        // tensor_group
    std::optional<float> input_scale;         // static activations
    std::optional<float> input_global_scale;  // activations with local scales

    int64_t out() const { return codes.view().dim(0); }
    int64_t in() const { return codes.view().dim(1); }
};

// Rows and columns of the scales of a matrix [out, in].
struct ScaleShape {
    int64_t rows = 1;
    int64_t columns = 1;
    bool operator==(const ScaleShape&) const = default;
};
ScaleShape scale_shape(const QuantizationArguments& arguments, int64_t out, int64_t in);
// Outputs and inputs that share a scale, where it is not one of a whole row or matrix.
ShardGranularity scale_granularity(const QuantizationArguments& arguments);

// Where the scale of each weight lies. Refers to the matrix.
class ScaleIndex {
  public:
    ScaleIndex(const QuantizationArguments& arguments, int64_t out, int64_t in,
               const int32_t* group_index = nullptr);
    explicit ScaleIndex(const QuantizedMatrix& matrix);

    int64_t at(int64_t row, int64_t column) const {
        const int64_t group = group_index_ != nullptr ? group_index_[column] : column / columns_;
        return row / rows_ * groups_ + group;
    }
    // Rows and columns that share a scale, where no group index says otherwise.
    int64_t rows() const { return rows_; }
    int64_t columns() const { return columns_; }
    int64_t groups() const { return groups_; }

  private:
    int64_t rows_;
    int64_t columns_;
    int64_t groups_;
    const int32_t* group_index_;
};

// Of values that share a scale; 0 is always within.
struct ValueRange {
    float minimum = 0.0f;
    float maximum = 0.0f;
    void add(float value) {
        minimum = value < minimum ? value : minimum;
        maximum = value > maximum ? value : maximum;
    }
    float largest_magnitude() const { return -minimum > maximum ? -minimum : maximum; }
};
// Of each scale, in their order, the values of a float32 matrix [out, in].
std::vector<ValueRange> value_ranges(const ConstTensorView& weight, const ScaleIndex& index);

// The least and the greatest code of integers of so many bits.
int32_t lowest_code(const QuantizationArguments& arguments);
int32_t highest_code(const QuantizationArguments& arguments);

// One scale and its zero point.
struct ChosenScale {
    float scale = 1.0f;
    int8_t zero_point = 0;
};

// The scale for values in [minimum, maximum], as compressed-tensors chooses it: integers symmetric
// or not; float8 and float4 by the largest magnitude; MX a power of two; tensor_group (needs
// `global_scale`): rounded to E4M3. All others are rounded to `scale_type`, as which they will be
// stored. Never 0: a range of zeros gets the least scale that means anything in its type.
ChosenScale choose_scale(const QuantizationArguments& arguments, float minimum, float maximum,
                         std::optional<float> global_scale = std::nullopt,
                         DType scale_type = DType::f32);
// Of a tensor_group matrix whose largest magnitude is `largest`: 448 * 6 / largest.
float choose_global_scale(float largest);

// The code nearest to a value, ties to even, clamped to the range. `scale` is the whole factor: for
// tensor_group the local scale divided by the global one (effective_scale()).
int8_t quantize_value(const QuantizationArguments& arguments, float value, float scale,
                      int8_t zero_point = 0);
float dequantize_code(const QuantizationArguments& arguments, int8_t code, float scale,
                      int8_t zero_point = 0);
inline float effective_scale(float scale, std::optional<float> global_scale) {
    return global_scale ? scale / *global_scale : scale;
}

// The matrix as float32 [out, in].
void dequantize(const QuantizedMatrix& matrix, ThreadPool& threads, const TensorView& values);
Tensor dequantized(const QuantizedMatrix& matrix);
Tensor dequantized(const QuantizedMatrix& matrix, ThreadPool& threads);
// Each weight of a float32 [out, in] rounded to nearest with scales chosen from the weights alone,
// on all threads. Quotients are taken in the type of stored scales, as compressed-tensors takes
// them: a group's largest value is a tie there, and the codes are the same. `largest`: a magnitude
// that a global scale must also cover, of matrices that share it. REQUIRES: a
// float32 matrix.
QuantizedMatrix round_to_nearest(const ConstTensorView& weight,
                                 const QuantizationArguments& arguments, DType scale_type,
                                 ThreadPool& threads, float largest = 0.0f);

// A tensor as a file stores it.
struct NamedTensor {
    std::string name;
    Tensor tensor;
};

// The tensors of LINEAR.weight_packed, LINEAR.weight_scale, ... in this storage format, with scales
// in `scale_type` where the format leaves it open (pack-quantized, int-quantized, float-quantized:
// the model's type). Throws bad_data for a format that is unknown or cannot store such a matrix.
std::vector<NamedTensor> pack(const QuantizedMatrix& matrix, const std::string& linear_name,
                              std::string_view format, DType scale_type);

}  // namespace nvllm
