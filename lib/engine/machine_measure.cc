// Sockets of ranks, one question and one answer on each.
#include "lib/engine/machine_measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "lib/engine/options/placement.h"
#include "lib/engine/rank_launch_choice.h"
#include "lib/execute/frame_channel.h"

namespace nvllm {
namespace {

// No link takes less.
constexpr double kShortestLatency = 1e-9;
constexpr double kSlowestPerByte = 1e-15;

RankRates answer_of(FrameChannel& rank) {
    const std::optional<FrameHead> head = rank.receive();
    if (!head) throw Error(ErrorKind::unavailable, "a rank ended before it had measured");
    if (head->kind == MessageKind::fault) {
        const auto fault = read_payload<WorkerFault>(rank.payload());
        throw Error(fault.kind, fault.message);
    }
    if (head->kind != MessageKind::rates) {
        throw Error(ErrorKind::bad_data, "a rank answered with another message");
    }
    return read_payload<RankRates>(rank.payload());
}

template <typename Rate>
Rate least(const std::vector<RankRates>& ranks, Rate RankRates::*rate) {
    Rate value = ranks.front().*rate;
    for (const RankRates& rank : ranks) value = std::min(value, rank.*rate);
    return value;
}

}  // namespace

LinkSpec fitted_link(std::span<const SumSample> samples, int32_t ranks) {
    const double part = 2.0 * (ranks - 1) / ranks;
    double one = 0.0, x = 0.0, xx = 0.0, y = 0.0, xy = 0.0;  // sums, each by the square of the time
    for (const SumSample& sample : samples) {
        const double bytes = part * static_cast<double>(sample.bytes);
        const double weight = 1.0 / (sample.seconds * sample.seconds);
        one += weight;
        x += weight * bytes;
        xx += weight * bytes * bytes;
        y += weight * sample.seconds;
        xy += weight * bytes * sample.seconds;
    }
    const double per_byte = std::max((one * xy - x * y) / (one * xx - x * x), kSlowestPerByte);
    const double fixed = std::max((y - per_byte * x) / one, 2.0 * kShortestLatency);
    return {1.0 / per_byte, fixed / 2.0};
}

MachineMeasurement measure_machine(const EngineConfig& config, DType dtype, uint64_t weight_bytes) {
    const ParallelOptions& parallel = config.compute.parallel;
    if (parallel.tensor < 2 || parallel.pipeline > 1 || parallel.data > 1) {
        throw Error(ErrorKind::usage,
                    "ranks that sum are measured: use --tensor-parallel-size, 2 or more, alone");
    }
    if (config.compute.device != "auto" && config.compute.device != "cpu") {
        throw Error(ErrorKind::usage,
                    fmt::format("--device {}: ranks are measured on the CPU alone so far: use "
                                "--device cpu, or leave it out",
                                config.compute.device));
    }
    RankProbe probe;
    probe.ranks.sizes.tensor = parallel.tensor;
    probe.placement = engine_placement(config);
    probe.placement_options = placement_options(config);
    probe.dtype = dtype;
    probe.weight_bytes = weight_bytes;
    if (has_own_processes(parallel.backend)) probe.ranks.collectives = rank_collectives();
    const auto launcher = rank_launcher(config, {}, parallel.tensor, {});
    launcher->start();
    std::optional<std::vector<OwnedDescriptor>> sockets = launcher->connected(true);
    std::vector<FrameChannel> ranks;
    for (OwnedDescriptor& socket : *sockets) ranks.emplace_back(std::move(socket));
    probe.ranks.group_ids = launcher->group_ids(probe.ranks);
    for (int32_t rank = 0; rank < parallel.tensor; ++rank) {
        ranks[static_cast<size_t>(rank)].send(probe.of_rank(rank));
    }
    MachineMeasurement measured;
    for (FrameChannel& rank : ranks) measured.ranks.push_back(answer_of(rank));
    ranks.clear();
    launcher->bury(true, "");
    MachineSpec& machine = measured.machine;
    machine.read_bytes_per_s = least(measured.ranks, &RankRates::read_bytes_per_s);
    machine.operations_per_s = least(measured.ranks, &RankRates::operations_per_s);
    machine.memory_bytes = least(measured.ranks, &RankRates::memory_bytes);
    machine.devices_per_host = parallel.tensor;
    machine.activation_bytes = sizeof(float);
    machine.within = fitted_link(measured.ranks.front().sums, parallel.tensor);
    machine.between = machine.within;
    return measured;
}

}  // namespace nvllm
