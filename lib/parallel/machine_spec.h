// The rates of a machine: published ones of the field's, or measured ones in a file.
//
// JSON: {"schema": "nanovllm.machine/1", "read_gb_per_s", "tera_operations",
// "memory_bytes", "devices_per_host", "activation_bytes", "link": {"gb_per_s", "us"}, "network":
// alike}; further keys are not read. The name is the file's.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

namespace nvllm {

struct LinkSpec {
    double bytes_per_s = 0.0;
    double latency_s = 0.0;  // of a message
};

struct MachineSpec {
    std::string name;
    double read_bytes_per_s = 0.0;  // of a device's memory
    double operations_per_s = 0.0;  // multiply-adds count as two
    uint64_t memory_bytes = 0;      // of a device
    int32_t devices_per_host = 1;
    int32_t activation_bytes = 4;  // of a value between ranks
    LinkSpec within;               // a host
    LinkSpec between;              // hosts
};
// Published rates of machines of the field, by name.
std::span<const MachineSpec> known_machines();

// One of those, or that of a file. Throws usage for a name that is neither, io, and bad_data.
MachineSpec machine_named(const std::string& name_or_file);

nlohmann::ordered_json machine_json(const MachineSpec& machine);

}  // namespace nvllm
