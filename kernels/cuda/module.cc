// The module's table: the device layer, the allocator before it, and the ops.
//
// The same file makes libnanovllm_cuda.so and the emulated twin.
#include <atomic>

#include "kernels/backend.h"
#include "kernels/cuda/matmul/matmul_selection.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/allocator.h"
#include "kernels/cuda/runtime/blas.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/ops/backend_ops.h"

namespace nvllm::cuda {
namespace {

std::atomic<bool> is_batch_invariant{false};

void set_batch_invariant(int, bool on) { is_batch_invariant = on; }

MatmulSettings settings() {
    static constexpr GemmLibrary library = {multiply_by_library,
                                            {library_takes_scaled_mm, scaled_mm_by_library}};
    return {is_batch_invariant, &library};
}

}  // namespace

void matmul(const Context& context, const ConstTensorView& x, const ConstTensorView& weight,
            const ConstTensorView& bias, DType compute_type, ops::MatmulOutput output,
            const TensorView& y) {
    select_matmul({context, x, weight, bias, compute_type, output, y}, settings());
}

void matmul_quantized(const Context& context, const ConstTensorView& x,
                      const ops::QuantizedWeight& weight, const ConstTensorView& bias,
                      DType compute_type, ops::MatmulOutput output, const TensorView& y) {
    select_matmul_quantized({context, x, weight, bias, compute_type, output, y}, settings());
}

namespace {

// Launches go to the calling thread's current device. Ops without a context launch nothing, and in
// a dry run there may be no device.
template <auto op>
struct OnDevice {
    static constexpr auto run = op;
};
template <typename... Arguments, void (*op)(const Context&, Arguments...)>
struct OnDevice<op> {
    static void run(const Context& context, Arguments... arguments) {
        if (!context.is_dry_run()) device::make_current(context.device.index);
        op(context, arguments...);
    }
};
template <auto op>
constexpr auto on_device = OnDevice<op>::run;

BackendOps make_ops() {
    BackendOps ops;
#define NVLLM_BIND(name) ops.name = on_device<cuda::name>;
    NVLLM_DEVICE_OPS(NVLLM_BIND)
#undef NVLLM_BIND
    ops.stores_kv = nvllm::ops::is_kv_type;
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
    table.max_latent_dim = kMaxLatentDim;
    table.set_warn = warn_about_blas;
    static const BackendOps ops = make_ops();
    table.ops = &ops;
    return table;
}

}  // namespace
}  // namespace nvllm::cuda

NVLLM_BACKEND_ENTRY() {
    static const nvllm::BackendTable table = nvllm::cuda::make_table();
    return &table;
}
