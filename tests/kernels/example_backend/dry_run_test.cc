// Tests of dry runs on every module that was built for tests: ops take in them what they take when
// they compute.
#include <filesystem>
#include <string_view>

#include "../op_scratch_cases.h"
#include "kernels/ops/backend_ops.h"
#include "kernels/ops/open_backend.h"

using namespace nvllm;

namespace {

size_t taken(const ComputeDevice& device, DType activations, void (*call)(testing::Operands&)) {
    const Stream stream(device);
    ScratchArena scratch(0, device);
    ThreadPool threads(1);
    Context context;
    context.device = device.id();
    context.backend = device.backend();
    context.stream = stream.stream();
    context.scratch = &scratch;
    context.threads = &threads;
    context.activations = activations;
    testing::Operands operands(context);
    call(operands);
    device.synchronize(stream.stream());
    return scratch.peak_bytes();
}

size_t counted(const ComputeDevice& device, DType activations, void (*call)(testing::Operands&)) {
    const DryRun dry(device, activations, 1);
    testing::Operands operands(dry.context());
    call(operands);
    return dry.scratch_bytes();
}

void check_op(const ComputeDevice& device, std::string_view name,
              void (*call)(testing::Operands&)) {
    CAPTURE(name);
    for (const DType activations : {DType::f32, DType::bf16}) {
        const size_t bytes = counted(device, activations, call);
        // A dry run does not know how long sequences are.
        if (name == "paged_attention") {
            CHECK(taken(device, activations, call) <= bytes);
        } else {
            CHECK(taken(device, activations, call) == bytes);
        }
    }
}

void check_module(const BackendTable& backend) {
    const ComputeDevice device(backend, 0);
    // Optional ops that a module lacks are null.
#define NVLLM_CHECK_OP(name) \
    if (backend.ops->name != nullptr) check_op(device, #name, op_scratch_cases::name);
    NVLLM_DEVICE_OPS(NVLLM_CHECK_OP)
#undef NVLLM_CHECK_OP
}

}  // namespace

TEST_CASE("a dry run of a module's op counts the scratch that the op takes") {
    int num_modules = 0;
    for (const auto& file : std::filesystem::directory_iterator(NVLLM_TEST_MODULES)) {
        if (file.path().extension() != ".so") continue;
        CAPTURE(file.path().string());
        check_module(open_backend(file.path().string()));
        ++num_modules;
    }
    CHECK(num_modules > 0);
}
