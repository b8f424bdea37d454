// Timing and the comparison with the roof.
#include "lib/measure/kernels/kernel_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/statistics.h"
#include "lib/cli/main_guard.h"
#include "lib/measure/engine_load.h"
#include "lib/measure/kernels/kernel_bench.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

// A sample is at least so long, so that the clock and the start of threads do not show.
constexpr double kSampleSeconds = 200e-6;

// Of two probes around a measurement: what the machine could do at the better moment.
Roof better(const Roof& a, const Roof& b) {
    return {std::max(a.read_gb_s, b.read_gb_s),
            std::max(a.float32_gflop_s, b.float32_gflop_s),
            std::max(a.bfloat16_gflop_s, b.bfloat16_gflop_s),
            std::max(a.product_gflop_s, b.product_gflop_s),
            std::max(a.int8_gop_s, b.int8_gop_s),
            a.compute_dtype};
}

class CaseTimer {
  public:
    CaseTimer(KernelBench& bench, const KernelCase& kernel) : bench_(bench), kernel_(kernel) {
        kernel_.run(call_++);  // what is made with the first call is made before a graph is
        const double one_s = time_s(1);  // pages are mapped, scratch is at its size
        const double again_s = std::min(one_s, time_s(1));
        num_calls_ = static_cast<size_t>(
            std::clamp(std::ceil(kSampleSeconds / std::max(again_s, 1e-9)), 1.0, 10000.0));
    }
    double sample_us() { return time_s(num_calls_) / static_cast<double>(num_calls_) * 1e6; }

  private:
    double time_s(size_t count) {
        return bench_.seconds_of([&] {
            for (size_t i = 0; i < count; ++i) kernel_.run(call_++);
        });
    }

    KernelBench& bench_;
    const KernelCase& kernel_;
    size_t call_ = 0, num_calls_ = 1;
};

// Of those that were probed; 0 when none was.
double median_of(std::span<const KernelMeasurement> measurements, double Roof::*member) {
    std::vector<double> values;
    for (const KernelMeasurement& one : measurements) {
        if (one.roof.*member > 0.0) values.push_back(one.roof.*member);
    }
    return values.empty() ? 0.0 : median(values);
}

Json roof_json(const Roof& roof) {
    return {{"read_gb_s", roof.read_gb_s},
            {"float32_gflop_s", roof.float32_gflop_s},
            {"bfloat16_gflop_s", roof.bfloat16_gflop_s},
            {"product_gflop_s", roof.product_gflop_s},
            {"int8_gop_s", roof.int8_gop_s}};
}

}  // namespace

double KernelMeasurement::median_s() const { return median(samples_us) * 1e-6; }

double KernelMeasurement::memory_s() const { return bytes / (roof.read_gb_s * 1e9); }

// A device without a probe of integers is compared with its float rate.
bool KernelMeasurement::is_int8() const { return integers && roof.int8_gop_s > 0.0; }

double KernelMeasurement::arithmetic_s() const {
    return flops / ((is_int8() ? roof.int8_gop_s : roof.product_gflop_s) * 1e9);
}

const char* KernelMeasurement::arithmetic() const {
    return dtype_name(is_int8() ? DType::i8 : roof.compute_dtype);
}

bool KernelMeasurement::is_memory_bound() const { return memory_s() >= arithmetic_s(); }

double KernelMeasurement::limit_s() const { return std::max(memory_s(), arithmetic_s()); }

namespace {

// Throws Interrupted.
std::vector<double> take_samples(KernelBench& bench, const KernelCase& kernel, int32_t repeats) {
    std::vector<double> samples_us;
    CaseTimer timer(bench, kernel);
    for (int32_t i = 0; i < repeats; ++i) {
        samples_us.push_back(timer.sample_us());
        bench.reset();
        if (const auto signal = stop_signal()) throw Interrupted{*signal};
    }
    return samples_us;
}

std::vector<KernelCaseMaker> wanted_cases(const KernelBench& bench, const KernelOptions& options) {
    std::vector<KernelCaseMaker> makers = kernel_cases(bench.context(), options.shapes);
    std::erase_if(makers, [&](const KernelCaseMaker& maker) {
        return maker.name.find(options.filter) == std::string::npos;
    });
    if (!makers.empty()) return makers;
    throw Error(ErrorKind::usage, fmt::format("--filter: no op's name holds '{}'", options.filter));
}

}  // namespace

std::vector<KernelMeasurement> measure_kernels(const KernelOptions& options) {
    KernelBench bench(options);
    std::vector<KernelMeasurement> measurements;
    Roof before;
    const std::vector<KernelCaseMaker> makers = wanted_cases(bench, options);
    for (const KernelCaseMaker& maker : makers) {
        if (options.done) options.done(measurements.size(), makers.size());
        const KernelCase kernel = maker.make(maker.name);
        if (measurements.empty()) before = bench.probe();
        KernelMeasurement measured{.name = kernel.name,
                                   .shape = kernel.shape,
                                   .bytes = kernel.bytes,
                                   .flops = kernel.flops,
                                   .integers = kernel.integers,
                                   .samples_us = {},
                                   .roof = {}};
        try {
            measured.samples_us = take_samples(bench, kernel, options.repeats);
        } catch (const Interrupted&) {
            if (measurements.empty()) throw;
            return measurements;
        }
        const Roof after = bench.probe();
        measured.roof = better(before, after);
        if (kernel.integers) measured.roof.int8_gop_s = bench.int8_gop_s();
        before = after;
        measurements.push_back(std::move(measured));
    }
    return measurements;
}

Json kernels_json(std::span<const KernelMeasurement> measurements) {
    Json object;
    object["roof"] = roof_json({median_of(measurements, &Roof::read_gb_s),
                                median_of(measurements, &Roof::float32_gflop_s),
                                median_of(measurements, &Roof::bfloat16_gflop_s),
                                median_of(measurements, &Roof::product_gflop_s),
                                median_of(measurements, &Roof::int8_gop_s)});
    object["ops"] = Json::array();
    for (const KernelMeasurement& one : measurements) {
        const double seconds = one.median_s();
        object["ops"].push_back({{"op", one.name},
                                 {"shape", one.shape},
                                 {"median_us", seconds * 1e6},
                                 {"gb_s", one.bytes / seconds * 1e-9},
                                 {"gflop_s", one.flops / seconds * 1e-9},
                                 {"flop_per_byte", one.flops / one.bytes},
                                 {"arithmetic", one.arithmetic()},
                                 {"limit", one.is_memory_bound() ? "memory" : "compute"},
                                 {"percent_of_limit", one.limit_s() / seconds * 100.0},
                                 {"samples_us", one.samples_us},
                                 {"roof", roof_json(one.roof)}});
    }
    return object;
}

std::string kernels_table(std::span<const KernelMeasurement> measurements) {
    std::string text = fmt::format("{:<24} {:<32} {:>26} {:>8} {:>9} {:>8} {:>10}\n", "op", "shape",
                                   "us (range)", "GB/s", "GFLOP/s", "limit", "% of limit");
    for (const KernelMeasurement& one : measurements) {
        const double seconds = one.median_s();
        text +=
            fmt::format("{:<24} {:<32} {:>26} {:>8.1f} {:>9.1f} {:>8} {:>10.1f}\n", one.name,
                        one.shape, median_and_range(one.samples_us, 1), one.bytes / seconds * 1e-9,
                        one.flops / seconds * 1e-9, one.is_memory_bound() ? "memory" : "compute",
                        one.limit_s() / seconds * 100.0);
    }
    return text + fmt::format(
                      "\nprobed around each op, medians: {:.1f} GB/s read, {:.0f} GFLOP/s of "
                      "products, {:.0f} of int8\n",
                      median_of(measurements, &Roof::read_gb_s),
                      median_of(measurements, &Roof::product_gflop_s),
                      median_of(measurements, &Roof::int8_gop_s));
}

}  // namespace nvllm
