// A table, and a file's fields.
#include "lib/parallel/machine_spec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"

namespace nvllm {
namespace {

constexpr const char* kSchema = "nanovllm.machine/1";
constexpr uint64_t kGiB = uint64_t{1} << 30;

// Makers' data sheets: memory and its bandwidth, dense bfloat16, NVLink in one direction, and a
// 400 Gb/s (A100: 200 Gb/s) adapter for each device.
const std::array<MachineSpec, 4> kMachines = {{
    {"a100-80gb", 2.039e12, 312e12, 80 * kGiB, 8, 2, {300e9, 8e-6}, {25e9, 15e-6}},
    {"h100", 3.35e12, 989e12, 80 * kGiB, 8, 2, {450e9, 8e-6}, {50e9, 15e-6}},
    {"h200", 4.8e12, 989e12, 141 * kGiB, 8, 2, {450e9, 8e-6}, {50e9, 15e-6}},
    {"b200", 8.0e12, 2250e12, 180 * kGiB, 8, 2, {900e9, 8e-6}, {50e9, 15e-6}},
}};

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
    throw Error(
        ErrorKind::bad_data,
        fmt::format("{}: {}; nvllm-bench machine --output-json writes such files", file, what));
}

class MachineReader {
  public:
    MachineReader(const std::string& file, const nlohmann::json& object)
        : file_(file), object_(object) {}

    double number(const char* key) const {
        const auto found = object_.find(key);
        if (found == object_.end() || !found->is_number() || found->get<double>() <= 0.0) {
            refuse(file_, fmt::format("{} is no number above 0", key));
        }
        return found->get<double>();
    }
    LinkSpec link(const char* key) const {
        const auto found = object_.find(key);
        if (found == object_.end() || !found->is_object()) {
            refuse(file_, fmt::format("{} is not there", key));
        }
        const MachineReader inner(file_, *found);
        return {inner.number("gb_per_s") * 1e9, inner.number("us") * 1e-6};
    }

  private:
    const std::string& file_;
    const nlohmann::json& object_;
};

MachineSpec read_machine(const std::string& file) {
    const nlohmann::json object = parse_json(read_file(file), file);
    if (!object.is_object() || object.value("schema", nlohmann::json()) != kSchema) {
        refuse(file, fmt::format("its schema is not {}", kSchema));
    }
    const MachineReader reader(file, object);
    MachineSpec machine;
    machine.name = std::filesystem::path(file).stem();
    machine.read_bytes_per_s = reader.number("read_gb_per_s") * 1e9;
    machine.operations_per_s = reader.number("tera_operations") * 1e12;
    machine.memory_bytes = static_cast<uint64_t>(reader.number("memory_bytes"));
    machine.devices_per_host = static_cast<int32_t>(reader.number("devices_per_host"));
    machine.activation_bytes = static_cast<int32_t>(reader.number("activation_bytes"));
    machine.within = reader.link("link");
    machine.between = reader.link("network");
    return machine;
}

nlohmann::ordered_json link_json(const LinkSpec& link) {
    return {{"gb_per_s", link.bytes_per_s / 1e9}, {"us", link.latency_s * 1e6}};
}

}  // namespace

std::span<const MachineSpec> known_machines() { return kMachines; }

MachineSpec machine_named(const std::string& name_or_file) {
    std::vector<std::string> names;
    for (const MachineSpec& known : known_machines()) {
        if (known.name == name_or_file) return known;
        names.push_back(known.name);
    }
    if (std::filesystem::exists(name_or_file)) return read_machine(name_or_file);
    throw Error(ErrorKind::usage,
                fmt::format("--machine {}: there is no such file, and known names are {}",
                            name_or_file, fmt::join(names, ", ")));
}

nlohmann::ordered_json machine_json(const MachineSpec& machine) {
    return {{"schema", kSchema},
            {"read_gb_per_s", machine.read_bytes_per_s / 1e9},
            {"tera_operations", machine.operations_per_s / 1e12},
            {"memory_bytes", machine.memory_bytes},
            {"devices_per_host", machine.devices_per_host},
            {"activation_bytes", machine.activation_bytes},
            {"link", link_json(machine.within)},
            {"network", link_json(machine.between)}};
}

}  // namespace nvllm
