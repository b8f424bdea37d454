// Runs the kernels with planted mistakes and hands back what the emulation says of them.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda_emulation/settings.h"
#include "kernels/cuda_emulation/site.h"
#include "tests/kernels/cuda/planted_bugs.h"

struct alignas(16) Words {
    uint32_t at[planted::kWords] = {};
};

inline Words counted() {
    Words words;
    for (uint32_t i = 0; i < planted::kWords; ++i) words.at[i] = 3 * i + 1;
    return words;
}

// What the emulation says of a kernel under these settings; empty when it says nothing.
template <typename Run>
std::string report_of(Run kernel, const nvllm::gpu::emulation::Settings& settings, Words& out) {
    const nvllm::gpu::emulation::ScopedSettings scoped(settings);
    const Words in = counted();
    out = {};
    try {
        kernel(in.at, out.at);
    } catch (const nvllm::gpu::emulation::Fault& fault) {
        return fault.what();
    }
    return {};
}

inline std::string report_of(planted::Bug bug,
                             const nvllm::gpu::emulation::Settings& settings = {}) {
    Words out;
    return report_of([&](const uint32_t* in, uint32_t* to) { planted::run(bug, in, to); }, settings,
                     out);
}

inline bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}
