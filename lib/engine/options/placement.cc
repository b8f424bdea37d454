// Checks the mask; the plan is the kernels'.
#include "lib/engine/options/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "kernels/error.h"

namespace nvllm {
namespace {

void check_mask(const CpuList& mask, const CpuList& allowed) {
    CpuList others;
    std::ranges::set_difference(mask, allowed, std::back_inserter(others));
    if (others.empty()) return;
    throw Error(ErrorKind::usage,
                fmt::format("--cpu-mask: of {}, {} {} absent or forbidden to this process, which "
                            "may use {}",
                            format_cpu_list(mask), format_cpu_list(others),
                            others.size() == 1 ? "is" : "are", format_cpu_list(allowed)));
}

}  // namespace

PlacementOptions placement_options(const EngineConfig& config) {
    PlacementOptions options = config.compute.placement;
    if (config.compute.cpu_mask) options.mask = config.compute.cpu_mask->cpus;
    return options;
}

CpuPlacement engine_placement(const EngineConfig& config, const CpuResources& resources) {
    const PlacementOptions options = placement_options(config);
    check_mask(options.mask, resources.allowed);
    return plan_placement(resources, options);
}

}  // namespace nvllm
