// The module's table: the device layer, the allocator before it, and the ops.
//
// The same file makes libnanovllm_cuda.so and the emulated twin.
#include <atomic>

#include "kernels/backend.h"
#include "kernels/cuda/activation.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_input.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/kv_cache.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/cuda/moe.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/quantized/dequantize_gemm.h"
#include "kernels/cuda/quantized/matmul_quantized.h"
#include "kernels/cuda/quantized/scaled_mm.h"
#include "kernels/cuda/rope.h"
#include "kernels/cuda/runtime/allocator.h"
#include "kernels/cuda/runtime/blas.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/sampling.h"

namespace nvllm::cuda {
namespace {

std::atomic<bool> is_batch_invariant{false};

void set_batch_invariant(int, bool on) { is_batch_invariant = on; }

// Which kernel is fastest depends on the number of rows, and so do bits, unless they must not.
void multiply(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
              const ConstTensorView& bias, DType compute_type, ops::MatmulOutput output,
              const TensorView& y) {
    if (y.numel() == 0) return;
    const bool invariant = is_batch_invariant;
    if (!invariant && can_multiply_few_rows(x, weight, compute_type)) {
        return matmul_few_rows(context, x, weight, bias, compute_type, output, y);
    }
    if (multiply_by_library(context, x, weight, bias, compute_type, output, invariant, y)) return;
    cuda::matmul(context, x, weight, bias, compute_type, output, y);
}

void multiply_quantized(const Context& context, const ConstTensorView& x,
                        const ops::QuantizedWeight& weight, const ConstTensorView& bias,
                        DType compute_type, ops::MatmulOutput output, const TensorView& y) {
    constexpr ScaledMmLibrary library = {library_takes_codes, multiply_codes_by_library};
    const bool may_differ = !is_batch_invariant && compute_type != DType::f32;
    if (may_differ && scaled_mm(context, x, weight, bias, output, y, library)) return;
    if (may_differ && can_dequantize(x, weight, compute_type)) {
        dequantize_gemm(context, x, weight, bias, compute_type, output, y, multiply);
    } else {
        cuda::matmul_quantized(context, x, weight, bias, compute_type, output, y);
    }
}

// Launches go to the calling thread's current device.
template <auto op>
struct OnDevice;
template <typename... Arguments, void (*op)(const Context&, Arguments...)>
struct OnDevice<op> {
    static void run(const Context& context, Arguments... arguments) {
        device::make_current(context.device.index);
        op(context, arguments...);
    }
};
template <auto op>
constexpr auto on_device = OnDevice<op>::run;

BackendOps make_ops() {
    BackendOps ops;
    ops.activation = on_device<activation>;
    ops.gated_activation = on_device<gated_activation>;
    ops.paged_attention = on_device<paged_attention>;
    ops.paged_attention_scratch_bytes = paged_attention_scratch_bytes;
    ops.add = on_device<add>;
    ops.soft_cap = on_device<soft_cap>;
    ops.gather_rows = on_device<gather_rows>;
    ops.convert = on_device<convert>;
    ops.embedding = on_device<embedding>;
    ops.write_kv = on_device<write_kv>;
    ops.copy_blocks = on_device<copy_blocks>;
    ops.stores_kv = nvllm::ops::is_kv_type;
    ops.matmul = on_device<multiply>;
    ops.matmul_scratch_bytes = matmul_scratch_bytes;
    ops.add_weighted_rows = on_device<add_weighted_rows>;
    ops.rms_norm = on_device<rms_norm>;
    ops.add_rms_norm = on_device<add_rms_norm>;
    ops.layer_norm = on_device<layer_norm>;
    ops.rope_cos_sin = on_device<rope_cos_sin>;
    ops.rope = on_device<rope>;
    ops.attention_input = on_device<attention_input>;
    ops.change_scores = on_device<change_scores>;
    ops.sample = on_device<sample>;
    ops.logprobs = on_device<logprobs>;
    ops.route = on_device<route>;
    ops.sort_by_expert = on_device<sort_by_expert>;
    ops.grouped_matmul = on_device<grouped_matmul>;
    ops.add_expert_outputs = on_device<add_expert_outputs>;
    ops.moe_scratch_bytes = moe_scratch_bytes;
    ops.fill_random = on_device<fill_random>;
    ops.can_multiply_quantized = can_multiply_quantized;
    ops.quantized_weight_bytes = quantized_weight_bytes;
    ops.pack_weight = on_device<pack_weight>;
    ops.matmul_quantized = on_device<multiply_quantized>;
    ops.matmul_quantized_scratch_bytes = matmul_quantized_scratch_bytes;
    return ops;
}

BackendTable make_table() {
    BackendTable table;
    table.name = NVLLM_BACKEND_NAME;
    table.kind = DeviceKind::cuda;
    table.look = device::look;
    table.memory = device::memory;
    table.allocate = allocate;
    table.release = release;
    table.trim = trim;
    table.allocate_pinned = device::allocate_pinned;
    table.release_pinned = device::release_pinned;
    table.copy = device::copy;
    table.fill = device::fill;
    table.make_stream = device::make_stream;
    table.end_stream = device::end_stream;
    table.synchronize = device::synchronize;
    table.make_event = device::make_event;
    table.end_event = device::end_event;
    table.record = device::record;
    table.wait = device::wait;
    table.is_done = device::is_done;
    table.await = device::await;
    table.elapsed_ms = device::elapsed_ms;
    table.begin_capture = device::begin_capture;
    table.end_capture = device::end_capture;
    table.launch = device::launch;
    table.end_graph = device::end_graph;
    table.set_batch_invariant = set_batch_invariant;
    table.max_head_dim = kMaxHeadDim;
    table.set_warn = warn_about_blas;
    table.ops = make_ops();
    return table;
}

}  // namespace
}  // namespace nvllm::cuda

NVLLM_BACKEND_ENTRY() {
    static const nvllm::BackendTable table = nvllm::cuda::make_table();
    return &table;
}
