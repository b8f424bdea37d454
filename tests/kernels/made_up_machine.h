// A folder that says of a machine what /sys/devices/system would say of it.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace testing {

class MadeUpMachine {
  public:
    MadeUpMachine() {
        std::string folder = (std::filesystem::temp_directory_path() / "machine-XXXXXX").string();
        if (::mkdtemp(folder.data()) == nullptr)
            throw std::filesystem::filesystem_error(folder, {});
        root_ = folder;
    }
    ~MadeUpMachine() {
        std::error_code ignored;
        if (!root_.empty()) std::filesystem::remove_all(root_, ignored);
    }
    MadeUpMachine(MadeUpMachine&& other) noexcept : root_(std::move(other.root_)) {
        other.root_.clear();
    }
    MadeUpMachine& operator=(const MadeUpMachine&) = delete;

    // Two sockets, each a memory node, of four cores of two threads: 0-7 are the cores' first
    // threads, 8-15 the second ones.
    static MadeUpMachine two_sockets() {
        MadeUpMachine machine;
        machine.write("cpu/online", "0-15\n");
        for (int cpu = 0; cpu < 16; ++cpu) {
            const int core = cpu % 8;
            machine.write("cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
                          std::to_string(core) + "," + std::to_string(core + 8) + "\n");
        }
        machine.write("node/node0/cpulist", "0-3,8-11\n");
        machine.write("node/node1/cpulist", "4-7,12-15\n");
        return machine;
    }

    const std::filesystem::path& root() const { return root_; }
    void write(const std::string& file, const std::string& text) {
        const std::filesystem::path path = root_ / file;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
    }

  private:
    std::filesystem::path root_;
};

}  // namespace testing
