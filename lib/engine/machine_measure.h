// What the ranks of a machine, or of several, can do: the rates that predictions begin with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lib/engine/engine_config.h"
#include "lib/execute/ranks/rank_probe.h"
#include "lib/parallel/machine_spec.h"

namespace nvllm {

struct MachineMeasurement {
    MachineSpec machine;           // of which each rank is a device
    std::vector<RankRates> ranks;  // as each measured
};

// Starts the ranks that the options ask for, without a model, and has them measure together. The
// machine's rates are those of the slowest rank; one link is within hosts and between them.
// Throws usage where there is one rank, a pipeline or a device, what rank_launcher() throws, and a
// rank's fault.
MachineMeasurement measure_machine(const EngineConfig& config, DType dtype, uint64_t weight_bytes);

// The link by which so many ranks would take that long, as step_cost() has it: 2 latencies, and
// 2 (N - 1) / N of the bytes. Relative distances are least. REQUIRES: samples of different sizes.
LinkSpec fitted_link(std::span<const SumSample> samples, int32_t ranks);

}  // namespace nvllm
