// The grid and its record.
#include "lib/measure/sweep.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/measure/json_fields.h"
#include "lib/system/child_process.h"

namespace nvllm {
namespace {

constexpr size_t kMaxPoints = 100'000;

}  // namespace

SweptFlag parse_swept_flag(const std::string& text) {
    const size_t equals = text.find('=');
    SweptFlag flag{text.substr(0, std::min(equals, text.size())), {}};
    if (flag.name.starts_with("--")) flag.name.erase(0, 2);
    if (equals == std::string::npos || flag.name.empty() || equals + 1 == text.size()) {
        throw Error(ErrorKind::usage,
                    fmt::format("--vary: '{}' is not FLAG=VALUE,VALUE such as batch=1,8,64", text));
    }
    for (size_t begin = equals + 1; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        flag.values.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return flag;
}

std::vector<SweepPoint> sweep_points(const std::vector<SweptFlag>& flags) {
    std::vector<SweepPoint> points = {{}};
    for (const SweptFlag& flag : flags) {
        if (points.size() * flag.values.size() > kMaxPoints) {
            throw Error(ErrorKind::usage,
                        fmt::format("the grid has more than {} points", kMaxPoints));
        }
        std::vector<SweepPoint> longer;
        for (const SweepPoint& point : points) {
            for (const std::string& value : flag.values) {
                longer.push_back(point);
                longer.back().push_back("--" + flag.name + "=" + value);
            }
        }
        points = std::move(longer);
    }
    return points;
}

std::string point_key(const std::vector<std::string>& command, int repeat) {
    return fmt::format("{} #{}", fmt::join(command.begin() + 1, command.end(), " "), repeat);
}

std::set<std::string> finished_points(const std::filesystem::path& file) {
    std::error_code none;
    if (!std::filesystem::exists(file, none)) return {};
    const std::string text = read_file(file);
    const size_t whole = text.rfind('\n');
    const size_t kept = whole == std::string::npos ? 0 : whole + 1;
    if (kept < text.size()) std::filesystem::resize_file(file, kept);
    std::set<std::string> keys;
    for (const JsonRecord& record : read_json_records(file)) keys.insert(record.text("sweep_key"));
    return keys;
}

int run_quietly(const std::vector<std::string>& arguments) {
    const int status = ChildProcess(arguments, {}).wait();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace nvllm
