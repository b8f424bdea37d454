// Loading of quantized and sparse linears.
#include "lib/model/weights/quantized_part.h"

#include <utility>
#include <vector>

#include "kernels/context.h"
#include "kernels/error.h"
#include "lib/model/weights/dense.h"
#include "lib/model/weights/outline_source.h"
#include "lib/model/weights/quantized_operands.h"
#include "lib/model/weights/quantized_reader.h"
#include "lib/model/weights/repack_cache.h"
#include "lib/model/weights/sparse_bitmask.h"

namespace nvllm {
namespace {

class QuantizedPart : public LinearPart {
  public:
    QuantizedPart(RepackedLinear repacked, Tensor bias, DType product_type)
        : weight_(repacked.weight),
          packed_(std::move(repacked.packed)),
          columns_(std::move(repacked.columns)),
          bias_(std::move(bias)),
          product_type_(product_type) {
        weight_.packed = packed_.view();
        weight_.columns = columns_.view();
    }

    int64_t in() const override { return weight_.layout.in; }
    int64_t out() const override { return weight_.layout.out; }
    size_t bytes() const override { return packed_.bytes() + columns_.bytes() + bias_.bytes(); }

    size_t scratch_bytes(int64_t tokens, const ScratchTerms& terms) const override {
        return ops::matmul_quantized_scratch_bytes(tokens, weight_.layout, terms);
    }

    void apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput output,
               const TensorView& y) const override {
        ops::matmul_quantized(context, x, weight_, bias_.view(), product_type_, output, y);
    }

  private:
    ops::QuantizedWeight weight_;
    Tensor packed_;   // as ops::pack_weight() writes it
    Tensor columns_;  // int32 [in], or empty
    Tensor bias_;     // [out], or empty
    DType product_type_;
};

ScratchTerms terms_of(const WeightSource& source) {
    ScratchTerms terms(source.threads().num_threads());
    terms.backend = source.device().backend();
    if (!source.device().is_cpu()) terms.activations = source.product_type();
    return terms;
}

// As a file would say it: random weights rounded to nearest, or only their shapes.
QuantizedMatrix make_up(WeightSource& source, const LinearName& linear,
                        const QuantizedReader& reader) {
    const Tensor dense =
        source.read(linear.name + ".weight", {linear.out, linear.in}, WeightRole::matrix);
    if (source.has_values()) {
        return round_to_nearest(as_float32(source, dense).view(), reader.weights(),
                                source.product_type(), source.threads());
    }
    QuantizedMatrix matrix = reader.make_matrix();
    matrix.scales = outline_tensor(DType::f32, {reader.scales().rows, reader.scales().columns});
    if (matrix.arguments.strategy == QuantizationStrategy::tensor_group) matrix.global_scale = 1.0f;
    return matrix;
}

bool all_zero(const Tensor& zeros) {
    const auto* values = zeros.view().as<int8_t>();
    for (int64_t i = 0; i < zeros.view().numel(); ++i) {
        if (values[i] != 0) return false;
    }
    return true;
}

// GPTQ stores zero points also where they are all in the middle.
void drop_zeros_without_meaning(const WeightSource& source, QuantizedMatrix& matrix) {
    if (matrix.zero_points.empty() || !matrix.arguments.symmetric) return;
    if (!source.has_values() || all_zero(matrix.zero_points)) matrix.zero_points = {};
}

// Columns as they will lie, where groups are not in their order; false: they cannot.
bool put_in_order(const WeightSource& source, QuantizedMatrix& matrix, Tensor& columns) {
    if (matrix.group_index.empty()) return true;
    if (!source.has_values()) {
        columns = matrix.group_index;
        return true;
    }
    const std::optional<Tensor> order = grouped_columns(matrix);
    if (!order) return false;
    columns = *order;
    matrix.codes = with_columns(matrix.codes, columns, source.threads());
    matrix.group_index = {};
    return true;
}

// In host memory, as ops::pack_weight() takes them; empty: none.
struct PlainTensors {
    Tensor codes;
    Tensor scales;
    Tensor zero_points;
    Tensor places;
};

PlainTensors plain_tensors(WeightSource& source, const LinearName& linear,
                           const ops::QuantizedLayout& layout, const QuantizedMatrix& matrix) {
    PlainTensors plain;
    if (!source.has_values()) return plain;
    plain.codes = matrix.codes;
    plain.scales = for_each_row(matrix, matrix.scales);
    if (layout.has_zero_points) plain.zero_points = for_each_row(matrix, matrix.zero_points);
    if (!is_sparse(layout.code)) return plain;
    const SparseMatrix stored = read_sparse(source, linear, {DType::f8_e4m3});
    plain.codes = Tensor::borrow(
        ConstTensorView(stored.kept.view().data, DType::i8, {matrix.out(), matrix.in() / 2}),
        std::make_shared<const Tensor>(stored.kept));
    plain.places = stored.places;
    return plain;
}

Tensor pack(WeightSource& source, const ops::QuantizedLayout& layout, const PlainTensors& plain) {
    const auto bytes = static_cast<int64_t>(ops::quantized_weight_bytes(layout, terms_of(source)));
    if (!source.has_values()) return outline_tensor(DType::u8, {bytes});
    // In memory of the device until it is packed there.
    const auto placed = [&](const Tensor& tensor) {
        return tensor.empty() ? Tensor() : source.placed(tensor);
    };
    const Tensor codes = placed(plain.codes);
    const Tensor scales = placed(plain.scales);
    const Tensor zeros = placed(plain.zero_points);
    const Tensor places = placed(plain.places);
    source.finish();
    Tensor packed = Tensor::allocate(DType::u8, {bytes}, source.device());
    ScratchArena scratch(0, source.device());
    ops::pack_weight(source.make_context(source.device(), scratch), layout,
                     {codes.view(), scales.view(), zeros.view(), places.view()},
                     packed.mutable_view());
    source.device().synchronize(nullptr);
    return packed;
}

// Layouts of a linear in the order they are preferred in: as few bytes as a file has of it.
std::vector<ops::QuantizedLayout> layouts_of(const WeightSource& source, const LinearName& linear,
                                             const QuantizedMatrix& matrix, DType scale_type) {
    const std::optional<ops::QuantizedLayout> layout = operand_layout(matrix, scale_type);
    if (!layout) return {};
    std::vector<ops::QuantizedLayout> layouts = {*layout};
    if (layout->code == ops::WeightCode::float8 && source.keeps_files() &&
        stores_sparse(source, linear)) {
        layouts.insert(layouts.begin(), *layout)->code = ops::WeightCode::sparse_float8;
    }
    return layouts;
}

// The product rounds x as the scheme says where the device can, else to the product type.
// Empty: it multiplies none of the layouts.
std::optional<ops::QuantizedWeight> operands_on_device(
    const WeightSource& source, const std::vector<ops::QuantizedLayout>& layouts,
    const ops::ActivationRounding& wanted) {
    for (const ops::ActivationRounding& rounding : {wanted, ops::ActivationRounding{}}) {
        for (const ops::QuantizedLayout& layout : layouts) {
            if (!ops::can_multiply_quantized(layout, rounding, terms_of(source))) continue;
            ops::QuantizedWeight operands;
            operands.layout = layout;
            operands.activations = rounding;
            return operands;
        }
    }
    return std::nullopt;
}

std::unique_ptr<LinearPart> widen(WeightSource& source, const QuantizedMatrix& matrix,
                                  Tensor bias) {
    Tensor dense = source.has_values() ? dequantized(matrix, source.threads())
                                       : outline_tensor(DType::f32, {matrix.out(), matrix.in()});
    return make_dense_part(source.placed(as_type(source, dense, source.product_type())),
                           std::move(bias), source.product_type());
}

// AutoGPTQ gives every linear a bias.
Tensor read_any_bias(WeightSource& source, const LinearName& linear) {
    LinearName with_bias = linear;
    with_bias.bias = linear.bias || (source.keeps_files() && source.has(linear.name + ".bias"));
    return read_bias(source, with_bias);
}

std::string counted_name(const QuantizationScheme& scheme, ops::WeightCode code) {
    return scheme_name(scheme) + (is_sparse(code) ? ", 2:4" : "");
}

// A matrix of values of this type whose scales are 1. Empty: no op multiplies it.
std::optional<ops::QuantizedLayout> sparse_layout(const SparseMatrix& matrix) {
    ops::QuantizedLayout layout;
    for (const ops::WeightCode code :
         {ops::WeightCode::sparse_bfloat16, ops::WeightCode::sparse_float16}) {
        if (matrix.kept.view().dtype != ops::plain_type(code)) continue;
        layout.code = code;
        layout.out = matrix.out();
        layout.in = matrix.in();
        layout.group_size = matrix.in();
        layout.scale_type = DType::bf16;
        return layout;
    }
    return std::nullopt;
}

Tensor scale_of_one() {
    Tensor scale = Tensor::allocate(DType::f32, {1, 1});
    *scale.mutable_view().as<float>() = 1.0f;
    return scale;
}

// As an earlier start packed it.
std::optional<RepackedLinear> kept_linear(WeightSource& source, const LinearName& linear) {
    if (source.repack_cache() == nullptr) return std::nullopt;
    auto kept = source.repack_cache()->find(linear.name, linear.in, linear.out);
    if (!kept || !ops::can_multiply_quantized(kept->weight.layout, kept->weight.activations,
                                              terms_of(source))) {
        return std::nullopt;
    }
    source.pass_over(linear.name);
    return kept;
}

}  // namespace

std::unique_ptr<LinearPart> load_quantized(WeightSource& source, const LinearName& linear,
                                           const QuantizationScheme& scheme,
                                           const WeightScheme& format) {
    if (auto kept = kept_linear(source, linear)) {
        source.quantized_linears().count(counted_name(scheme, kept->weight.layout.code), true);
        return std::make_unique<QuantizedPart>(*std::move(kept), read_any_bias(source, linear),
                                               source.product_type());
    }
    const QuantizedReader reader(source, linear, scheme);
    QuantizedMatrix matrix =
        source.keeps_files() ? format.read(reader) : make_up(source, linear, reader);
    Tensor bias = read_any_bias(source, linear);
    drop_zeros_without_meaning(source, matrix);
    Tensor columns;
    const QuantizedMatrix as_stored = matrix;
    const bool in_order = put_in_order(source, matrix, columns);
    const auto layouts = layouts_of(source, linear, matrix, reader.scale_type());
    const auto operands =
        in_order ? operands_on_device(source, layouts, operand_rounding(scheme, matrix))
                 : std::nullopt;
    source.quantized_linears().count(
        operands ? counted_name(scheme, operands->layout.code) : scheme_name(scheme),
        operands.has_value());
    if (!operands) return widen(source, as_stored, std::move(bias));
    RepackedLinear repacked;
    repacked.weight = *operands;
    repacked.weight.factor = matrix.global_scale ? 1.0f / *matrix.global_scale : 1.0f;
    repacked.packed =
        pack(source, operands->layout, plain_tensors(source, linear, operands->layout, matrix));
    if (!columns.empty()) repacked.columns = source.placed(columns);
    if (source.repack_cache() != nullptr) source.repack_cache()->add(linear.name, repacked);
    return std::make_unique<QuantizedPart>(std::move(repacked), std::move(bias),
                                           source.product_type());
}

std::unique_ptr<LinearPart> load_sparse(WeightSource& source, const LinearName& linear) {
    constexpr const char* kName = "2:4";
    if (auto kept = kept_linear(source, linear)) {
        source.quantized_linears().count(kName, true);
        return std::make_unique<QuantizedPart>(*std::move(kept), read_bias(source, linear),
                                               source.product_type());
    }
    SparseMatrix matrix = read_sparse(source, linear, {DType::bf16, DType::f16, DType::f32});
    // For products in float32 16 bits stay as they are: no value would change.
    if (source.product_type() != DType::f32) {
        matrix.kept = as_type(source, matrix.kept, source.product_type());
    }
    Tensor bias = read_bias(source, linear);
    const std::optional<ops::QuantizedLayout> layout = sparse_layout(matrix);
    const bool is_native = layout && ops::can_multiply_quantized(*layout, {}, terms_of(source));
    source.quantized_linears().count(kName, is_native);
    if (!is_native) {
        const Tensor dense = as_product_matrix(source, with_zeros(source, matrix));
        return make_dense_part(source.placed(dense), std::move(bias), source.product_type());
    }
    RepackedLinear repacked;
    repacked.weight.layout = *layout;
    repacked.packed = pack(source, *layout, {matrix.kept, scale_of_one(), {}, matrix.places});
    if (source.repack_cache() != nullptr) source.repack_cache()->add(linear.name, repacked);
    return std::make_unique<QuantizedPart>(std::move(repacked), std::move(bias),
                                           source.product_type());
}

}  // namespace nvllm
