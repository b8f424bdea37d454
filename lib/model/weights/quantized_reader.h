// The tensors of one quantized linear as a source keeps them: checked reads for every format.
#pragma once

#include <initializer_list>
#include <string>

#include "lib/model/weights/quantized_matrix.h"
#include "lib/model/weights/scheme.h"

namespace nvllm {

// Used while a linear is loaded; refers to all it is made of.
class QuantizedReader {
  public:
    QuantizedReader(WeightSource& source, const LinearSpec& linear,
                    const QuantizationScheme& scheme)
        : source_(source), linear_(linear), scheme_(scheme), scale_type_(source.compute_type()) {}

    int64_t in() const { return linear_.in; }
    int64_t out() const { return linear_.out; }
    // The linear that this one is a slice of, or itself.
    LinearSpec whole() const { return linear_.whole(); }
    const QuantizationArguments& weights() const { return *scheme_.weights; }
    ThreadPool& threads() const { return source_.threads(); }
    bool has_values() const { return source_.has_values(); }
    bool has(const char* suffix) const { return source_.has(name(suffix)); }

    // NAME.suffix, of this shape or of this many elements in any shape; what this rank has of it
    // where the linear is a slice. `order`: which side of the linear its rows are. Throw bad_data.
    Tensor read(const char* suffix, std::initializer_list<int64_t> shape,
                std::initializer_list<DType> types, MatrixOrder order = MatrixOrder::out_in) const;
    Tensor read_flat(const char* suffix, int64_t count, std::initializer_list<DType> types) const;
    // Whether NAME.suffix is there in this shape.
    bool source_has_shape(const char* suffix, std::initializer_list<int64_t> shape) const {
        return source_.has_shape(name(suffix), shape);
    }
    // The same of the whole linear, also where this one is a slice; own() cuts it.
    Tensor read_whole(const char* suffix, std::initializer_list<int64_t> shape,
                      std::initializer_list<DType> types) const;
    Tensor read_whole_flat(const char* suffix, int64_t count,
                           std::initializer_list<DType> types) const;
    // In float32. Throws bad_data also where one is not finite.
    Tensor read_whole_scales(const char* suffix, int64_t rows, int64_t columns) const;
    Tensor read_whole_scales(const char* suffix, int64_t count) const;
    // What this rank has of a matrix with a row for each output of the whole linear, whose columns
    // lie along its inputs.
    Tensor own(const Tensor& whole) const;
    // Values of NAME.suffix; 0: there is no such tensor.
    int64_t count_of(const char* suffix) const { return source_.count_of(name(suffix)); }
    // NAME.weight [out, in], or what is kept of it under a bit mask.
    Tensor read_matrix(DType type) const;
    // Two sizes of the whole linear.
    Tensor read_shape(const char* suffix) const;
    // Zero points in a byte each, of the shape that scales() says, stored in any shape.
    Tensor read_bytes_of_scales(const char* suffix) const;
    // One float; empty when there is no such tensor.
    std::optional<float> read_number(const char* suffix) const;
    // NAME.suffix of any float type (with E4M3 or exponents where `types` has them), as float32 of
    // the shape that scales() says; single columns and numbers may be stored in any shape. Throws
    // bad_data also where a scale is not finite.
    Tensor read_scales(const char* suffix, std::initializer_list<DType> types = {
                                               DType::f32, DType::bf16, DType::f16}) const;

    // NAME.suffix stored [groups, out], as scales() says.
    Tensor read_turned_scales(const char* suffix) const;

    // A matrix with memory for quantized values and, unless symmetric, zero points; nothing behind
    // them where the source has no values. Scales are left to the caller.
    QuantizedMatrix make_matrix() const;
    Tensor make_scales() const;
    // The same around codes that are there.
    QuantizedMatrix make_matrix(Tensor codes) const;
    Tensor make_zero_points() const;
    // The narrowest type that holds all scales that were read exactly; before that, of scales made
    // up: the compute type.
    DType scale_type() const { return scale_type_; }
    ScaleShape scales() const { return scale_shape(weights(), out(), in()); }
    // int32 [in] with every value a group of this rank's. Throws bad_data.
    Tensor read_group_index(const char* suffix) const;

    // FILE: tensor NAME.suffix
    std::string place(const char* suffix) const;
    // Throws bad_data: place() WHAT.
    [[noreturn]] void refuse(const char* suffix, const std::string& what) const;

  private:
    std::string name(const char* suffix) const { return linear_.name + "." + suffix; }
    // Whether a rank has some of the columns that scales have in the file.
    bool cuts_scale_columns() const;
    void keep_type(DType stored) const;
    void widen_scales(const char* suffix, const Tensor& stored, const Tensor& scales) const;
    Tensor make(DType type, int64_t rows, int64_t columns) const;

    WeightSource& source_;
    const LinearSpec& linear_;
    const QuantizationScheme& scheme_;
    mutable DType scale_type_;
};

// Reading and packing of each format, rows of weight_schemes().
QuantizedMatrix read_packed_integers(const QuantizedReader& reader);
std::vector<NamedTensor> pack_integers(const QuantizedMatrix& matrix, const std::string& linear,
                                       DType scale_type);
QuantizedMatrix read_codes(const QuantizedReader& reader);
std::vector<NamedTensor> pack_codes(const QuantizedMatrix& matrix, const std::string& linear,
                                    DType scale_type);
QuantizedMatrix read_float8_blocks(const QuantizedReader& reader);
std::vector<NamedTensor> pack_float8_blocks(const QuantizedMatrix& matrix,
                                            const std::string& linear, DType scale_type);
QuantizedMatrix read_mxfp8(const QuantizedReader& reader);
std::vector<NamedTensor> pack_mxfp8(const QuantizedMatrix& matrix, const std::string& linear,
                                    DType scale_type);
QuantizedMatrix read_nvfp4(const QuantizedReader& reader);
std::vector<NamedTensor> pack_nvfp4(const QuantizedMatrix& matrix, const std::string& linear,
                                    DType scale_type);
QuantizedMatrix read_nvfp4_modelopt(const QuantizedReader& reader);
std::vector<NamedTensor> pack_nvfp4_modelopt(const QuantizedMatrix& matrix,
                                             const std::string& linear, DType scale_type);
QuantizedMatrix read_mxfp4(const QuantizedReader& reader);
std::vector<NamedTensor> pack_mxfp4(const QuantizedMatrix& matrix, const std::string& linear,
                                    DType scale_type);
QuantizedMatrix read_awq(const QuantizedReader& reader);
std::vector<NamedTensor> pack_awq(const QuantizedMatrix& matrix, const std::string& linear,
                                  DType scale_type);
QuantizedMatrix read_awq_gemv(const QuantizedReader& reader);
std::vector<NamedTensor> pack_awq_gemv(const QuantizedMatrix& matrix, const std::string& linear,
                                       DType scale_type);
QuantizedMatrix read_awq_gemv_fast(const QuantizedReader& reader);
std::vector<NamedTensor> pack_awq_gemv_fast(const QuantizedMatrix& matrix,
                                            const std::string& linear, DType scale_type);
QuantizedMatrix read_bitsandbytes4(const QuantizedReader& reader);
std::vector<NamedTensor> pack_bitsandbytes4(const QuantizedMatrix& matrix,
                                            const std::string& linear, DType scale_type);
QuantizedMatrix read_bitsandbytes8(const QuantizedReader& reader);
std::vector<NamedTensor> pack_bitsandbytes8(const QuantizedMatrix& matrix,
                                            const std::string& linear, DType scale_type);
ShardGranularity bitsandbytes_granularity(const QuantizationArguments& arguments);
ShardGranularity packed_integer_granularity(const QuantizationArguments& arguments);
ShardGranularity nibble_granularity(const QuantizationArguments& arguments);
ShardGranularity awq_granularity(const QuantizationArguments& arguments);
ShardGranularity awq_gemv_granularity(const QuantizationArguments& arguments);
ShardGranularity awq_gemv_fast_granularity(const QuantizationArguments& arguments);
ShardGranularity gptq_granularity(const QuantizationArguments& arguments);
const char* awq_refuses(const QuantizationArguments& arguments, int64_t out, int64_t in);
const char* gptq_refuses(const QuantizationArguments& arguments, int64_t out, int64_t in);
QuantizedMatrix read_gptq(const QuantizedReader& reader);
std::vector<NamedTensor> pack_gptq(const QuantizedMatrix& matrix, const std::string& linear,
                                   DType scale_type);
QuantizedMatrix read_gptq_true_zeros(const QuantizedReader& reader);
std::vector<NamedTensor> pack_gptq_true_zeros(const QuantizedMatrix& matrix,
                                              const std::string& linear, DType scale_type);

// float32 [out, groups] as float16 [groups, out].
Tensor turned_halves(const Tensor& scales);
// The biased exponents of scales that are powers of two. Throws bad_data for others.
Tensor exponents_of(const QuantizedMatrix& matrix, const std::string& linear);
// A float32 tensor in another float type.
Tensor in_type(const Tensor& values, DType type, std::initializer_list<int64_t> shape);

}  // namespace nvllm
