// The control groups that this process is in, versions 1 and 2: where their files lie.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

namespace nvllm {

// Version 1 and version 2 give a controller's files different names.
struct ControlGroup {
    std::filesystem::path folder;
    int version = 2;
};

// The process's groups and all groups above them that may limit `controller` ("cpu", "memory",
// "pids"). Some of the folders may not exist or hold none of its files.
std::vector<ControlGroup> control_groups(const std::string& controller);

// The same of `membership`, which is what /proc/self/cgroup says, below `root`, which is
// /sys/fs/cgroup.
std::vector<ControlGroup> control_groups(const std::string& controller, std::istream& membership,
                                         const std::filesystem::path& root);

}  // namespace nvllm
