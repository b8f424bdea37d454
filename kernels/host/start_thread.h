// The one way to start a thread: where the system refuses it, the error names the limit.
#pragma once

#include <filesystem>
#include <future>
#include <iosfwd>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace nvllm {

// Throws unavailable: why, the limits of threads here, and what to do.
[[noreturn]] void throw_no_thread(const std::system_error& refusal);

// The limits on processes and threads of this process, such as "ulimit -u 100, pids.max 20 of the
// control group"; "none is set" without any.
std::string describe_thread_limits();
// The same for made-up limits: `user_limit` as ulimit -u has it (empty: none), and groups as in
// control_groups.h.
std::string describe_thread_limits(const std::string& user_limit, std::istream& membership,
                                   const std::filesystem::path& root);

// A thread that runs the function. Throws as throw_no_thread.
template <typename Function>
std::thread start_thread(Function&& function) {
    try {
        return std::thread(std::forward<Function>(function));
    } catch (const std::system_error& refusal) {
        throw_no_thread(refusal);
    }
}

// What the function returns or throws; the future's destructor waits for its thread. Throws as
// throw_no_thread.
template <typename Function>
auto start_async(Function&& function) {
    try {
        return std::async(std::launch::async, std::forward<Function>(function));
    } catch (const std::system_error& refusal) {
        throw_no_thread(refusal);
    }
}

}  // namespace nvllm
