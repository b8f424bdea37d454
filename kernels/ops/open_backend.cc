// The file of a module, its table and its devices.
#include "kernels/ops/open_backend.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>

#include "kernels/error.h"
#include "kernels/module_file.h"
#include "kernels/ops/backend_ops.h"

namespace nvllm {
namespace {

// The folder of the library that this function is part of, or of the program.
std::string own_folder() {
    static const char here = 0;
    Dl_info info{};
    if (::dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return "";
    char real[PATH_MAX];
    const std::string path = ::realpath(info.dli_fname, real) != nullptr ? real : info.dli_fname;
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "" : path.substr(0, slash);
}

std::string file_name(const std::string& backend) { return "libnanovllm_" + backend + ".so"; }

std::vector<std::string> folders_pointed_at() {
    const char* value = std::getenv("NVLLM_BACKEND_PATH");
    std::vector<std::string> folders;
    std::string rest = value != nullptr ? value : "";
    while (!rest.empty()) {
        const size_t colon = rest.find(':');
        if (colon != 0) folders.push_back(rest.substr(0, colon));
        rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
    }
    return folders;
}

// The library's own folder; a program that has the library built in lies in bin beside lib.
std::vector<std::string> own_folders() {
    const std::string own = own_folder();
    const std::string beside = own.substr(0, own.rfind('/')) + "/lib";
    if (beside == own) return {own};
    return {own, beside};
}

const BackendTable& check_table(const std::string& path, const BackendTable& table) {
    if (table.kind == DeviceKind::cpu) {
        refuse_module(path, "a module computes on devices of its own");
    }
    const auto check = [&](const char* name, const auto& function) {
        if (function == nullptr) refuse_module(path, std::string("the module lacks ") + name);
    };
    visit_functions(table, check);
    check("ops", table.ops);
    check_table_version(path, {table.version, table.ops->table_bytes},
                        {kBackendVersion, sizeof(BackendOps)});
    visit_functions(*table.ops, check);
    return table;
}

[[noreturn]] void refuse_index(const BackendTable& backend, const BackendMachine& machine,
                               int index) {
    if (machine.devices.empty()) throw Error(ErrorKind::unavailable, machine.fault);
    throw Error(ErrorKind::unavailable,
                std::string(backend.name) + ":" + std::to_string(index) +
                    " is not there: devices are numbered from 0 to " +
                    std::to_string(static_cast<int>(machine.devices.size()) - 1));
}

}  // namespace

ComputeDevice open_device(const DeviceChoice& choice) {
    if (choice.module_path.empty()) return {};
    const BackendTable& backend = open_backend(choice.module_path);
    const BackendMachine machine = backend.look();
    const auto index = static_cast<size_t>(choice.index);
    if (index >= machine.devices.size()) refuse_index(backend, machine, choice.index);
    const BackendDevice& device = machine.devices[index];
    if (!device.unusable.empty()) throw Error(ErrorKind::unavailable, device.unusable);
    return {backend, choice.index};
}

const BackendTable& open_backend(const std::string& path) {
    return check_table(path, module_table<BackendTable>(path, kBackendEntry, kBackendVersion));
}

std::vector<std::string> backend_places(const std::string& name) {
    std::vector<std::string> places;
    for (const std::vector<std::string>& folders : {folders_pointed_at(), own_folders()}) {
        for (const std::string& folder : folders) places.push_back(folder + "/" + file_name(name));
    }
    return places;
}

std::optional<FoundBackend> find_backend(const std::string& name) {
    if (name.find('/') != std::string::npos) return std::nullopt;
    const size_t num_pointed_at = folders_pointed_at().size();
    const std::vector<std::string> places = backend_places(name);
    for (size_t i = 0; i < places.size(); ++i) {
        if (::access(places[i].c_str(), R_OK) == 0)
            return FoundBackend{places[i], i < num_pointed_at};
    }
    return std::nullopt;
}

}  // namespace nvllm
