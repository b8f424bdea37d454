// The choice of instruction set, and of its table of kernels.
#include "kernels/cpu/dispatch/isa.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "kernels/cpu/simd/kernels.h"
#include "kernels/error.h"

namespace nvllm::cpu {
namespace {

#if defined(__x86_64__)
// Not every compiler's own check knows this one.
bool has_f16c() {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// The compiler's own check reads CPUID and XCR0, so it covers the operating system too.
bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}
bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
bool has_avx512bf16() { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }

// The kernel gives a process tiles when it asks for them. Not every compiler's own check knows
// them.
bool has_amx() {
    constexpr unsigned tiles_of_both = 1u << 22 | 1u << 24 | 1u << 25;
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (!has_avx512bf16() || !__builtin_cpu_supports("avx512vnni")) return false;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
    if ((edx & tiles_of_both) != tiles_of_both) return false;
#if defined(__linux__)
    constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM
    constexpr long tile_data = 18;
    static const bool permitted = syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
    return permitted;
#else
    return false;
#endif
}
#endif

struct IsaRow {
    Isa isa;
    const char* name;
    bool (*supported)();
    const Kernels& (*kernels)();
};

constexpr auto kIsas = std::to_array<IsaRow>({
    {Isa::scalar, "scalar", [] { return true; }, scalar_kernels},
#if defined(__x86_64__)
        {Isa::avx2, "avx2", has_avx2, avx2_kernels},
        {Isa::avx512, "avx512", has_avx512, avx512_kernels},
        {Isa::avx512bf16, "avx512bf16", has_avx512bf16, avx512bf16_kernels},
        {Isa::amx, "amx", has_amx, avx512amx_kernels},
#endif
});

const IsaRow* find_row(Isa isa) {
    for (const IsaRow& row : kIsas) {
        if (row.isa == isa) return &row;
    }
    return nullptr;
}

bool is_intel() {
#if defined(__x86_64__)
    static const bool found = __builtin_cpu_is("intel") != 0;
    return found;
#else
    return false;
#endif
}

// On Intel's processors one bfloat16 dot product takes the time of four float32 multiply-adds and
// does the work of two (measured on a Xeon of family 6, model 207), so upcasting to float32 is
// faster there.
bool prefers_bf16_dot_products() {
#if defined(__x86_64__)
    return __builtin_cpu_is("amd") != 0;
#else
    return false;
#endif
}

const IsaRow* best_row() {
    const IsaRow* best = &kIsas[0];
    for (const IsaRow& row : kIsas) {
        if (row.isa == Isa::avx512bf16 && !prefers_bf16_dot_products()) continue;
        if (row.supported()) best = &row;
    }
    return best;
}

const IsaRow* row_named(const std::string& name) {
    for (int i = 0; i < kNumIsas; ++i) {
        const auto isa = static_cast<Isa>(i);
        if (name != isa_name(isa)) continue;
        if (!isa_supported(isa)) {
            throw Error(ErrorKind::unavailable,
                        "NVLLM_ISA=" + name +
                            ": this machine or build lacks it; best here: " + best_row()->name);
        }
        return find_row(isa);
    }
    throw Error(ErrorKind::usage,
                "NVLLM_ISA=" + name + ": unknown; use scalar, avx2, avx512, avx512bf16 or amx");
}

const IsaRow* chosen_row() {
    const char* name = std::getenv("NVLLM_ISA");
    return name != nullptr && *name != '\0' ? row_named(name) : best_row();
}

std::atomic<const IsaRow*> current{nullptr};

const IsaRow& current_row() {
    const IsaRow* row = current.load(std::memory_order_acquire);
    if (row == nullptr) {
        row = chosen_row();
        current.store(row, std::memory_order_release);
    }
    return *row;
}

}  // namespace

const char* isa_name(Isa isa) {
    constexpr std::array<const char*, kNumIsas> names = {"scalar", "avx2", "avx512", "avx512bf16",
                                                         "amx"};
    return names[static_cast<size_t>(isa)];
}

bool isa_supported(Isa isa) {
    const IsaRow* row = find_row(isa);
    return row != nullptr && row->supported();
}

Isa current_isa() { return current_row().isa; }

void set_isa_for_testing(Isa isa) {
    NVLLM_CHECK(isa_supported(isa), std::string(isa_name(isa)) + " is not supported here");
    current.store(find_row(isa), std::memory_order_release);
}

void set_kernels_for_testing(Isa isa, const Kernels& (*kernels)()) {
    static IsaRow row;
    row = {isa, isa_name(isa), [] { return true; }, kernels};
    current.store(&row, std::memory_order_release);
}

// A Zen 4 fetches four long streams ahead by itself: to be asked for what lies four times as far
// away costs it a fifth of the bandwidth. A Xeon gains 5 % (AVX-512) and 10 % (AVX2) by that.
int64_t bytes_fetched_ahead() { return is_intel() ? 1024 : 256; }

// A Xeon decodes faster by these, 2 to 5 % and 2 to 37 %; a Zen 3, which has no AVX-512, gets
// quantized values from memory 5 to 15 % faster by the second (docs/notes/cpu.md); a Zen 4 has run
// neither.
int64_t bytes_fetched_early() { return is_intel() ? 2048 : 0; }
bool prefetches_weights() {
    static const bool found = is_intel() || !isa_supported(Isa::avx512);
    return found;
}

const Kernels& kernels() { return current_row().kernels(); }

}  // namespace nvllm::cpu
