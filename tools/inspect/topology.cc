// nvllm-inspect topology: how a model can be divided among devices, and what that would cost.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/json.h"
#include "lib/base/units.h"
#include "lib/cli/main_guard.h"
#include "lib/engine/options/engine_options.h"
#include "lib/engine/topology.h"
#include "lib/view/text_table.h"
#include "tools/inspect/commands.h"

namespace nvllm::inspect {
namespace {

using Json = nlohmann::ordered_json;

struct TopologyOptions {
    int32_t devices = 8;
    std::string machine = "h100";
    int64_t sequences = 64;
    int64_t context = 2048;
    std::optional<uint64_t> device_memory;
    std::optional<double> read_gb_per_s;
    std::optional<double> tera_operations;
    std::optional<int32_t> devices_per_host;
    std::optional<double> link_gb_per_s;
    std::optional<double> link_us;
    std::optional<double> network_gb_per_s;
    std::optional<double> network_us;
    bool json = false;
};

std::string machine_names() {
    std::string names;
    for (const MachineSpec& machine : known_machines()) names += machine.name + ", ";
    return names;
}

OptionList<TopologyOptions> topology_options() {
    OptionList<TopologyOptions> list("inspect");
    list.group("Topology");
    list.add("devices", &TopologyOptions::devices, "Devices to divide the model among.",
             range(1, 65536));
    list.add("machine", &TopologyOptions::machine,
             "Whose published figures to take: " + machine_names() +
                 "or a file of nvllm-bench machine, of measured ones. The next options replace "
                 "single ones.",
             value_name("NAME"));
    list.add("sequences", &TopologyOptions::sequences, "Sequences that decode at once, on all.",
             range(1, 1 << 24));
    list.add("context", &TopologyOptions::context, "Tokens that each of them has.",
             range(0, 1 << 30));
    list.add("device-memory", &TopologyOptions::device_memory, "Of a device, such as 80GiB.",
             counts_bytes(), at_least(1));
    list.add("read-bandwidth", &TopologyOptions::read_gb_per_s, "Of a device's memory, GB/s.");
    list.add("tera-operations", &TopologyOptions::tera_operations,
             "Of a device, 10^12 a second; a multiply-add is two.");
    list.add("devices-per-host", &TopologyOptions::devices_per_host, "Devices in a host.",
             range(1, 4096));
    list.add("link-bandwidth", &TopologyOptions::link_gb_per_s, "Within a host, GB/s.");
    list.add("link-latency", &TopologyOptions::link_us,
             "Of a message within a host, microseconds.");
    list.add("network-bandwidth", &TopologyOptions::network_gb_per_s, "Between hosts, GB/s.");
    list.add("network-latency", &TopologyOptions::network_us,
             "Of a message between hosts, microseconds.");
    list.add("json", &TopologyOptions::json, "One JSON object, schema nvllm-inspect.topology/1.");
    return list;
}

MachineSpec machine_of(const TopologyOptions& options) {
    MachineSpec machine = machine_named(options.machine);
    const auto replace = [](const std::optional<double>& given, double unit, double& figure) {
        if (given) figure = *given * unit;
    };
    if (options.device_memory) machine.memory_bytes = *options.device_memory;
    if (options.devices_per_host) machine.devices_per_host = *options.devices_per_host;
    replace(options.read_gb_per_s, 1e9, machine.read_bytes_per_s);
    replace(options.tera_operations, 1e12, machine.operations_per_s);
    replace(options.link_gb_per_s, 1e9, machine.within.bytes_per_s);
    replace(options.link_us, 1e-6, machine.within.latency_s);
    replace(options.network_gb_per_s, 1e9, machine.between.bytes_per_s);
    replace(options.network_us, 1e-6, machine.between.latency_s);
    return machine;
}

std::string describe_experts(const Split& split) {
    return split.expert_ranks > 1 ? fmt::format("of {} ranks", split.expert_ranks) : "-";
}

std::string numbers(int64_t first, int64_t count) {
    return count == 1 ? std::to_string(first) : fmt::format("{}-{}", first, first + count - 1);
}

// A row for each stage of the first replica; the others are alike.
void draw_ranks(const Split& split, const MachineSpec& machine, view::TextSheet& sheet) {
    std::vector<std::vector<std::string>> rows = {
        {"ranks", "hosts", "layers", "of each layer", "weights", "sent a step", "messages"}};
    const int64_t ranks = split.sizes.tensor;
    for (size_t index = 0; index < split.cost.stages.size(); ++index) {
        const StageCost& cost = split.cost.stages[index];
        const int64_t first = static_cast<int64_t>(index) * ranks;
        const int64_t first_host = first / machine.devices_per_host;
        const int64_t last_host = (first + ranks - 1) / machine.devices_per_host;
        const std::string layers = split.stages.empty() ? "all"
                                                        : numbers(split.stages[index].first_block,
                                                                  split.stages[index].num_blocks);
        rows.push_back({numbers(first, ranks), numbers(first_host, last_host - first_host + 1),
                        layers, ranks == 1 ? "all" : fmt::format("1/{}", ranks),
                        describe_bytes(cost.weight_bytes),
                        describe_bytes(static_cast<uint64_t>(cost.bytes_sent)),
                        std::to_string(cost.messages)});
    }
    sheet.table(rows, "<<<<>>>");
    if (split.replicas > 1) {
        const int64_t of_replica = split.sizes.num_ranks();
        sheet.row("replicas", fmt::format("{} more like this one, ranks {}", split.replicas - 1,
                                          numbers(of_replica, of_replica * (split.replicas - 1))));
    }
    if (split.expert_ranks > 1) {
        sheet.row("experts",
                  fmt::format("each layer's are of {} ranks{}", split.expert_ranks,
                              split.expert_ranks > ranks ? ", those of all replicas" : ""));
    }
}

std::string text_of(const std::vector<Split>& splits, const TopologyRequest& request,
                    const std::string& model) {
    view::TextSheet sheet;
    sheet.row("model", model);
    sheet.row("devices", fmt::format("{} of {}, {} in a host; {} each", request.devices,
                                     request.machine.name, request.machine.devices_per_host,
                                     describe_bytes(request.machine.memory_bytes)));
    sheet.row("load", fmt::format("{} sequences of {} tokens that decode", request.load.sequences,
                                  request.load.context));
    std::vector<std::vector<std::string>> rows = {
        {"tensor", "pipeline", "replicas", "experts", "a rank", "fits", "step ms", "of it links",
         "token ms", "tokens/s", "sent a step", "messages"}};
    for (const Split& split : splits) {
        rows.push_back({std::to_string(split.sizes.tensor), std::to_string(split.sizes.pipeline),
                        std::to_string(split.replicas), describe_experts(split),
                        describe_bytes(split.memory_bytes), split.fits ? "yes" : "no",
                        fmt::format("{:.2f}", split.cost.stage_s * 1e3),
                        fmt::format("{:.0f} %", 100.0 * split.cost.link_s / split.cost.stage_s),
                        fmt::format("{:.2f}", split.cost.latency_s * 1e3),
                        fmt::format("{:.0f}", split.tokens_per_s()),
                        describe_bytes(split.cost.rank_bytes),
                        std::to_string(split.cost.messages)});
    }
    sheet.gap();
    sheet.table(rows, ">>>>>>>>>>>>");
    sheet.gap();
    if (splits.empty() || !splits.front().fits) {
        sheet.row("choice", "none: no way to divide it fits these devices");
        return sheet.text();
    }
    const Split& best = splits.front();
    sheet.row("choice", fmt::format("--tensor-parallel-size {} --pipeline-parallel-size {} "
                                    "--data-parallel-size {}{}",
                                    best.sizes.tensor, best.sizes.pipeline, best.replicas,
                                    best.expert_ranks > 1 ? " --enable-expert-parallel" : ""));
    sheet.gap();
    draw_ranks(best, request.machine, sheet);
    return sheet.text();
}

Json json_of(const std::vector<Split>& splits, const TopologyRequest& request,
             const std::string& model) {
    Json list = Json::array();
    for (const Split& split : splits) {
        Json stages = Json::array();
        for (const PipelineStage& stage : split.stages) {
            stages.push_back(
                {{"first_block", stage.first_block}, {"num_blocks", stage.num_blocks}});
        }
        list.push_back({{"tensor", split.sizes.tensor},
                        {"pipeline", split.sizes.pipeline},
                        {"replicas", split.replicas},
                        {"expert_ranks", split.expert_ranks},
                        {"stages", stages},
                        {"fits", split.fits},
                        {"weight_bytes", split.cost.weight_bytes},
                        {"kv_bytes", split.cost.kv_bytes},
                        {"read_ms", split.cost.read_s * 1e3},
                        {"compute_ms", split.cost.compute_s * 1e3},
                        {"link_ms", split.cost.link_s * 1e3},
                        {"step_ms", split.cost.stage_s * 1e3},
                        {"token_ms", split.cost.latency_s * 1e3},
                        {"tokens_per_second", split.tokens_per_s()},
                        {"bytes_per_step", split.cost.rank_bytes},
                        {"messages_per_step", split.cost.messages},
                        {"replicated_modules", split.num_replicated}});
    }
    return {{"schema", "nvllm-inspect.topology/1"},
            {"model", model},
            {"devices", request.devices},
            {"machine", request.machine.name},
            {"sequences", request.load.sequences},
            {"context", request.load.context},
            {"splits", list}};
}

void check_undivided(const ParallelOptions& parallel) {
    if (parallel.tensor * parallel.pipeline * parallel.data == 1 && !parallel.experts) return;
    throw Error(ErrorKind::usage,
                "topology tries every way to divide a model among --devices: leave out "
                "--tensor-parallel-size, --pipeline-parallel-size, --data-parallel-size and "
                "--enable-expert-parallel");
}

int inspect_topology(const Invocation& invocation) {
    TopologyOptions own;
    EngineConfig config;
    const auto own_list = topology_options();
    const auto engine_list = engine_options();
    OptionSet options;
    options.add(own_list, own);
    options.add(engine_list, config);
    if (answered(invocation, options)) return 0;
    check_undivided(config.compute.parallel);
    config.model.name = named_or_bundled_model(config.model.name);
    const TopologyRequest request{own.devices, machine_of(own), {own.sequences, own.context}};
    const std::vector<Split> splits = possible_splits(config, request);
    write_output(own.json ? write_json(json_of(splits, request, config.model.name)) + "\n"
                          : text_of(splits, request, config.model.name));
    return 0;
}

}  // namespace

Command topology_command() {
    return {"topology", "Predicts ways to divide a model among devices, and chooses one.",
            inspect_topology};
}

}  // namespace nvllm::inspect
