// From the word of the option to a device, or to an error that names what is missing.
#include "lib/engine/device_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "lib/base/option_values.h"

namespace nvllm {
namespace {

constexpr const char* kCuda = "cuda";

// "cuda:1" in parts.
struct DeviceName {
    std::string backend;
    std::optional<int> index;
};

[[noreturn]] void refuse_name(const std::string& asked) {
    throw Error(ErrorKind::usage,
                fmt::format("--device {}: no such device; there are auto, cpu, cuda, cuda:N, and "
                            "NAME or NAME:N for a module libnanovllm_NAME.so",
                            asked));
}

[[noreturn]] void refuse(const std::string& asked, const std::string& why) {
    throw Error(ErrorKind::unavailable,
                fmt::format("--device {}: {}; --device cpu always works, and nvllm-inspect doctor "
                            "says more",
                            asked, why));
}

DeviceName parse(const std::string& asked) {
    const size_t colon = asked.find(':');
    DeviceName name{asked.substr(0, colon), std::nullopt};
    if (colon != std::string::npos) {
        name.index = parse_integer<int>(asked.substr(colon + 1));
        if (!name.index || *name.index < 0) refuse_name(asked);
    }
    if (name.backend.empty()) refuse_name(asked);
    return name;
}

// Files of a driver: a cheap check.
bool may_have_gpu() {
    constexpr const char* kTraces[] = {"/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"};
    return std::ranges::any_of(kTraces, [](const char* p) { return ::access(p, F_OK) == 0; });
}

std::optional<int> first_usable(const std::vector<BackendDevice>& devices) {
    const auto found = std::ranges::find_if(
        devices, [](const BackendDevice& device) { return device.unusable.empty(); });
    if (found == devices.end()) return std::nullopt;
    return static_cast<int>(found - devices.begin());
}

ChosenDevice describe(const std::string& path, const BackendTable& backend,
                      const BackendMachine& machine, int index) {
    const BackendDevice& device = machine.devices[static_cast<size_t>(index)];
    ChosenDevice chosen;
    chosen.choice = {path, index};
    chosen.name = fmt::format("{}:{}", backend.name, index);
    chosen.product = device.name;
    chosen.memory_bytes = device.memory_bytes;
    chosen.free_bytes = backend.memory(index).free_bytes;
    return chosen;
}

std::string list_devices(const BackendMachine& machine) {
    std::vector<std::string> lines;
    for (size_t i = 0; i < machine.devices.size(); ++i) {
        lines.push_back(fmt::format("{} ({})", i, machine.devices[i].name));
    }
    return fmt::format("{}", fmt::join(lines, ", "));
}

ChosenDevice choose_of(const std::string& asked, const DeviceName& name, const std::string& path) {
    try {
        const BackendTable& backend = open_backend(path);
        const BackendMachine machine = backend.look();
        if (machine.devices.empty()) refuse(asked, machine.fault);
        const int index = name.index ? *name.index : first_usable(machine.devices).value_or(0);
        if (index >= std::ssize(machine.devices)) {
            refuse(asked, fmt::format("there is no device {}; there are {}", index,
                                      list_devices(machine)));
        }
        const BackendDevice& device = machine.devices[static_cast<size_t>(index)];
        if (!device.unusable.empty()) refuse(asked, device.unusable);
        return describe(path, backend, machine, index);
    } catch (const Error& error) {
        if (std::string(error.what()).starts_with("--device")) throw;
        refuse(asked, error.what());
    }
}

ChosenDevice choose_automatically() {
    const std::optional<FoundBackend> found = find_backend(kCuda);
    if (!found || !(found->was_pointed_at || may_have_gpu())) return {};
    try {
        const BackendTable& backend = open_backend(found->path);
        const BackendMachine machine = backend.look();
        const std::optional<int> index = first_usable(machine.devices);
        if (index) return describe(found->path, backend, machine, *index);
    } catch (const Error&) {  // as if it were absent: it was not named
    }
    return {};
}

}  // namespace

ChosenDevice choose_device(const std::string& asked) {
    if (asked == "cpu") return {};
    if (asked == "auto") return choose_automatically();
    const DeviceName name = parse(asked);
    const std::optional<FoundBackend> found = find_backend(name.backend);
    if (found) return choose_of(asked, name, found->path);
    if (name.backend != kCuda) refuse_name(asked);
    refuse(asked, fmt::format("its module is not installed; looked for {}",
                              fmt::join(backend_places(name.backend), ", ")));
}

std::vector<ChosenDevice> choose_devices(const std::string& asked, int32_t count) {
    std::vector<ChosenDevice> chosen{choose_device(asked)};
    const ChosenDevice first = chosen.front();
    if (first.is_cpu()) chosen.resize(static_cast<size_t>(count), first);
    if (std::ssize(chosen) == count) return chosen;
    const BackendTable& backend = open_backend(first.choice.module_path);
    const BackendMachine machine = backend.look();
    const bool has_number = asked.find(':') != std::string::npos;
    for (int index = first.choice.index + 1; index < std::ssize(machine.devices); ++index) {
        if (std::ssize(chosen) == count) break;
        const BackendDevice& device = machine.devices[static_cast<size_t>(index)];
        if (!device.unusable.empty() && has_number) refuse(asked, device.unusable);
        if (!device.unusable.empty()) continue;
        chosen.push_back(describe(first.choice.module_path, backend, machine, index));
    }
    if (std::ssize(chosen) == count) return chosen;
    throw Error(ErrorKind::unavailable,
                fmt::format("{} ranks and replicas need a device each (--tensor-parallel-size, "
                            "--pipeline-parallel-size, --data-parallel-size), and from {} on there "
                            "are {} that can be used: {}",
                            count, first.name, chosen.size(), list_devices(machine)));
}

BackendInfo backend_info(const std::string& name) {
    BackendInfo info;
    info.name = name;
    const std::optional<FoundBackend> found = find_backend(name);
    if (!found) return info;
    info.path = found->path;
    try {
        info.machine = open_backend(found->path).look();
    } catch (const Error& error) {
        info.fault = error.what();
    }
    return info;
}

}  // namespace nvllm
