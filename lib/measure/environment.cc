// Reads /proc and the choice of instruction set.
#include "lib/measure/environment.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/cpu/dispatch/isa.h"
#include "kernels/host/cpu_count.h"
#include "kernels/host/cpu_placement.h"
#include "lib/system/memory_info.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

Json processor_name() {
    std::ifstream file("/proc/cpuinfo");
    std::string line;
    while (std::getline(file, line)) {
        if (!line.starts_with("model name") && !line.starts_with("Model")) continue;
        const size_t colon = line.find(": ");
        if (colon != std::string::npos) return line.substr(colon + 2);
    }
    return nullptr;
}

Json load_average() {
    std::array<double, 3> loads{};
    if (::getloadavg(loads.data(), 3) != 3) return nullptr;
    return Json::array({loads[0], loads[1], loads[2]});
}

std::string time_stamp(const char* format) {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    std::array<char, 64> text{};
    const size_t size = std::strftime(text.data(), text.size(), format, &local);
    return {text.data(), size};
}

}  // namespace

std::string compact_time_stamp() { return time_stamp("%Y%m%d-%H%M%S"); }
std::string iso_time_stamp() { return time_stamp("%Y-%m-%dT%H:%M:%S%z"); }

Json environment_record(const EnvironmentInput& input) {
    return {{"cpu", processor_name()},
            {"cores", usable_cpu_count()},
            {"isa", cpu::isa_name(cpu::current_isa())},
            {"threads", input.threads > 0 ? input.threads : default_num_threads()},
            {"memory_bytes", available_memory_bytes()},
            {"load_average", load_average()},
            {"version", input.version},
            {"compiler", __VERSION__},
            {"model", input.model.empty() ? Json(nullptr) : Json(input.model)},
            {"command", input.arguments},
            {"date", iso_time_stamp()}};
}

std::string describe_environment(const Json& record) {
    const Json& load = record["load_average"];
    return fmt::format("{}, {} cores, {} threads, {}, load {}",
                       record["cpu"].is_string() ? record["cpu"].get<std::string>() : "unknown CPU",
                       record["cores"].get<int>(), record["threads"].get<int>(),
                       record["isa"].get<std::string>(),
                       load.is_array() ? fmt::format("{:.2f}", load[0].get<double>()) : "unknown");
}

}  // namespace nvllm
