// Each op's speed beside what the machine could do in the same moment.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "lib/measure/kernels/kernel_cases.h"

namespace nvllm {

// Probed just before and after the op it stands beside, the better of both: on shared machines it
// changes within seconds, so that an op may still come out above its limit.
struct Roof {
    double read_gb_s = 0.0;        // 10^9 bytes a second; of a device the more of what a copy
                                   // reads and writes and of what a product of one row reads
    double float32_gflop_s = 0.0;  // of the instruction set in use, all threads; none of a device
    double bfloat16_gflop_s = 0.0;
    double product_gflop_s = 0.0;  // what ops are compared with: on the CPU the peak of the type of
                                   // weights, else what a large product of them reaches
    double int8_gop_s = 0.0;       // of products of codes, beside ops of them; none of a device
    DType compute_dtype = DType::f32;  // which type product_gflop_s is the peak of
};

struct KernelMeasurement {
    std::string name, shape;
    double bytes = 0.0, flops = 0.0;  // of one call
    bool integers = false;
    std::vector<double> samples_us;  // of one call, each the mean of a few
    Roof roof;

    double median_s() const;
    // The least time that the roof allows: bytes by bandwidth or operations by peak, the larger.
    double limit_s() const;
    bool is_memory_bound() const;
    // The type whose peak it is compared with: "float32", "bfloat16", "float16" or "int8".
    const char* arithmetic() const;

  private:
    bool is_int8() const;
    double memory_s() const;
    double arithmetic_s() const;
};

struct KernelOptions {
    KernelShapes shapes;
    int threads = 1;
    int32_t repeats = 20;
    uint64_t probe_bytes = uint64_t{1} << 30;
    std::string filter = {};  // only ops whose name holds this text
    DeviceChoice device = {};
    // Told how many of the ops are measured.
    std::function<void(size_t done, size_t total)> done = {};
};

// When a signal stops it, the ops until then. Throws Interrupted when there is none, usage when the
// filter leaves nothing, does_not_fit, and what open_device() throws.
std::vector<KernelMeasurement> measure_kernels(const KernelOptions& options);

// "roof" (medians over the ops) and "ops": op, shape, median_us, samples_us, gb_s, gflop_s,
// flop_per_byte, arithmetic (the type whose peak is its limit), limit ("memory" or "compute"),
// percent_of_limit, roof.
nlohmann::ordered_json kernels_json(std::span<const KernelMeasurement> measurements);
std::string kernels_table(std::span<const KernelMeasurement> measurements);

}  // namespace nvllm
