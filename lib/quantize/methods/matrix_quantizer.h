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
    int64_t group_columns() const { return index_.columns(); }
    // The group of each column, where it is not column / group_columns(). REQUIRES: no scale has
    // been chosen.
    void set_group_index(std::span<const int32_t> groups);

    // The scale of a row's group from the range of its values.
    void choose(int64_t row, int64_t group, float minimum, float maximum);
    // All scales from a matrix float32 [out, in].
    void choose_all(const ConstTensorView& weight);
    // Stores the code nearest to the value; what it stands for.
    float quantize(int64_t row, int64_t column, float value);

    QuantizedMatrix take();

  private:
    void store(int64_t index, float minimum, float maximum);

    QuantizedMatrix matrix_;
    ScaleIndex index_;
    DType scale_type_;
    bool per_row_;
    std::vector<float> effective_;  // scales, by which values are divided
};

// The largest magnitude of a float32 matrix.
float largest_magnitude(const ConstTensorView& weight);

}  // namespace nvllm::quantize
