// Loading of quantized and sparse linears.
#include "lib/model/weights/quantized_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/context.h"
#include "kernels/error.h"
#include "kernels/ops/collective.h"
#include "kernels/ops/elementwise.h"
#include "lib/model/weights/dense.h"
#include "lib/model/weights/meta_weight_source.h"
#include "lib/model/weights/quantized_operands.h"
#include "lib/model/weights/quantized_reader.h"
#include "lib/model/weights/repack_cache.h"
#include "lib/model/weights/sparse_bitmask.h"

namespace nvllm {
namespace {

// The largest magnitude in each row of x, of which every rank has a slice: float32 [tokens].
TensorView maxima_of_ranks(const Context& context, const ConstTensorView& x, int32_t ranks) {
    const auto take = [&](int64_t columns) {
        const ViewLayout layout =
            ViewLayout::dense(DType::f32, {x.dim(0), columns}, context.device);
        return TensorView(context.scratch->take_array<float>(static_cast<size_t>(layout.numel())),
                          layout);
    };
    const TensorView own = take(1);
    const TensorView maxima = own.reshaped({x.dim(0)});
    ops::row_maxima(context, x, maxima);
    const TensorView all = take(ranks);
    ops::gather_columns(context, own, all);
    ops::row_maxima(context, all, maxima);
    return maxima;
}

class QuantizedPart : public LinearPart {
  public:
    // `ranks`: that have slices of the inputs.
    QuantizedPart(RepackedLinear repacked, Tensor bias, DType compute_type, int32_t ranks)
        : weight_(repacked.weight),
          ranks_(ops::rounds_by_rows(repacked.weight.activations) ? ranks : 1),
          packed_(std::move(repacked.packed)),
          columns_(std::move(repacked.columns)),
          bias_(std::move(bias)),
          compute_type_(compute_type) {
        weight_.packed = packed_.view();
        weight_.columns = columns_.view();
    }

    int64_t in() const override { return weight_.layout.in; }
    int64_t out() const override { return weight_.layout.out; }
    size_t bytes() const override { return packed_.bytes() + columns_.bytes() + bias_.bytes(); }

    void apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput output,
               const TensorView& y) const override {
        if (ranks_ == 1) {
            return ops::matmul_quantized(context, x, weight_, bias_.view(), compute_type_, output,
                                         y);
        }
        const ScratchArena::Scope scope(*context.scratch);
        ops::QuantizedWeight weight = weight_;
        weight.row_maxima = maxima_of_ranks(context, x, ranks_);
        ops::matmul_quantized(context, x, weight, bias_.view(), compute_type_, output, y);
    }

  private:
    ops::QuantizedWeight weight_;
    int32_t ranks_;   // that round the same rows; 1: this one alone
    Tensor packed_;   // as ops::pack_weight() writes it
    Tensor columns_;  // int32 [in], or empty
    Tensor bias_;     // [out], or empty
    DType compute_type_;
};

ComputeTarget target_of(const WeightSource& source) {
    ComputeTarget target;
    target.backend = source.device().backend();
    if (!source.device().is_cpu()) target.activations = source.compute_type();
    return target;
}

// Codes, scales and zero points of a rank. Scales that all ranks share are not cut.
QuantizedMatrix cut_matrix(const QuantizedMatrix& whole, const LinearSpec& linear) {
    const TensorSlice slice = linear.slice();
    const ScaleShape shape = scale_shape(whole.arguments, linear.out, linear.in);
    QuantizedMatrix matrix = whole;
    matrix.codes = cut(whole.codes, slice);
    const int64_t rank_scales = slice.axis == 0 ? shape.rows : shape.columns;
    if (rank_scales == whole.scales.view().dim(slice.axis)) return matrix;
    matrix.scales = cut(whole.scales, slice);
    if (!whole.zero_points.empty()) matrix.zero_points = cut(whole.zero_points, slice);
    return matrix;
}

// As a file would say it: random weights rounded to nearest, or only their shapes.
QuantizedMatrix make_up(WeightSource& source, const LinearSpec& linear,
                        const QuantizedReader& reader) {
    if (source.has_values()) {
        const LinearSpec all = linear.whole();
        const Tensor dense =
            source.read(all.name + ".weight", {all.out, all.in}, WeightRole::matrix);
        const QuantizedMatrix whole =
            round_to_nearest(as_float32(source, dense).view(), reader.weights(),
                             source.compute_type(), source.threads());
        return linear.shard.is_whole() ? whole : cut_matrix(whole, linear);
    }
    source.read_slice(linear.name + ".weight", {linear.out, linear.in}, WeightRole::matrix,
                      linear.slice());
    QuantizedMatrix matrix = reader.make_matrix();
    matrix.scales = meta_tensor(DType::f32, {reader.scales().rows, reader.scales().columns});
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

PlainTensors plain_tensors(WeightSource& source, const LinearSpec& linear,
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
    const auto bytes = static_cast<int64_t>(ops::quantized_weight_bytes(layout, target_of(source)));
    if (!source.has_values()) return meta_tensor(DType::u8, {bytes}, source.device().id());
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
std::vector<ops::QuantizedLayout> layouts_of(const WeightSource& source, const LinearSpec& linear,
                                             const QuantizedMatrix& matrix, DType scale_type) {
    const std::optional<ops::QuantizedLayout> layout = operand_layout(matrix, scale_type);
    if (!layout) return {};
    std::vector<ops::QuantizedLayout> layouts = {*layout};
    if (layout->code == ops::WeightFormat::float8 && source.keeps_files() &&
        stores_sparse(source, linear)) {
        layouts.insert(layouts.begin(), *layout)->code = ops::WeightFormat::sparse_float8;
    }
    return layouts;
}

// The matmul rounds x as the scheme says where the device can, else to the compute type.
// Empty: it multiplies none of the layouts.
std::optional<ops::QuantizedWeight> operands_on_device(
    const WeightSource& source, const std::vector<ops::QuantizedLayout>& layouts,
    const ops::ActivationRounding& wanted) {
    for (const ops::ActivationRounding& rounding : {wanted, ops::ActivationRounding{}}) {
        for (const ops::QuantizedLayout& layout : layouts) {
            if (!ops::can_multiply_quantized(layout, rounding, target_of(source))) continue;
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
                                       : meta_tensor(DType::f32, {matrix.out(), matrix.in()});
    return make_dense_part(source.placed(as_type(source, dense, source.compute_type())),
                           std::move(bias), source.compute_type());
}

// AutoGPTQ gives every linear a bias.
bool has_any_bias(const WeightSource& source, const LinearSpec& linear) {
    return linear.bias || (source.keeps_files() && source.has(linear.name + ".bias"));
}

Tensor read_any_bias(WeightSource& source, const LinearSpec& linear) {
    LinearSpec with_bias = linear;
    with_bias.bias = has_any_bias(source, linear);
    return read_bias(source, with_bias);
}

std::string counted_name(const QuantizationScheme& scheme, ops::WeightFormat code) {
    return scheme_name(scheme) + (is_sparse(code) ? ", 2:4" : "");
}

// A matrix of values of this type whose scales are 1. Empty: no op multiplies it.
std::optional<ops::QuantizedLayout> sparse_layout(const SparseMatrix& matrix) {
    ops::QuantizedLayout layout;
    for (const ops::WeightFormat code :
         {ops::WeightFormat::sparse_bfloat16, ops::WeightFormat::sparse_float16}) {
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

// Under which packed linears are kept.
std::string fused_name(std::span<const LinearSpec> linears) {
    std::string name;
    for (const LinearSpec& linear : linears) name += (name.empty() ? "" : "+") + linear.name;
    const Shard& shard = linears.front().shard;
    if (!shard.is_whole()) name += fmt::format("[{}/{}]", shard.rank, shard.ranks);
    return name;
}

// As an earlier start packed them.
std::optional<RepackedLinear> find_kept(const WeightSource& source,
                                        std::span<const LinearSpec> linears) {
    if (source.repack_cache() == nullptr) return std::nullopt;
    int64_t out = 0;
    for (const LinearSpec& linear : linears) out += linear.out;
    auto kept = source.repack_cache()->find(fused_name(linears), linears.front().in, out);
    const bool is_usable =
        kept && ops::can_multiply_quantized(kept->weight.layout, kept->weight.activations,
                                            target_of(source));
    return is_usable ? std::move(kept) : std::nullopt;
}

// The same, instead of what the source has.
std::optional<RepackedLinear> take_kept(WeightSource& source, std::span<const LinearSpec> linears) {
    auto kept = find_kept(source, linears);
    if (!kept) return std::nullopt;
    for (const LinearSpec& linear : linears) source.pass_over(linear.name);
    return kept;
}

// A linear before it is packed.
struct StoredLinear {
    QuantizedMatrix matrix;  // with its columns in the order of the file
    Tensor bias;             // or empty
    // What the device multiplies with, without its views; empty: it multiplies nothing of the kind.
    std::optional<ops::QuantizedWeight> operands;
    PlainTensors plain;  // of the operands
    Tensor columns;      // alike, in host memory, or empty
};

StoredLinear read_quantized(WeightSource& source, const LinearSpec& linear,
                            const QuantizationScheme& scheme, const WeightScheme& format) {
    const QuantizedReader reader(source, linear, scheme);
    QuantizedMatrix matrix =
        source.keeps_files() ? format.read(reader) : make_up(source, linear, reader);
    StoredLinear stored;
    stored.bias = read_any_bias(source, linear);
    drop_zeros_without_meaning(source, matrix);
    stored.matrix = matrix;
    const bool in_order = put_in_order(source, matrix, stored.columns);
    const auto layouts = layouts_of(source, linear, matrix, reader.scale_type());
    if (in_order) {
        stored.operands = operands_on_device(source, layouts, operand_rounding(scheme, matrix));
    }
    source.quantized_linears().count(
        stored.operands ? counted_name(scheme, stored.operands->layout.code) : scheme_name(scheme),
        stored.operands.has_value());
    if (!stored.operands) return stored;
    stored.operands->factor = matrix.global_scale ? 1.0f / *matrix.global_scale : 1.0f;
    stored.plain = plain_tensors(source, linear, stored.operands->layout, matrix);
    return stored;
}

// Of how many ranks each has a slice of the inputs.
int32_t ranks_of_inputs(const LinearSpec& linear) {
    return linear.axis == ShardAxis::input ? linear.shard.ranks : 1;
}

std::unique_ptr<LinearPart> make_part(WeightSource& source, const std::string& name,
                                      StoredLinear stored, int32_t ranks) {
    if (!stored.operands) return widen(source, stored.matrix, std::move(stored.bias));
    RepackedLinear repacked;
    repacked.weight = *stored.operands;
    repacked.packed = pack(source, repacked.weight.layout, stored.plain);
    if (!stored.columns.empty()) repacked.columns = source.placed(stored.columns);
    if (source.repack_cache() != nullptr) source.repack_cache()->add(name, repacked);
    return std::make_unique<QuantizedPart>(std::move(repacked), std::move(stored.bias),
                                           source.compute_type(), ranks);
}

// Biases of a device lie there already.
bool have_biases_to_join(const WeightSource& source, std::span<const LinearSpec> linears) {
    const auto count = std::count_if(linears.begin(), linears.end(), [&](const LinearSpec& linear) {
        return has_any_bias(source, linear);
    });
    return count == 0 ||
           (source.device().is_cpu() && count == static_cast<std::ptrdiff_t>(linears.size()));
}

// Whether one product gives what these give, side by side.
bool can_be_fused(std::span<const StoredLinear> linears) {
    const StoredLinear& first = linears.front();
    return std::all_of(linears.begin(), linears.end(), [&](const StoredLinear& linear) {
        if (!first.operands || !linear.operands) return false;
        ops::QuantizedLayout layout = linear.operands->layout;
        layout.out = first.operands->layout.out;
        return layout == first.operands->layout && !is_sparse(layout.code) &&
               linear.operands->factor == first.operands->factor &&
               linear.operands->activations == first.operands->activations &&
               linear.matrix.group_index.empty() &&
               linear.bias.view().dtype == first.bias.view().dtype;
    });
}

// Rows of all below one another, `rows` of each: a tensor with one row has it for all of its own.
// Empty where the first is.
Tensor stacked(const WeightSource& source, std::span<const Tensor> tensors,
               std::span<const int64_t> rows) {
    if (tensors.front().empty()) return {};
    const ConstTensorView& first = tensors.front().view();
    const int64_t all_rows = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    const auto make = [&](std::initializer_list<int64_t> shape) {
        return source.has_values() ? Tensor::allocate(first.dtype, shape)
                                   : meta_tensor(first.dtype, shape);
    };
    const Tensor result = first.rank == 1 ? make({all_rows}) : make({all_rows, first.dim(1)});
    if (!source.has_values()) return result;
    const size_t row_bytes =
        static_cast<size_t>(first.rank == 1 ? 1 : first.dim(1)) * dtype_bytes(first.dtype);
    auto* target = result.mutable_view().as<std::byte>();
    for (size_t i = 0; i < tensors.size(); ++i) {
        const ConstTensorView& view = tensors[i].view();
        for (int64_t row = 0; row < rows[i]; ++row) {
            const auto offset = static_cast<size_t>(view.dim(0) == 1 ? 0 : row) * row_bytes;
            std::memcpy(target, view.as<std::byte>() + offset, row_bytes);
            target += row_bytes;
        }
    }
    return result;
}

StoredLinear joined(const WeightSource& source, std::span<const StoredLinear> linears) {
    std::vector<int64_t> rows;
    for (const StoredLinear& linear : linears) rows.push_back(linear.operands->layout.out);
    const auto stack = [&](const auto& tensor_of) {
        std::vector<Tensor> tensors;
        for (const StoredLinear& linear : linears) tensors.push_back(tensor_of(linear));
        return stacked(source, tensors, rows);
    };
    StoredLinear all;
    all.operands = linears.front().operands;
    all.operands->layout.out = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    all.bias = stack([](const StoredLinear& linear) { return linear.bias; });
    all.plain.codes = stack([](const StoredLinear& linear) { return linear.plain.codes; });
    all.plain.scales = stack([](const StoredLinear& linear) { return linear.plain.scales; });
    all.plain.zero_points =
        stack([](const StoredLinear& linear) { return linear.plain.zero_points; });
    return all;
}

// Biases of linears that were kept as one.
Tensor fused_bias(WeightSource& source, std::span<const LinearSpec> linears) {
    std::vector<Tensor> biases;
    std::vector<int64_t> rows;
    for (const LinearSpec& linear : linears) {
        biases.push_back(read_any_bias(source, linear));
        rows.push_back(linear.out);
    }
    return linears.size() == 1 ? biases.front() : stacked(source, biases, rows);
}

}  // namespace

std::vector<std::unique_ptr<LinearPart>> load_quantized(WeightSource& source,
                                                        std::span<const LinearSpec> linears,
                                                        const QuantizationScheme& scheme,
                                                        const WeightScheme& format) {
    std::vector<std::unique_ptr<LinearPart>> parts;
    const int32_t ranks = ranks_of_inputs(linears.front());
    if (auto kept = take_kept(source, linears)) {
        for (size_t i = 0; i < linears.size(); ++i) {
            source.quantized_linears().count(counted_name(scheme, kept->weight.layout.code), true);
        }
        parts.push_back(std::make_unique<QuantizedPart>(
            *std::move(kept), fused_bias(source, linears), source.compute_type(), ranks));
        return parts;
    }
    if (linears.size() > 1 && find_kept(source, linears.first(1))) {  // it could not be joined
        for (const LinearSpec& linear : linears) {
            parts.push_back(std::move(load_quantized(source, {&linear, 1}, scheme, format)[0]));
        }
        return parts;
    }
    std::vector<StoredLinear> stored;
    for (const LinearSpec& linear : linears) {
        stored.push_back(read_quantized(source, linear, scheme, format));
    }
    if (linears.size() > 1 && have_biases_to_join(source, linears) && can_be_fused(stored)) {
        parts.push_back(make_part(source, fused_name(linears), joined(source, stored), ranks));
        return parts;
    }
    for (size_t i = 0; i < linears.size(); ++i) {
        parts.push_back(
            make_part(source, fused_name(linears.subspan(i, 1)), std::move(stored[i]), ranks));
    }
    return parts;
}

std::unique_ptr<LinearPart> load_sparse(WeightSource& source, const LinearSpec& linear) {
    constexpr const char* kName = "2:4";
    if (auto kept = take_kept(source, {&linear, 1})) {
        source.quantized_linears().count(kName, true);
        return std::make_unique<QuantizedPart>(*std::move(kept), read_bias(source, linear),
                                               source.compute_type(), 1);
    }
    SparseMatrix matrix = read_sparse(source, linear, {DType::bf16, DType::f16, DType::f32});
    // For products in float32 16 bits stay as they are: no value would change.
    if (source.compute_type() != DType::f32) {
        matrix.kept = as_type(source, matrix.kept, source.compute_type());
    }
    Tensor bias = read_bias(source, linear);
    const std::optional<ops::QuantizedLayout> layout = sparse_layout(matrix);
    const bool is_native = layout && ops::can_multiply_quantized(*layout, {}, target_of(source));
    source.quantized_linears().count(kName, is_native);
    if (!is_native) {
        const Tensor dense = as_product_matrix(source, with_zeros(source, matrix));
        return make_dense_part(source.placed(dense), std::move(bias), source.compute_type());
    }
    RepackedLinear repacked;
    repacked.weight.layout = *layout;
    repacked.packed = pack(source, *layout, {matrix.kept, scale_of_one(), {}, matrix.places});
    if (source.repack_cache() != nullptr)
        source.repack_cache()->add(fused_name({&linear, 1}), repacked);
    return std::make_unique<QuantizedPart>(std::move(repacked), std::move(bias),
                                           source.compute_type(), 1);
}

}  // namespace nvllm
