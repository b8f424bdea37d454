// Finds, opens and checks backend modules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/device.h"

namespace nvllm {

// The table of the module in a file; it stays open until the process ends. Throws unavailable when
// the file is no module, of another version, or lacks a function, saying which.
const BackendTable& open_backend(const std::string& path);

// Throws what open_backend() throws, and unavailable for a device that cannot be used.
ComputeDevice open_device(const DeviceChoice& choice);

// Where the module of this name lies: in a folder of $NVLLM_BACKEND_PATH, else beside this library
// or program. Nothing is opened. Empty: nowhere.
struct FoundBackend {
    std::string path;
    bool was_pointed_at = false;  // by $NVLLM_BACKEND_PATH
};
std::optional<FoundBackend> find_backend(const std::string& name);
// The places that find_backend() looks at, in order.
std::vector<std::string> backend_places(const std::string& name);

}  // namespace nvllm
