// Checks of matmuls with quantized weights, and the choice of device.
#include "kernels/ops/matmul_quantized.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::ops {
namespace {

void check_layout(const QuantizedLayout& layout) {
    const bool integers = layout.code == WeightFormat::int4 || layout.code == WeightFormat::int8;
    NVLLM_CHECK(layout.out >= 1 && layout.in >= 1 && layout.group_size >= 1 &&
                    (integers || !layout.has_zero_points) && is_float_type(layout.scale_type),
                "not the layout of a quantized matrix");
}

bool is_matrix(const ConstTensorView& view, DType type, int64_t rows, int64_t columns) {
    return view.dtype == type && view.rank == 2 && view.contiguous() && view.dim(0) == rows &&
           view.dim(1) == columns;
}

bool is_of_groups(const ConstTensorView& view, DType type, const QuantizedLayout& layout) {
    return is_matrix(view, type, layout.out, layout.groups()) ||
           is_matrix(view, type, 1, layout.groups());
}

void check_packed(const Context& context, const QuantizedLayout& layout, const ViewLayout& packed,
                  size_t bytes) {
    check_layout(layout);
    check_device(context, packed, "quantized weights");
    NVLLM_CHECK(packed.dtype == DType::u8 && packed.contiguous() &&
                    static_cast<size_t>(packed.numel()) == bytes,
                "quantized weights do not fit into " + packed.describe());
}

size_t bytes_on(const Context& context, const BackendOps* device, const QuantizedLayout& layout) {
    if (device != nullptr && device->quantized_weight_bytes == nullptr) {
        throw Error(ErrorKind::unavailable,
                    "the device's module has no matmuls with quantized weights");
    }
    return quantized_weight_bytes(layout, {context.backend, context.activations});
}

}  // namespace

bool can_multiply_quantized(const QuantizedLayout& layout, const ActivationRounding& activations,
                            const ComputeTarget& target) {
    check_layout(layout);
    const auto can =
        op_for(target, &BackendOps::can_multiply_quantized, &cpu::can_multiply_quantized);
    return can != nullptr && can(layout, activations, target);
}

size_t quantized_weight_bytes(const QuantizedLayout& layout, const ComputeTarget& target) {
    check_layout(layout);
    return op_for(target, &BackendOps::quantized_weight_bytes, &cpu::quantized_weight_bytes)(
        layout, target);
}

void pack_weight(const Context& context, const QuantizedLayout& layout,
                 const UnpackedQuantizedWeight& plain, const TensorView& packed) {
    const BackendOps* device = module_ops(context, "pack_weight");
    check_packed(context, layout, packed, bytes_on(context, device, layout));
    const bool sparse = is_sparse(layout.code);
    NVLLM_CHECK(!sparse || layout.in % 4 == 0, "sparse rows are of fours");
    NVLLM_CHECK(is_matrix(plain.codes, plain_type(layout.code), layout.out,
                          sparse ? layout.in / 2 : layout.in),
                "pack_weight cannot take codes " + plain.codes.describe());
    NVLLM_CHECK(sparse ? is_matrix(plain.places, DType::u8, layout.out, (layout.in + 7) / 8)
                       : plain.places.data == nullptr,
                "pack_weight cannot take places " + plain.places.describe());
    NVLLM_CHECK(is_of_groups(plain.scales, DType::f32, layout),
                "pack_weight cannot take scales " + plain.scales.describe());
    NVLLM_CHECK(layout.has_zero_points == (plain.zero_points.data != nullptr) &&
                    (!layout.has_zero_points || is_of_groups(plain.zero_points, DType::i8, layout)),
                "pack_weight cannot take zero points " + plain.zero_points.describe());
    run_unless_dry(context, device != nullptr ? device->pack_weight : cpu::pack_weight, layout,
                   plain, packed);
}

void matmul_quantized(const Context& context, const ConstTensorView& x,
                      const QuantizedWeight& weight, const ConstTensorView& bias,
                      DType compute_type, MatmulOutput output, const TensorView& y) {
    const BackendOps* device = module_ops(context, "matmul_quantized");
    const QuantizedLayout& layout = weight.layout;
    check_packed(context, layout, weight.packed, bytes_on(context, device, layout));
    check_rows(context, x, 2, "matmul_quantized");
    check_rows(context, y, 2, "matmul_quantized");
    NVLLM_CHECK(x.rank == 2 && y.rank == 2 && x.dim(1) == layout.in && y.dim(1) == layout.out &&
                    y.dim(0) == x.dim(0) && (y.dtype == x.dtype || y.dtype == DType::f32),
                "matmul_quantized: " + x.describe() + " to " + y.describe());
    NVLLM_CHECK(is_float_type(compute_type),
                std::string("matmul_quantized cannot multiply in ") + dtype_name(compute_type));
    if (weight.columns.data != nullptr) {
        check_device(context, weight.columns, "matmul_quantized columns");
        NVLLM_CHECK(weight.columns.dtype == DType::i32 && weight.columns.numel() == layout.in,
                    "matmul_quantized cannot take columns " + weight.columns.describe());
    }
    if (bias.data != nullptr) check_weights(context, bias, layout.out, "matmul_quantized bias");
    (device != nullptr ? device->matmul_quantized : cpu::matmul_quantized)(context, x, weight, bias,
                                                                           compute_type, output, y);
}

}  // namespace nvllm::ops
