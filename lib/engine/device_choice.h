// Which device --device means on this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/ops/open_backend.h"

namespace nvllm {

struct ChosenDevice {
    DeviceChoice choice;
    std::string name = "cpu";   // "cuda:0"
    std::string product;        // "NVIDIA H200"; empty: the CPU
    uint64_t memory_bytes = 0;  // of the device, all there is
    uint64_t free_bytes = 0;    // of the device
    bool is_cpu() const { return choice.module_path.empty(); }
};

// `asked`: auto, cpu, or a module's name with or without the number of a device: cuda, cuda:1.
// auto: the first usable device of the CUDA module, else the CPU; where there is no module or
// no sign of a GPU, nothing is opened. Throws usage for an unknown name, and unavailable with what
// is missing.
ChosenDevice choose_device(const std::string& asked);

// A device for each of `count`: the CPU is there for all, of others one that was asked for by its
// number and those that follow, else the first usable ones. Throws as choose_device(), and
// unavailable where there are fewer.
std::vector<ChosenDevice> choose_devices(const std::string& asked, int32_t count);

// Information on one module, for reports.
struct BackendInfo {
    std::string name;
    std::string path;   // of the module; empty: there is none
    std::string fault;  // why it cannot be opened; empty: it can, or there is none
    BackendMachine machine;
};

// Opens the module if there is one, and reads its devices.
BackendInfo backend_info(const std::string& name);

}  // namespace nvllm
