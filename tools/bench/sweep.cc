// nvllm-bench sweep: other sub-commands over a grid of flags.
#include "lib/measure/sweep.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/cli/main_guard.h"
#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
    std::string command = "throughput";
    std::vector<std::string> vary;
    std::vector<std::string> set;
    std::filesystem::path output = "sweep.jsonl";
    int32_t num_runs = 1;
    bool resume = false;
    bool dry_run = false;
};

OptionList<Options> own_options() {
    OptionList<Options> list("sweep");
    list.group("Grid");
    list.add("command", &Options::command, "What is measured at each point, in a fresh process.",
             choices({"throughput", "latency", "micro", "perplexity", "startup", "serve", "trace"}),
             positional());
    list.add("vary", &Options::vary,
             "A flag of that command with the values it takes; several make a grid.",
             value_name("FLAG=V,V,..."));
    list.add("set", &Options::set, "A flag of that command that stays the same.",
             value_name("FLAG=V"));
    list.add("num-runs", &Options::num_runs, "Times the whole grid is gone through.",
             range(1, 1000));
    list.add("output", &Options::output, "A line for each point: its flags and its result.",
             short_name('o'), value_name("FILE.jsonl"));
    list.add("resume", &Options::resume, "Leave out the points that the file already has.");
    list.add("dry-run", &Options::dry_run, "Print the commands and leave.");
    return list;
}

std::string program_path() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

class Sweep {
  public:
    explicit Sweep(const Options& own) : own_(own), program_(program_path()) {
        std::vector<SweptFlag> flags;
        for (const std::string& text : own.vary) flags.push_back(parse_swept_flag(text));
        points_ = sweep_points(flags);
    }

    std::vector<std::string> command_of(const SweepPoint& point) const {
        std::vector<std::string> arguments = {program_, own_.command};
        for (const std::string& flag : own_.set) {
            arguments.push_back(flag.starts_with("--") ? flag : "--" + flag);
        }
        arguments.insert(arguments.end(), point.begin(), point.end());
        return arguments;
    }

    void print_commands() const {
        std::string text;
        for (const SweepPoint& point : points_) {
            text += fmt::format("{}\n", fmt::join(command_of(point), " "));
        }
        write_output(text);
    }

    // The exit code of the first point that failed; the others are measured all the same.
    int run() {
        const std::set<std::string> finished =
            own_.resume ? finished_points(own_.output) : std::set<std::string>();
        if (!own_.resume) write_file(own_.output, "");
        int first_failure = 0;
        size_t num_done = 0;
        const size_t total = points_.size() * static_cast<size_t>(own_.num_runs);
        for (int32_t repeat = 0; repeat < own_.num_runs; ++repeat) {
            for (const SweepPoint& point : points_) {
                const std::string key = point_key(command_of(point), repeat);
                ++num_done;
                if (finished.contains(key)) {
                    write_output(fmt::format("{:<60} there already\n", key));
                    continue;
                }
                const int code = measure(point, key);
                if (const auto signal = stop_signal()) stop(*signal, num_done - 1, total);
                if (code != 0 && first_failure == 0) first_failure = code;
                write_output(fmt::format("{:<60} {} ({} of {})\n", key,
                                         code == 0 ? "measured" : fmt::format("exit {}", code),
                                         num_done, total));
            }
        }
        return first_failure;
    }

  private:
    [[noreturn]] void stop(int signal, size_t num_done, size_t total) const {
        fmt::print(stderr, "nvllm-bench: stopped: {} of {} points are in {}; --resume goes on\n",
                   num_done, total, own_.output.string());
        throw Interrupted{signal};
    }

    int measure(const SweepPoint& point, const std::string& key) {
        const auto result_file = std::filesystem::temp_directory_path() /
                                 fmt::format("nvllm-bench-sweep-{}.json", ::getpid());
        std::vector<std::string> arguments = command_of(point);
        arguments.push_back("--output-json=" + result_file.string());
        const int code = run_quietly(arguments);
        if (code == 0)
            append(parse_ordered_json(read_file(result_file), result_file.string()), key);
        std::error_code ignored;
        std::filesystem::remove(result_file, ignored);
        return code;
    }

    void append(Json result, const std::string& key) {
        Json line = {{"sweep_key", key}, {"command", own_.command}};
        line.update(result);
        std::ofstream stream(own_.output, std::ios::app);
        stream << line.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n' << std::flush;
        if (!stream) throw Error(ErrorKind::io, own_.output.string() + ": writing failed");
    }

    const Options& own_;
    std::string program_;
    std::vector<SweepPoint> points_;
};

}  // namespace

int run_sweep(const Invocation& invocation) {
    Options own;
    const auto own_list = own_options();
    OptionSet options;
    options.add(own_list, own);
    if (answered(invocation, options)) return 0;
    if (own.vary.empty()) {
        throw Error(ErrorKind::usage, "nothing varies: give --vary FLAG=V,V");
    }
    Sweep sweep(own);
    if (own.dry_run) {
        sweep.print_commands();
        return 0;
    }
    watch_stop_signals();
    return sweep.run();
}

}  // namespace nvllm::bench
