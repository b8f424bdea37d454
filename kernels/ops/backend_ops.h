// The table of ops of a backend module.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/ops/op_list.h"

namespace nvllm {

// The ops, with the signatures and contracts of kernels/ops/*.h. The views of a call are checked
// before the function of the table is called, and are in memory of the context's device. In a dry
// run (kernels/host/dry_run.h) an op takes its scratch and returns: views have no memory, and no
// device need be there. Optional ops may be null.
struct BackendOps {
    // The check of versions: all ops of the list are in the table.
    uint32_t table_bytes = sizeof(BackendOps);

#define NVLLM_MEMBER(name) decltype(&ops::name) name = nullptr;
    NVLLM_DEVICE_OPS(NVLLM_MEMBER)
#undef NVLLM_MEMBER

    // Whether the ops that read and write KV storage take this type; null: float32, bfloat16 and
    // float16.
    bool (*stores_kv)(DType dtype) = nullptr;
};

// Calls visit(name, function) for every op that a module must have.
template <typename Visit>
void visit_functions(const BackendOps& ops, Visit&& visit) {
#define NVLLM_VISIT(name) visit(#name, ops.name);
    NVLLM_REQUIRED_DEVICE_OPS(NVLLM_VISIT)
#undef NVLLM_VISIT
}

}  // namespace nvllm
