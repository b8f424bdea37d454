// Checks of the table look-up, and the choice of device.
#include "kernels/ops/embedding.h"

#include "kernels/ops/check.h"
#include "kernels/ops/cpu_ops.h"

namespace nvllm::ops {

void embedding(const Context& context, const ConstTensorView& table, const ConstTensorView& ids,
               float scale, const TensorView& out, const TableRows& rows) {
    const BackendOps* device = module_ops(context, "embedding");
    check_rows(context, out, 2, "embedding");
    NVLLM_CHECK(table.rank == 2 && is_float_type(table.dtype) && table.stride(1) == 1,
                "embedding cannot take the table " + table.describe());
    check_device(context, table, "embedding");
    NVLLM_CHECK(out.rank == 2 && out.dim(1) == table.dim(1), "embedding: to " + out.describe());
    check_vector(context, ids, DType::i32, out.dim(0), "embedding");
    run_unless_dry(context, device != nullptr ? device->embedding : cpu::embedding, table, ids,
                   scale, out, rows);
}

}  // namespace nvllm::ops
