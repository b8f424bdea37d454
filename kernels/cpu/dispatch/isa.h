// Which instruction set the CPU kernels use: chosen once, when the first op runs.
#pragma once

#include <cstdint>

namespace nvllm::cpu {

struct Kernels;

// In rising order: each holds the ones before it. scalar runs anywhere; avx2 means AVX2, FMA and
// F16C; avx512 adds AVX-512 F, BW, DQ and VL; avx512bf16 adds the bfloat16 dot product; amx adds
// tiles of bfloat16 and int8.
enum class Isa : uint8_t { scalar, avx2, avx512, avx512bf16, amx };

constexpr int kNumIsas = 5;

// "scalar", "avx2", "avx512", "avx512bf16" or "amx".
const char* isa_name(Isa isa);

// True when this build, the processor and the operating system all support it.
bool isa_supported(Isa isa);

// The instruction set in use: the fastest supported one, or the one that the environment variable
// NVLLM_ISA names. Throws Error{usage} for an unknown name and Error{unavailable} for one this
// machine lacks.
Isa current_isa();

// How many bytes ahead of their use this processor is best asked for rows of weights that come from
// memory.
int64_t bytes_fetched_ahead();

// From how far away it is best asked for them before that, for the second-level cache, where a few
// rows of x wait for them; 0: it is not.
int64_t bytes_fetched_early();

// Whether panels of quantized values that come from memory are best asked for twice: from further
// away, for the second-level cache, and then for the first.
bool prefetches_weights();

// Replaces the choice; requires isa_supported(isa). Not while an op runs.
void set_isa_for_testing(Isa isa);

// The same with kernels of a test, which stand for those of `isa`.
void set_kernels_for_testing(Isa isa, const Kernels& (*kernels)());

}  // namespace nvllm::cpu
