// nvllm-bench machine.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/base/units.h"
#include "lib/engine/machine_measure.h"
#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
    uint64_t weight_bytes = uint64_t{256} << 20;
    std::string dtype = "bfloat16";
    std::optional<std::filesystem::path> output_json;
};

OptionList<Options> own_options() {
    OptionList<Options> list("machine");
    list.group("Measurement");
    list.add("weight-bytes", &Options::weight_bytes,
             "Weights that each rank multiplies with in turn: more than its caches hold.",
             counts_bytes(), range(1 << 23, int64_t{1} << 40));
    list.add("weight-dtype", &Options::dtype, "Their type.",
             words({"bfloat16", "float16", "float32"}));
    list.add("output-json", &Options::output_json, kOutputJsonHelp, value_name("FILE"));
    return list;
}

std::string table_of(const MachineMeasurement& measured) {
    const MachineSpec& machine = measured.machine;
    std::string text = fmt::format(
        "{} ranks, each: reads {:.2f} GB/s of weights, computes {:.4f} tera operations/s, has {}\n"
        "link: {:.3f} GB/s, {:.1f} us a message\n\n{:>12} {:>12}\n",
        measured.ranks.size(), machine.read_bytes_per_s / 1e9, machine.operations_per_s / 1e12,
        describe_bytes(machine.memory_bytes), machine.within.bytes_per_s / 1e9,
        machine.within.latency_s * 1e6, "bytes", "sum us");
    for (const SumSample& sample : measured.ranks.front().sums) {
        text += fmt::format("{:>12} {:>12.1f}\n", sample.bytes, sample.seconds * 1e6);
    }
    return text;
}

Json json_of(const MachineMeasurement& measured) {
    Json object = machine_json(measured.machine);
    object["sums"] = Json::array();
    for (const SumSample& sample : measured.ranks.front().sums) {
        object["sums"].push_back({{"bytes", sample.bytes}, {"us", sample.seconds * 1e6}});
    }
    return object;
}

}  // namespace

int run_machine(const Invocation& invocation) {
    Options own;
    EngineConfig config;
    const auto own_list = own_options();
    if (answered(invocation, own_list, own, config)) return 0;
    check_writable(own.output_json);
    const MachineMeasurement measured =
        measure_machine(config, dtype_from_name(own.dtype).value_or(DType::bf16), own.weight_bytes);
    return publish(invocation, &config, table_of(measured), json_of(measured), own.output_json);
}

}  // namespace nvllm::bench
