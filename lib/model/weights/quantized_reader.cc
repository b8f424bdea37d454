// Checked reads of a quantized linear's tensors.
#include "lib/model/weights/quantized_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "kernels/error.h"
#include "lib/model/weights/meta_weight_source.h"
#include "lib/model/weights/sparse_bitmask.h"
#include "lib/tensor/element.h"

namespace nvllm {
namespace {

// Of scales.
float value_at(const ConstTensorView& view, int64_t i) {
    switch (view.dtype) {
        case DType::f8_e4m3:
            return from_float8(view.as<uint8_t>()[i]);
        case DType::u8:
            return from_exponent(view.as<uint8_t>()[i]);
        default:
            return float_at(view, i);
    }
}

}  // namespace

Tensor QuantizedReader::read(const char* suffix, std::initializer_list<int64_t> shape,
                             std::initializer_list<DType> types, MatrixOrder order) const {
    return source_.read_stored(name(suffix), shape, types, linear_.slice(order));
}

Tensor QuantizedReader::read_shape(const char* suffix) const {
    return source_.read_stored(name(suffix), {2}, {DType::i64}, {});
}

Tensor QuantizedReader::read_flat(const char* suffix, int64_t count,
                                  std::initializer_list<DType> types) const {
    return source_.read_stored_flat(name(suffix), count, types, linear_.slice());
}

Tensor QuantizedReader::read_whole(const char* suffix, std::initializer_list<int64_t> shape,
                                   std::initializer_list<DType> types) const {
    return source_.read_stored(name(suffix), shape, types, {});
}

Tensor QuantizedReader::read_whole_flat(const char* suffix, int64_t count,
                                        std::initializer_list<DType> types) const {
    return source_.read_stored_flat(name(suffix), count, types, {});
}

Tensor QuantizedReader::read_whole_scales(const char* suffix, int64_t rows, int64_t columns) const {
    const Tensor stored =
        read_whole(suffix, {rows, columns}, {DType::f16, DType::bf16, DType::f32});
    keep_type(stored.view().dtype);
    Tensor scales = make(DType::f32, rows, columns);
    if (has_values()) widen_scales(suffix, stored, scales);
    return scales;
}

Tensor QuantizedReader::read_whole_scales(const char* suffix, int64_t count) const {
    const Tensor stored = read_whole_flat(suffix, count, {DType::f16, DType::bf16, DType::f32});
    keep_type(stored.view().dtype);
    if (!has_values()) return meta_tensor(DType::f32, {count});
    Tensor scales = Tensor::allocate(DType::f32, {count});
    widen_scales(suffix, stored, scales);
    return scales;
}

Tensor QuantizedReader::own(const Tensor& whole) const {
    const bool is_cut = linear_.axis != ShardAxis::none && !linear_.shard.is_whole();
    return is_cut ? cut(whole, linear_.slice()) : whole;
}

Tensor QuantizedReader::read_matrix(DType type) const {
    if (stores_sparse(source_, linear_)) {
        return with_zeros(source_, read_sparse(source_, linear_, {type}));
    }
    return read("weight", {out(), in()}, {type});
}

std::optional<float> QuantizedReader::read_number(const char* suffix) const {
    if (!has(suffix)) return std::nullopt;
    const Tensor stored = read_flat(suffix, 1, {DType::f32, DType::bf16, DType::f16});
    if (!has_values()) return 1.0f;
    const float value = value_at(stored.view(), 0);
    if (!std::isfinite(value) || value <= 0.0f) {
        refuse(suffix, fmt::format("is {}; a positive number is expected", value));
    }
    return value;
}

Tensor QuantizedReader::read_scales(const char* suffix, std::initializer_list<DType> types) const {
    const ScaleShape shape = this->scales();
    const bool is_line = shape.columns == 1 || shape.rows == 1;
    const Tensor stored = is_line && !cuts_scale_columns()
                              ? read_flat(suffix, shape.rows * shape.columns, types)
                              : read(suffix, {shape.rows, shape.columns}, types);
    keep_type(stored.view().dtype);
    Tensor scales = make(DType::f32, shape.rows, shape.columns);
    if (has_values()) widen_scales(suffix, stored, scales);
    return scales;
}

bool QuantizedReader::cuts_scale_columns() const {
    const LinearSpec whole = linear_.whole();
    return scale_shape(weights(), whole.out, whole.in).columns != scales().columns;
}

Tensor QuantizedReader::read_bytes_of_scales(const char* suffix) const {
    const ScaleShape shape = scales();
    return cuts_scale_columns() ? read(suffix, {shape.rows, shape.columns}, {DType::i8})
                                : read_flat(suffix, shape.rows * shape.columns, {DType::i8});
}

Tensor QuantizedReader::read_turned_scales(const char* suffix) const {
    const ScaleShape shape = scales();
    const Tensor stored = read(suffix, {shape.columns, shape.rows},
                               {DType::f16, DType::bf16, DType::f32}, MatrixOrder::in_out);
    keep_type(stored.view().dtype);
    Tensor turned = make(DType::f32, shape.rows, shape.columns);
    if (!has_values()) return turned;
    Tensor straight = make(DType::f32, shape.columns, shape.rows);
    widen_scales(suffix, stored, straight);
    for (int64_t i = 0; i < shape.rows * shape.columns; ++i) {
        turned.mutable_view().as<float>()[i] =
            straight.view().as<float>()[i % shape.columns * shape.rows + i / shape.columns];
    }
    return turned;
}

// bfloat16 holds every E4M3 and every exponent.
void QuantizedReader::keep_type(DType stored) const {
    const bool is_small = stored == DType::f8_e4m3 || stored == DType::u8;
    scale_type_ = is_small ? DType::bf16 : stored;
}

void QuantizedReader::widen_scales(const char* suffix, const Tensor& stored,
                                   const Tensor& scales) const {
    const TensorView out = scales.mutable_view();
    for (int64_t i = 0; i < out.numel(); ++i) {
        const float scale = value_at(stored.view(), i);
        if (!std::isfinite(scale)) {
            refuse(suffix, fmt::format("holds {} at place {}; scales are finite", scale, i));
        }
        out.as<float>()[i] = scale;
    }
}

Tensor QuantizedReader::make(DType type, int64_t rows, int64_t columns) const {
    return has_values() ? Tensor::allocate(type, {rows, columns})
                        : meta_tensor(type, {rows, columns});
}

QuantizedMatrix QuantizedReader::make_matrix() const {
    return make_matrix(make(DType::i8, out(), in()));
}

QuantizedMatrix QuantizedReader::make_matrix(Tensor codes) const {
    QuantizedMatrix matrix;
    matrix.arguments = weights();
    matrix.codes = std::move(codes);
    if (!weights().symmetric) matrix.zero_points = make_zero_points();
    return matrix;
}

Tensor QuantizedReader::make_scales() const {
    return make(DType::f32, scales().rows, scales().columns);
}

Tensor QuantizedReader::make_zero_points() const {
    return make(DType::i8, scales().rows, scales().columns);
}

Tensor QuantizedReader::read_group_index(const char* suffix) const {
    const bool is_cut = linear_.axis == ShardAxis::input && !linear_.shard.is_whole();
    const Tensor stored = source_.read_stored(name(suffix), {in()}, {DType::i32},
                                              is_cut ? TensorSlice{linear_.shard} : TensorSlice());
    if (!has_values()) return stored;
    // Groups are numbered from this rank's first one.
    Tensor index = is_cut ? Tensor::allocate(DType::i32, {in()}) : stored;
    const auto first = static_cast<int32_t>(is_cut ? linear_.shard.rank * scales().columns : 0);
    for (int64_t column = 0; column < in(); ++column) {
        const int32_t group = stored.view().as<int32_t>()[column] - first;
        if (is_cut) index.mutable_view().as<int32_t>()[column] = group;
        if (group < 0 || group >= scales().columns) {
            if (is_cut) {
                refuse(suffix,
                       "has groups of columns in an order of their own, whose inputs "
                       "cannot be divided among ranks");
            }
            refuse(suffix, fmt::format("puts column {} into group {} of {}", column, group,
                                       scales().columns));
        }
    }
    return index;
}

std::string QuantizedReader::place(const char* suffix) const {
    return fmt::format("{}: tensor {}", source_.place_of(name(suffix)), name(suffix));
}

void QuantizedReader::refuse(const char* suffix, const std::string& what) const {
    throw Error(ErrorKind::bad_data, place(suffix) + " " + what);
}

Tensor turned_halves(const Tensor& scales) {
    const int64_t rows = scales.view().dim(0);
    const int64_t groups = scales.view().dim(1);
    Tensor turned = Tensor::allocate(DType::f16, {groups, rows});
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t group = 0; group < groups; ++group) {
            turned.mutable_view().as<Float16>()[group * rows + row] =
                Float16(scales.view().as<float>()[row * groups + group]);
        }
    }
    return turned;
}

Tensor in_type(const Tensor& values, DType type, std::initializer_list<int64_t> shape) {
    Tensor result = Tensor::allocate(type, shape);
    const TensorView view = result.mutable_view();
    const auto* from = values.view().as<float>();
    for (int64_t i = 0; i < view.numel(); ++i) {
        if (type == DType::bf16) {
            view.as<BFloat16>()[i] = BFloat16(from[i]);
        } else if (type == DType::f16) {
            view.as<Float16>()[i] = Float16(from[i]);
        } else {
            view.as<float>()[i] = from[i];
        }
    }
    return result;
}

}  // namespace nvllm
