// Whether a machine is fit to run a model, line by line, with what to do where it is not.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace nvllm::view {

enum class Health : uint8_t {
    ok,
    note,    // it runs, and something would make it run better, or is worth knowing
    problem  // it would not run
};
const char* health_name(Health health);

struct Finding {
    std::string topic;
    Health health = Health::ok;
    std::string text;
    std::string advice;  // what to do; empty: nothing
};

// What only an engine knows; tools hand it in (lib/engine/system_info.h).
struct ComputeInfo {
    std::string isa;
    std::string isa_fault;
    std::vector<std::string> usable_isas;
    int num_cores = 0;           // logical ones that may be used, control groups heeded
    int num_physical_cores = 0;  // of the machine
    int threads_per_core = 1;
    std::string allowed_cpus;        // "0-3,8"
    std::vector<std::string> nodes;  // of memory: "0-7 in 0"
    std::optional<double> quota;     // of processors' time
    int num_threads = 0;             // what --threads would be
    std::string why_so_many;         // and why
    bool is_distributed = false;     // what --numa would be

    // The CUDA module, and what is opened at run time.
    std::string cuda_module;  // its file; empty: there is none
    std::string cuda_fault;  // why nothing can be computed with it; empty: it can, or there is none
    std::string cuda_driver;  // as the module words it
    struct Device {
        std::string name;  // "cuda:0"
        std::string product;
        uint64_t memory_bytes = 0;
        std::string unusable;  // why it cannot be used; empty: it can
    };
    std::vector<Device> devices;
    struct Library {
        std::string name;     // "NCCL"
        std::string version;  // "NCCL 2.28.3"; empty: not asked
        std::string file;
        std::string fault;  // why it cannot be used; empty: it can
    };
    std::vector<Library> libraries;
};

// Processor, cores, memory and its limits, huge pages, files, disk, CUDA: a GPU's being there, its
// driver, the module, its devices and libraries. Only looks.
std::vector<Finding> examine_machine(const ComputeInfo& compute);

bool has_problem(const std::vector<Finding>& findings);
std::string findings_text(const std::vector<Finding>& findings);
// "nvllm-inspect.doctor/1".
nlohmann::ordered_json findings_json(const std::vector<Finding>& findings);

}  // namespace nvllm::view
