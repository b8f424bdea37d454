// Table look-up on the CPU.
#include "kernels/ops/cpu_ops.h"

#include <algorithm>
#include <string>

#include "kernels/cpu/simd/rows.h"

namespace nvllm::cpu {

void embedding(const Context& context, const ConstTensorView& table, const ConstTensorView& ids,
               float scale, const TensorView& out, const ops::TableRows& rows) {
    const int64_t hidden = table.dim(1);
    const auto upcast = kernels().upcast[float_type_index(table.dtype)];
    parallel_rows(context, ids.dim(0), hidden, [&](int64_t token) {
        const int64_t id = ids.as<int32_t>()[token] - rows.first;
        const bool exists = id >= 0 && id < table.dim(0);
        NVLLM_CHECK(exists || rows.is_part, "embedding: no row " + std::to_string(id));
        float* const to = out.as<float>() + token * out.stride(0);
        if (!exists) {
            std::fill_n(to, hidden, 0.0f);
            return;
        }
        upcast(element(table.data, table.dtype, id * table.stride(0)), scale, to, hidden);
    });
}

}  // namespace nvllm::cpu
