#include "emulated_tiles.h"
#include "testing.h"

namespace testing {

void for_each_isa(const std::function<void(nvllm::cpu::Isa)>& body) {
    const nvllm::cpu::Isa before = nvllm::cpu::current_isa();
    for (int i = 0; i < nvllm::cpu::kNumIsas; ++i) {
        const auto isa = static_cast<nvllm::cpu::Isa>(i);
        if (!nvllm::cpu::isa_supported(isa)) continue;
        nvllm::cpu::set_isa_for_testing(isa);
        body(isa);
    }
    nvllm::cpu::set_kernels_for_testing(nvllm::cpu::Isa::amx, emulated_amx_kernels);
    body(nvllm::cpu::Isa::amx);
    nvllm::cpu::set_isa_for_testing(before);
}

}  // namespace testing
