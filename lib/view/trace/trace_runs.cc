// Combinations of policies and sizes, and the threads that replay them.
#include "lib/view/trace/trace_runs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "kernels/error.h"
#include "kernels/host/start_thread.h"
#include "lib/cache/eviction.h"
#include "lib/schedule/policy.h"

namespace nvllm::view {
namespace {

// The first exception of any job is thrown again when all have ended.
void run_jobs(const std::vector<std::function<void()>>& jobs, int num_threads) {
    std::atomic<size_t> next = 0;
    std::mutex mutex;
    std::exception_ptr fault;
    const auto work = [&] {
        for (size_t job = next++; job < jobs.size(); job = next++) {
            try {
                jobs[job]();
            } catch (...) {
                const std::lock_guard lock(mutex);
                if (!fault) fault = std::current_exception();
            }
        }
    };
    std::vector<std::thread> threads;
    try {
        for (int i = 1; i < num_threads; ++i) threads.push_back(start_thread(work));
        work();
    } catch (...) {  // of threads that cannot be started: the others stop after their job
        next = jobs.size();
        const std::lock_guard lock(mutex);
        if (!fault) fault = std::current_exception();
    }
    for (std::thread& thread : threads) thread.join();
    if (fault) std::rethrow_exception(fault);
}

}  // namespace

std::vector<ReplayTable> replay_all(const Trace& trace, const ReplayConfig& config,
                                    const ReplayChoices& choices, int num_threads) {
    std::vector<ReplayTable> tables(choices.num_blocks.size());
    std::vector<std::function<void()>> jobs;
    for (size_t place = 0; place < tables.size(); ++place) {
        ReplayTable& table = tables[place];
        table.num_blocks = choices.num_blocks[place];
        ReplayConfig common = config;
        common.num_blocks = table.num_blocks;
        for (const std::string& policy : choices.scheduling_policies) {
            for (const std::string& eviction : choices.eviction_policies) {
                ReplayResult& run = table.runs.emplace_back();
                run.config = common;
                run.config.scheduling_policy = policy;
                run.config.eviction_policy = eviction;
            }
        }
        jobs.push_back(
            [&trace, &table, common] { table.optimum = offline_optimum(trace, common); });
        for (ReplayResult& run : table.runs) {
            jobs.push_back([&trace, &run] { run = replay_trace(trace, run.config); });
        }
    }
    run_jobs(jobs, num_threads);
    return tables;
}

std::vector<std::string> chosen_names(const std::string& text,
                                      const std::vector<std::string>& known, const char* flag) {
    if (text == "all") return known;
    std::vector<std::string> names;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        names.push_back(text.substr(begin, end - begin));
        if (std::ranges::find(known, names.back()) == known.end()) {
            throw Error(ErrorKind::usage, fmt::format("{}: '{}' is not all, or some of {}", flag,
                                                      names.back(), fmt::join(known, ", ")));
        }
        begin = end + 1;
    }
    return names;
}

std::vector<std::string> scheduling_policy_names() {
    std::vector<std::string> names;
    for (const SchedulingPolicy& policy : scheduling_policies()) names.emplace_back(policy.name);
    return names;
}

std::vector<std::string> eviction_policy_names() {
    std::vector<std::string> names;
    for (const EvictionPolicy& policy : eviction_policies()) names.emplace_back(policy.name);
    return names;
}

}  // namespace nvllm::view
