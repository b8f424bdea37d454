// Timing on the CPU by the clock, on a device by its events.
#include "lib/measure/kernels/kernel_bench.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/probe.h"
#include "lib/base/clock.h"

namespace nvllm {
namespace {

constexpr int kProbePasses = 3;
constexpr int64_t kLargestProduct = 8192;
// A processor that multiplies bfloat16 is twice as fast with it and more; another one converts it
// and is as fast as with float32, give or take what else runs.
constexpr double kFasterThanFloat32 = 1.4;

double host_seconds(const std::function<void()>& calls) {
    const MonotonicClock clock;
    const double begin_s = clock.now_s();
    calls();
    return clock.now_s() - begin_s;
}

}  // namespace

KernelBench::KernelBench(const KernelOptions& options)
    : shapes_(options.shapes),
      probe_bytes_(options.probe_bytes),
      device_(open_device(options.device)),
      threads_(options.threads),
      queue_(device_),
      scratch_(0, device_) {
    context_.device = device_.id();
    context_.stream = queue_.stream();
    context_.scratch = &scratch_;
    context_.threads = &threads_;
    context_.backend = device_.backend();
    context_.activations = device_.is_cpu() ? DType::f32 : shapes_.dtype;
    context_.host_scratch = &host_scratch_;
}

double KernelBench::seconds_of(const std::function<void()>& calls) {
    return device_.is_cpu() ? host_seconds(calls) : device_seconds(calls);
}

// Null where the backend keeps no graphs.
DeviceGraph KernelBench::captured(const std::function<void()>& calls) {
    if (!keeps_graphs_) return nullptr;
    const BackendTable& backend = *device_.backend();
    try {
        backend.begin_capture(device_.id().index, queue_.stream());
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::unavailable) throw;
        keeps_graphs_ = false;
        return nullptr;
    }
    calls();
    return backend.end_capture(device_.id().index, queue_.stream());
}

double KernelBench::device_seconds(const std::function<void()>& calls) {
    const BackendTable& backend = *device_.backend();
    const int index = device_.id().index;
    void* const stream = queue_.stream();
    const DeviceGraph graph = captured(calls);
    const DeviceEvent begin = backend.make_event(index, true);
    const DeviceEvent end = backend.make_event(index, true);
    backend.record(index, begin, stream);
    if (graph != nullptr) {
        backend.launch(index, graph, stream);
    } else {
        calls();
    }
    backend.record(index, end, stream);
    backend.await(index, end);
    const double seconds = backend.elapsed_ms(index, begin, end) * 1e-3;
    backend.end_event(index, begin);
    backend.end_event(index, end);
    if (graph != nullptr) backend.end_graph(index, graph);
    return seconds;
}

// Seconds of the fastest of a few passes.
double KernelBench::best_pass(const std::function<void()>& calls) {
    calls();
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kProbePasses; ++i) best = std::min(best, seconds_of(calls));
    return best;
}

double KernelBench::copied_gb_s(uint64_t bytes) {
    const DeviceMemory from = device_.allocate(bytes), to = device_.allocate(bytes);
    const double seconds =
        best_pass([&] { device_.copy_within(queue_.stream(), to.get(), from.get(), bytes); });
    return 2.0 * static_cast<double>(bytes) / seconds * 1e-9;
}

// Of a product of one row, which does little but read a matrix of so many bytes.
double KernelBench::read_by_product_gb_s(uint64_t bytes) {
    constexpr int64_t kIn = 8192;
    KernelShapes shapes = shapes_;
    shapes.working_set_bytes = 1;
    const auto rows = static_cast<int64_t>(bytes / (kIn * dtype_bytes(shapes.dtype)));
    const KernelCase product = plain_product(context_, shapes, 1, kIn, std::max<int64_t>(rows, 64));
    return product.bytes / best_pass([&] { product.run(0); }) * 1e-9;
}

// Of a square product whose three matrices together take the probe's bytes, or as much as tells the
// peak.
double KernelBench::product_gflop_s() {
    const double values =
        static_cast<double>(probe_bytes_) / (3.0 * static_cast<double>(dtype_bytes(shapes_.dtype)));
    KernelShapes shapes = shapes_;
    shapes.working_set_bytes = 1;
    const int64_t edge =
        std::clamp<int64_t>(static_cast<int64_t>(std::sqrt(values)) / 64 * 64, 64, kLargestProduct);
    const KernelCase product = plain_product(context_, shapes, edge, edge, edge);
    return product.flops / best_pass([&] { product.run(0); }) * 1e-9;
}

Roof KernelBench::probe() {
    Roof roof;
    if (!device_.is_cpu()) {
        roof.read_gb_s = std::max(copied_gb_s(probe_bytes_), read_by_product_gb_s(probe_bytes_));
        roof.product_gflop_s = product_gflop_s();
        roof.compute_dtype = shapes_.dtype;
        reset();
        return roof;
    }
    roof.read_gb_s = probe_read_bandwidth(threads_, probe_bytes_, kProbePasses);
    roof.float32_gflop_s = probe_float32_peak(threads_);
    roof.bfloat16_gflop_s = probe_bfloat16_peak(threads_);
    if (!multiplies_bf16_) {
        multiplies_bf16_ = roof.bfloat16_gflop_s > kFasterThanFloat32 * roof.float32_gflop_s;
    }
    const bool is_bf16 = shapes_.dtype == DType::bf16;
    roof.compute_dtype = is_bf16 && *multiplies_bf16_ ? DType::bf16 : DType::f32;
    roof.product_gflop_s =
        is_bf16 ? std::max(roof.float32_gflop_s, roof.bfloat16_gflop_s) : roof.float32_gflop_s;
    return roof;
}

double KernelBench::int8_gop_s() { return device_.is_cpu() ? probe_int8_peak(threads_) : 0.0; }

}  // namespace nvllm
