// Spawns the program and reads its line.
#include "lib/measure/startup.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/statistics.h"
#include "lib/system/child_process.h"
#include "lib/system/unix_socket.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

struct Field {
    const char* name;
    double StartupSample::*member;
    const char* label;
};
constexpr std::array kFields = {
    Field{"process", &StartupSample::process_ms, "process made to main (ms)"},
    Field{"ready", &StartupSample::ready_ms, "main to ready engine (ms)"},
    Field{"first_token", &StartupSample::first_token_ms, "main to first token (ms)"},
    Field{"total", &StartupSample::total_ms, "process made to first token (ms)"}};

std::vector<double> values_of(std::span<const StartupSample> samples, const Field& field) {
    std::vector<double> values;
    for (const StartupSample& sample : samples) values.push_back(sample.*field.member);
    return values;
}

[[noreturn]] void throw_failed(const std::string& program, const std::string& why) {
    throw Error(ErrorKind::unavailable, program + ": " + why);
}

// What is written into the other end of a pipe, until all who could write have closed it.
std::string read_all(int read_end) {
    std::string text;
    std::array<char, 4096> buffer{};
    for (;;) {
        const ssize_t count = ::read(read_end, buffer.data(), buffer.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return text;
        text.append(buffer.data(), static_cast<size_t>(count));
    }
}

}  // namespace

StartupSample measure_startup(const std::vector<std::string>& arguments) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw_failed(arguments[0], std::strerror(errno));
    const OwnedDescriptor read_end(ends[0]);
    OwnedDescriptor write_end(ends[1]);
    const InheritedDescriptor inherited{write_end.get(), STDOUT_FILENO};
    const double begin_s = MonotonicClock().now_s();
    ChildProcess child(arguments, {&inherited, 1});
    write_end.reset();
    const std::string output = read_all(read_end.get());
    const int status = child.wait();
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        throw_failed(arguments[0], "the measured process failed");
    }
    try {
        const nlohmann::json line = parse_json(output, arguments[0]);
        StartupSample sample;
        sample.process_ms = (line.at("main_s").get<double>() - begin_s) * 1000.0;
        sample.ready_ms = line.at("ready_ms").get<double>();
        sample.first_token_ms = line.at("first_token_ms").get<double>();
        sample.total_ms = sample.process_ms + sample.first_token_ms;
        return sample;
    } catch (const nlohmann::json::exception&) {
        throw_failed(arguments[0], "the measured process did not say how long it took");
    }
}

Json startup_json(std::span<const StartupSample> samples) {
    Json object;
    for (const Field& field : kFields) {
        const std::vector<double> values = values_of(samples, field);
        object[fmt::format("mean_{}_ms", field.name)] = mean(values);
        object[fmt::format("median_{}_ms", field.name)] = median(values);
        object[fmt::format("std_{}_ms", field.name)] = sample_deviation(values);
    }
    for (const Field& field : kFields) {
        object["samples"][fmt::format("{}_ms", field.name)] = values_of(samples, field);
    }
    return object;
}

std::string startup_table(std::span<const StartupSample> samples) {
    std::string text = fmt::format("{:<36} {:>30}\n", "", "median (range)");
    for (const Field& field : kFields) {
        text += fmt::format("{:<36} {:>30}\n", field.label,
                            median_and_range(values_of(samples, field), 2));
    }
    return text + fmt::format("{} fresh processes\n", samples.size());
}

}  // namespace nvllm
