// Which launches may overlap the one before: what the compiled code says, not the device.
#pragma once

namespace nvllm::gpu {

// What a kernel was compiled as, in tens: 90 is compute capability 9.0.
struct CompiledVersion {
    int ptx = 0;     // the virtual architecture
    int binary = 0;  // of the code that the device runs
};

// Whether the compiled kernel waits where its source calls wait_for_work_before(): the instruction
// came with compute_90. Code for earlier ones has nothing there, also where a driver has made code
// of a newer GPU of it, and must not be put in place before the work before has ended.
constexpr bool waits_for_work_before(const CompiledVersion& version) {
    return version.ptx >= 90 && version.binary >= 90;
}

}  // namespace nvllm::gpu
