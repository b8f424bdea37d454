// Experts in one stack on a device against the same experts one by one on the CPU; nothing in
// between may wait for the host, so that a graph can hold it.
#include "lib/model/layers/expert_stack.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/host/dry_run.h"
#include "kernels/ops/open_backend.h"
#include "lib/model/layers/moe_mlp.h"
#include "lib/model/weights/dummy_source.h"
#include "lib/model/weights/meta_weight_source.h"

#ifdef NVLLM_TEST_EMULATED

namespace nvllm {
namespace {

constexpr int64_t kHidden = 16;
constexpr int64_t kInner = 12;
constexpr int64_t kTokens = 37;
constexpr int64_t kExperts = 6;

const BackendTable& emulated() {
    return open_backend(std::string(NVLLM_TEST_MODULES) + "/libnanovllm_cuda_emulated.so");
}

std::vector<ExpertLinears> linears() {
    std::vector<ExpertLinears> experts;
    for (int64_t e = 0; e < kExperts; ++e) {
        const std::string name = std::to_string(e);
        experts.push_back({{name + ".gate", kHidden, kInner, false},
                           {name + ".up", kHidden, kInner, false},
                           {name + ".down", kInner, kHidden, false}});
    }
    return experts;
}

MoeMlp one_by_one(WeightSource& source, int64_t per_token) {
    MoeMlp layer;
    layer.router = load_linear(source, {"router", kHidden, kExperts, false});
    layer.routing.experts_per_token = per_token;
    for (const ExpertLinears& expert : linears()) {
        Mlp mlp;
        mlp.in = load_linear(source, std::vector<LinearSpec>{expert.gate, expert.up});
        mlp.down = load_linear(source, expert.down);
        layer.experts.push_back(std::move(mlp));
    }
    return layer;
}

MoeMlp stacked(WeightSource& source, int64_t per_token) {
    MoeMlp layer;
    layer.router = load_linear(source, {"router", kHidden, kExperts, false});
    layer.routing.experts_per_token = per_token;
    REQUIRE(can_stack(source, linears()));
    layer.stack = load_expert_stack(source, linears(), {ops::Activation::silu});
    source.finish();
    return layer;
}

std::vector<float> inputs() {
    std::vector<float> x;
    for (int64_t i = 0; i < kTokens * kHidden; ++i) {
        x.push_back(20.0f * std::sin(static_cast<float>(i * i % 1009)));
    }
    return x;
}

std::vector<float> on_cpu(const MoeMlp& layer, ThreadPool& threads, std::vector<float> x) {
    ScratchArena scratch;
    Context context;
    context.scratch = &scratch;
    context.threads = &threads;
    std::vector<float> y(x.size(), 1.0f);
    layer.apply(context, {x.data(), DType::f32, {kTokens, kHidden}}, ops::MatmulOutput::accumulate,
                {y.data(), DType::f32, {kTokens, kHidden}});
    return y;
}

// As a graph that is captured before its input is there.
std::vector<float> on_device(const MoeMlp& layer, ThreadPool& threads,
                             const std::vector<float>& x) {
    const BackendTable& backend = emulated();
    const ComputeDevice device(backend, 0);
    const Stream queue(device);
    const DryRun dry(device, DType::f32, threads.num_threads());
    const TensorView rows = dry.view(DType::f32, {kTokens, kHidden});
    layer.apply(dry.context(), rows, ops::MatmulOutput::accumulate, rows);
    ScratchArena scratch(dry.scratch_bytes(), device);
    Context context{.device = device.id(), .stream = queue.stream(), .scratch = &scratch};
    context.threads = &threads;
    context.backend = &backend;
    const size_t bytes = x.size() * sizeof(float);
    const DeviceMemory x_memory = device.allocate(bytes);
    const DeviceMemory y_memory = device.allocate(bytes);
    const TensorView x_view(x_memory.get(), DType::f32, {kTokens, kHidden}, device.id());
    const TensorView y_view(y_memory.get(), DType::f32, {kTokens, kHidden}, device.id());
    backend.begin_capture(0, queue.stream());
    layer.apply(context, x_view, ops::MatmulOutput::accumulate, y_view);
    const DeviceGraph graph = backend.end_capture(0, queue.stream());
    CHECK(scratch.num_growths() == 0);
    CHECK(scratch.peak_bytes() == dry.scratch_bytes());
    std::vector<float> y(x.size(), 1.0f);
    device.copy_in(queue.stream(), x_view.data, x.data(), bytes);
    device.copy_in(queue.stream(), y_view.data, y.data(), bytes);
    backend.launch(0, graph, queue.stream());
    device.copy_out(queue.stream(), y.data(), y_view.data, bytes);
    device.synchronize(queue.stream());
    backend.end_graph(0, graph);
    return y;
}

}  // namespace

TEST_CASE("expert stack: a device computes what the CPU does, without a word to the host") {
    ThreadPool threads(2);
    for (const int64_t per_token : {1, 2, 6}) {
        DummySource host_source(11, DType::f32, threads);
        DummySource device_source(11, DType::f32, threads, ComputeDevice(emulated(), 0));
        const MoeMlp expected = one_by_one(host_source, per_token);
        const MoeMlp layer = stacked(device_source, per_token);
        CHECK(layer.bytes() == expected.bytes());
        const std::vector<float> theirs = on_cpu(expected, threads, inputs());
        const std::vector<float> ours = on_device(layer, threads, inputs());
        for (size_t i = 0; i < ours.size(); ++i) CHECK(std::abs(ours[i] - theirs[i]) < 1e-5f);
    }
}

TEST_CASE("dummy weights that a device makes are the host's") {
    ThreadPool threads(2);
    const ComputeDevice device(emulated(), 0);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        DummySource host(3, dtype, threads), on_device(3, dtype, threads, device);
        const Tensor expected = host.read_placed_matrix("a.weight", {37, 29}, {});
        const Tensor made = on_device.read_placed_matrix("a.weight", {37, 29}, {});
        CHECK(made.view().device == device.id());
        std::vector<std::byte> bytes(made.bytes());
        device.copy_out(nullptr, bytes.data(), made.view().data, bytes.size());
        device.synchronize(nullptr);
        CHECK(std::memcmp(bytes.data(), expected.view().data, bytes.size()) == 0);
    }
}

TEST_CASE("expert stack: an outline takes as much, and what cannot be stacked is left alone") {
    ThreadPool threads(1);
    const ComputeDevice device(emulated(), 0);
    MetaWeightSource metadata(DType::bf16, DType::f32, threads, device);
    DummySource host(11, DType::f32, threads);
    CHECK(stacked(metadata, 2).bytes() == one_by_one(host, 2).bytes());
    CHECK(!can_stack(host, linears()));
    std::vector<ExpertLinears> with_bias = linears();
    with_bias[3].up.bias = true;
    CHECK(!can_stack(metadata, with_bias));
}

}  // namespace nvllm

#endif
