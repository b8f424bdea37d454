// Reads "id:controllers:/path" lines; those of version 2 name no controllers.
#include "kernels/host/control_groups.h"

#include <fstream>

namespace nvllm {
namespace {

void add_with_parents(std::filesystem::path folder, const std::filesystem::path& path, int version,
                      std::vector<ControlGroup>& groups) {
    groups.push_back({folder, version});
    for (const std::filesystem::path& part : path.relative_path()) {
        folder /= part;
        groups.push_back({folder, version});
    }
}

}  // namespace

std::vector<ControlGroup> control_groups(const std::string& controller, std::istream& membership,
                                         const std::filesystem::path& root) {
    std::vector<ControlGroup> groups;
    for (std::string line; std::getline(membership, line);) {
        const size_t first = line.find(':');
        const size_t second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const std::filesystem::path path = line.substr(second + 1);
        if (controllers.empty()) {
            add_with_parents(root, path, 2, groups);
            add_with_parents(root / "unified", path, 2, groups);
        } else if (("," + controllers + ",").find("," + controller + ",") != std::string::npos) {
            add_with_parents(root / controllers, path, 1, groups);
            if (controllers != controller) add_with_parents(root / controller, path, 1, groups);
        }
    }
    return groups;
}

std::vector<ControlGroup> control_groups(const std::string& controller) {
    std::ifstream membership("/proc/self/cgroup");
    return control_groups(controller, membership, "/sys/fs/cgroup");
}

}  // namespace nvllm
