// Looks at /proc, /sys and limits.
#include "lib/view/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "lib/base/units.h"
#include "lib/system/memory_info.h"
#include "lib/view/text_table.h"

namespace nvllm::view {
namespace {

constexpr uint64_t kMinMemory = uint64_t{256} << 20;
constexpr uint64_t kModestMemory = uint64_t{4} << 30;
constexpr uint64_t kMinDisk = uint64_t{64} << 20;

std::string first_line(const char* file) {
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);
    return line;
}

// "Name: value" in a /proc file.
std::optional<std::string> proc_value(const char* file, const std::string& name) {
    std::ifstream stream(file);
    std::string line;
    while (std::getline(stream, line)) {
        if (!line.starts_with(name)) continue;
        const size_t colon = line.find(':');
        const size_t begin = line.find_first_not_of(" \t", colon + 1);
        if (colon != std::string::npos && begin != std::string::npos) return line.substr(begin);
    }
    return std::nullopt;
}

Finding processor(const ComputeInfo& compute) {
    const std::string name = proc_value("/proc/cpuinfo", "model name").value_or("unknown");
    if (!compute.isa_fault.empty()) {
        return {"processor", Health::problem, name + ": " + compute.isa_fault,
                "unset NVLLM_ISA or name one of " +
                    fmt::format("{}", fmt::join(compute.usable_isas, ", "))};
    }
    Finding finding{"processor", Health::ok, name + ": kernels for " + compute.isa, ""};
    if (compute.isa != "scalar") return finding;
    finding.health = Health::note;
    finding.advice = compute.usable_isas.size() > 1
                         ? "NVLLM_ISA holds it back from " + compute.usable_isas.back()
                         : "a processor with AVX2 would be several times faster";
    return finding;
}

std::string counted(int count, const char* one, const char* many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
}

Finding cores(const ComputeInfo& compute) {
    const auto online = static_cast<int>(std::thread::hardware_concurrency());
    Finding finding{
        "cores", Health::ok,
        fmt::format("{} of {}, {} usable", counted(compute.num_physical_cores, "core", "cores"),
                    counted(compute.threads_per_core, "thread", "threads"), compute.num_cores),
        ""};
    if (online > compute.num_cores) {
        finding.health = Health::note;
        finding.text += fmt::format(" of {} (may run on {})", online, compute.allowed_cpus);
        finding.advice = compute.quota ? "raise the control group's CPU limit to use the rest"
                                       : "the affinity mask (taskset) allows no more";
    }
    return finding;
}

Finding memory_nodes(const ComputeInfo& compute) {
    return {
        "nodes", Health::ok,
        fmt::format("{}: processors {}; --numa would be {}",
                    counted(static_cast<int>(compute.nodes.size()), "memory node", "memory nodes"),
                    fmt::join(compute.nodes, ", "), compute.is_distributed ? "distribute" : "off"),
        ""};
}

Finding threads(const ComputeInfo& compute) {
    const std::string quota =
        compute.quota ? fmt::format("a quota of {:.4g} processors' time", *compute.quota)
                      : std::string("no quota");
    return {"threads", Health::ok,
            fmt::format("--threads would be {}: {}; {}", compute.num_threads, compute.why_so_many,
                        quota),
            ""};
}

Finding memory() {
    const uint64_t free = available_memory_bytes();
    Finding finding{"memory", Health::ok, describe_bytes(free) + " available, page cache included",
                    ""};
    if (free < kMinMemory) {
        finding.health = Health::problem;
        finding.advice =
            "end something else, or raise the control group's memory limit or ulimit -v";
    } else if (free < kModestMemory) {
        finding.health = Health::note;
        finding.advice = "small models only; nvllm-inspect plan says what fits";
    }
    return finding;
}

std::string describe_limit(rlim_t limit, bool bytes) {
    if (limit == RLIM_INFINITY) return "unlimited";
    return bytes ? describe_bytes(limit) : std::to_string(limit);
}

Finding limits() {
    rlimit space{};
    rlimit locked{};
    rlimit files{};
    ::getrlimit(RLIMIT_AS, &space);
    ::getrlimit(RLIMIT_MEMLOCK, &locked);
    ::getrlimit(RLIMIT_NOFILE, &files);
    Finding finding{
        "limits", Health::ok,
        fmt::format("address space {}, locked memory {}, open files {}",
                    describe_limit(space.rlim_cur, true), describe_limit(locked.rlim_cur, true),
                    describe_limit(files.rlim_cur, false)),
        ""};
    if (space.rlim_cur != RLIM_INFINITY) {
        finding.health = space.rlim_cur < kMinMemory ? Health::problem : Health::note;
        finding.advice = "weights are mapped: 'ulimit -v unlimited', or at least their size";
    } else if (files.rlim_cur < 256) {
        finding.health = Health::note;
        finding.advice = "'ulimit -n 4096': shards and connections are files";
    }
    return finding;
}

Finding huge_pages() {
    const std::string modes = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
    const size_t begin = modes.find('[');
    const size_t end = modes.find(']');
    if (begin == std::string::npos || end == std::string::npos || end < begin) {
        return {"hugepages", Health::note, "this kernel says nothing of them", ""};
    }
    const std::string mode = modes.substr(begin + 1, end - begin - 1);
    Finding finding{"hugepages", Health::ok, "transparent ones: " + mode, ""};
    if (mode == "never") {
        finding.health = Health::note;
        finding.advice =
            "'echo madvise > /sys/kernel/mm/transparent_hugepage/enabled' as root may help large "
            "caches";
    }
    return finding;
}

Finding disk(const std::filesystem::path& folder, const std::string& topic) {
    struct statvfs info {};
    if (::statvfs(folder.c_str(), &info) != 0) {
        return {topic, Health::note, folder.string() + ": cannot be asked", ""};
    }
    const uint64_t free = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
    Finding finding{topic, Health::ok,
                    fmt::format("{} free at {}", describe_bytes(free), folder.string()), ""};
    if (free < kMinDisk) {
        finding.health = Health::note;
        finding.advice = "logs, dumps and downloads will soon have no room";
    }
    return finding;
}

bool exists(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
}

Finding cuda(const ComputeInfo& compute) {
    std::vector<std::string> there;
    std::vector<std::string> missing;
    const auto look = [&](const char* what, std::initializer_list<const char*> places) {
        const bool found = std::ranges::any_of(places, [](const char* p) { return exists(p); });
        (found ? there : missing).emplace_back(what);
    };
    look("GPU", {"/dev/nvidia0"});
    look("driver", {"/proc/driver/nvidia/version", "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
                    "/usr/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"});
    look("toolkit", {"/usr/local/cuda/bin/nvcc", "/usr/bin/nvcc", "/opt/cuda/bin/nvcc"});
    const std::string module = compute.cuda_module.empty() ? "no module libnanovllm_cuda.so"
                                                           : "module " + compute.cuda_module;
    const std::string found =
        there.empty()
            ? "here is none of GPU, driver, toolkit"
            : fmt::format(
                  "here: {}{}", fmt::join(there, ", "),
                  missing.empty() ? "" : fmt::format("; missing: {}", fmt::join(missing, ", ")));
    const bool usable = std::ranges::any_of(
        compute.devices, [](const auto& device) { return device.unusable.empty(); });
    std::string text = module + "; " + found;
    if (!compute.cuda_driver.empty()) text += "; driver " + compute.cuda_driver;
    if (!compute.cuda_fault.empty()) text += "; " + compute.cuda_fault;
    if (usable) return {"CUDA", Health::ok, text, ""};
    return {"CUDA", Health::note, text, "nothing to do to run on the CPU"};
}

Finding describe(const ComputeInfo::Device& device) {
    return {device.name, device.unusable.empty() ? Health::ok : Health::note,
            fmt::format("{}, {}{}", device.product, describe_bytes(device.memory_bytes),
                        device.unusable.empty() ? "" : ": " + device.unusable),
            ""};
}

Finding describe(const ComputeInfo::Library& library) {
    const bool opens = library.fault.empty();
    return {library.name, opens ? Health::ok : Health::note,
            opens
                ? library.file + " opens" + (library.version.empty() ? "" : ": " + library.version)
                : library.fault,
            opens ? "" : "only needed for GPUs or several processes"};
}

}  // namespace

const char* health_name(Health health) {
    switch (health) {
        case Health::ok:
            return "ok";
        case Health::note:
            return "note";
        case Health::problem:
            return "problem";
    }
    return "";
}

std::vector<Finding> examine_machine(const ComputeInfo& compute) {
    std::error_code ignored;
    std::vector<Finding> findings = {processor(compute), cores(compute), memory_nodes(compute),
                                     threads(compute),   memory(),       limits(),
                                     huge_pages()};
    findings.push_back(disk(std::filesystem::current_path(ignored), "disk"));
    findings.push_back(disk(std::filesystem::temp_directory_path(ignored), "temporary"));
    findings.push_back(cuda(compute));
    for (const auto& device : compute.devices) findings.push_back(describe(device));
    for (const auto& library : compute.libraries) findings.push_back(describe(library));
    return findings;
}

bool has_problem(const std::vector<Finding>& findings) {
    return std::ranges::any_of(
        findings, [](const Finding& finding) { return finding.health == Health::problem; });
}

std::string findings_text(const std::vector<Finding>& findings) {
    TextSheet sheet;
    for (const Finding& finding : findings) {
        sheet.row(fmt::format("{:<8}{}", health_name(finding.health), finding.topic), finding.text);
        if (!finding.advice.empty()) sheet.row("", "-> " + finding.advice);
    }
    return sheet.text();
}

nlohmann::ordered_json findings_json(const std::vector<Finding>& findings) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const Finding& finding : findings) {
        rows.push_back({{"topic", finding.topic},
                        {"health", health_name(finding.health)},
                        {"text", finding.text},
                        {"advice", finding.advice}});
    }
    return {{"schema", "nvllm-inspect.doctor/1"},
            {"healthy", !has_problem(findings)},
            {"findings", rows}};
}

}  // namespace nvllm::view
