// A quantized matrix as it comes into being: scales chosen group by group, codes value by value.
//
// Scales have the precision in which they will be stored, so that what is measured while quantizing
// is what the file holds. Different rows may be filled by different threads when each row has
// scales of its own (per_row()).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lib/model/weights/quantized_matrix.h"

namespace nvllm::quantize {

class MatrixQuantizer {
  public:
    // `scale_type`: of stored scales where the format leaves it open. `largest`: the largest
    // magnitude of all matrices that share one global scale (tensor_group); 0: of none.
    MatrixQuantizer(const QuantizationArguments& arguments, int64_t out, int64_t in,
                    DType scale_type, float largest = 0.0f);

    // Whether every row has scales of its own.
    bool per_row() const { return per_row_; }
    // Columns of one scale: group_size, or all.
    int64_t group_columns() const { return group_columns_; }
    // The group of each column, where it is not column / group_columns().
    void set_group_index(std::span<const int32_t> groups);

    // The scale of a row's group from the range of its values.
    void choose(int64_t row, int64_t group, float minimum, float maximum);
    // All scales from a matrix float32 [out, in].
    void choose_all(const ConstTensorView& weight);
    // Stores the code nearest to the value; what it stands for. The quotient of value and scale is
    // rounded to `quotient_type` first.
    float quantize(int64_t row, int64_t column, float value, DType quotient_type = DType::f32);
    DType scale_type() const { return scale_type_; }

    QuantizedMatrix take();

  private:
    int64_t scale_index(int64_t row, int64_t column) const;
    void store(int64_t index, float minimum, float maximum);

    QuantizedMatrix matrix_;
    ScaleShape shape_;
    DType scale_type_;
    bool per_row_ = true;
    int64_t group_columns_ = 0;
    int64_t rows_of_scale_ = 1;
    std::vector<int32_t> groups_;  // of columns
    std::vector<float> effective_;
};

// The values of a float32 matrix [rows, columns] of which one scale is shared.
struct ValueRange {
    float minimum = 0.0f;
    float maximum = 0.0f;
    void add(float value) {
        minimum = value < minimum ? value : minimum;
        maximum = value > maximum ? value : maximum;
    }
};

// The largest magnitude of a float32 matrix.
float largest_magnitude(const ConstTensorView& weight);

// Each value rounded to nearest, in place: the weight becomes what the matrix stands for. Quotients
// are taken in the type of stored scales, as compressed-tensors takes them: a group's largest value
// is a tie there, and the codes are the same.
QuantizedMatrix round_matrix(const Context& context, MatrixQuantizer quantizer,
                             const TensorView& weight);

}  // namespace nvllm::quantize
