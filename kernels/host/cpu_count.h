// What this process may use of the machine: its affinity mask and its control groups' quotas.
#pragma once

#include <optional>

#include "kernels/host/cpu_list.h"

namespace nvllm {

// The processors that the calling thread may run on; empty when the system does not say.
CpuList allowed_cpus();

// How many processors' time the control groups of this process allow, such as 1.5; empty: no limit.
std::optional<double> cpu_quota();

// Logical processors this process may use: affinity and quota, at least 1.
int usable_cpu_count();

}  // namespace nvllm
