// Checks of the element-wise ops, and the choice of device.
#include "kernels/ops/elementwise.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::ops {

void add(const Context& context, const ConstTensorView& x, const TensorView& y) {
    const BackendOps* device = module_ops(context, "add");
    check_rows(context, x, kMaxRank, "add");
    check_rows(context, y, kMaxRank, "add");
    NVLLM_CHECK(same_rows(x, y), "add: " + x.describe() + " to " + y.describe());
    run_unless_dry(context, device != nullptr ? device->add : cpu::add, x, y);
}

void copy(const Context& context, const ConstTensorView& x, const TensorView& out) {
    const BackendOps* device = module_ops(context, "copy");
    check_rows(context, x, 3, "copy");
    check_rows(context, out, 3, "copy");
    NVLLM_CHECK(same_rows(x, out), "copy: " + x.describe() + " to " + out.describe());
    run_unless_dry(context, optional_op(device, &BackendOps::copy, &cpu::copy, "copy"), x, out);
}

void soft_cap(const Context& context, float cap, const TensorView& x) {
    const BackendOps* device = module_ops(context, "soft_cap");
    check_rows(context, x, kMaxRank, "soft_cap");
    NVLLM_CHECK(cap > 0, "soft_cap needs a positive cap");
    run_unless_dry(context, device != nullptr ? device->soft_cap : cpu::soft_cap, cap, x);
}

void scale(const Context& context, float factor, const TensorView& x) {
    const BackendOps* device = module_ops(context, "scale");
    check_rows(context, x, kMaxRank, "scale");
    run_unless_dry(context, device != nullptr ? device->scale : cpu::scale, factor, x);
}

void scale_rows(const Context& context, const ConstTensorView& factors, const TensorView& x) {
    const BackendOps* device = module_ops(context, "scale_rows");
    check_rows(context, x, 2, "scale_rows");
    NVLLM_CHECK(x.rank == 2, "scale_rows cannot take " + x.describe());
    check_vector(context, factors, DType::f32, x.dim(0), "scale_rows");
    run_unless_dry(context, device != nullptr ? device->scale_rows : cpu::scale_rows, factors, x);
}

void row_maxima(const Context& context, const ConstTensorView& x, const TensorView& out) {
    const BackendOps* device = module_ops(context, "row_maxima");
    check_rows(context, x, 2, "row_maxima");
    NVLLM_CHECK(x.rank == 2, "row_maxima cannot take " + x.describe());
    check_vector(context, out, DType::f32, x.dim(0), "row_maxima");
    run_unless_dry(context, device != nullptr ? device->row_maxima : cpu::row_maxima, x, out);
}

void gather_rows(const Context& context, const ConstTensorView& x, const ConstTensorView& rows,
                 const TensorView& out) {
    const BackendOps* device = module_ops(context, "gather_rows");
    check_rows(context, x, 2, "gather_rows");
    check_rows(context, out, 2, "gather_rows");
    NVLLM_CHECK(x.rank == 2 && out.rank == 2 && out.dim(1) == x.dim(1) && x.dtype == out.dtype,
                "gather_rows: " + x.describe() + " to " + out.describe());
    check_vector(context, rows, DType::i32, out.dim(0), "gather_rows");
    run_unless_dry(context, device != nullptr ? device->gather_rows : cpu::gather_rows, x, rows,
                   out);
}

void convert(const Context& context, const ConstTensorView& x, const TensorView& out) {
    const BackendOps* device = module_ops(context, "convert");
    NVLLM_CHECK(is_float_type(x.dtype) && is_float_type(out.dtype) && x.numel() == out.numel() &&
                    x.contiguous() && out.contiguous(),
                "convert: " + x.describe() + " to " + out.describe());
    check_device(context, x, "convert");
    check_device(context, out, "convert");
    run_unless_dry(context, device != nullptr ? device->convert : cpu::convert, x, out);
}

void fill_random(const Context& context, uint64_t key, const ConstTensorView& table,
                 const TensorView& out) {
    const BackendOps* device = module_ops(context, "fill_random");
    const int64_t count = table.numel();
    NVLLM_CHECK(is_float_type(out.dtype) && out.contiguous() && count > 0 &&
                    count <= kLargestRandomTable && (count & (count - 1)) == 0,
                "fill_random: " + table.describe() + " to " + out.describe());
    check_vector(context, table, out.dtype, count, "fill_random");
    check_device(context, out, "fill_random");
    run_unless_dry(context,
                   optional_op(device, &BackendOps::fill_random, &cpu::fill_random, "fill_random"),
                   key, table, out);
}

}  // namespace nvllm::ops
