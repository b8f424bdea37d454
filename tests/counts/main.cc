// Runs every case under callgrind, which dumps the instructions of each by its name.
#include <sys/wait.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "kernels/context.h"
#include "kernels/cpu/dispatch/isa.h"
#include "kernels/error.h"
#include "kernels/host/thread_pool.h"
#include "tests/counts/counted_case.h"

namespace nvllm::counts {
namespace {

void run_prepared(const CountedCase& counted) {
    if (counted.prepare) counted.prepare();
    counted.run();
}

// Instrumented is the second run alone, so that set-up is quick and what is done once is left out.
void count(const CountedCase& counted) {
    run_prepared(counted);
    if (counted.prepare) counted.prepare();
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
    counted.run();
    CALLGRIND_DUMP_STATS_AT(counted.name.c_str());
    CALLGRIND_STOP_INSTRUMENTATION;
}

int status_of(const std::function<void()>& body) {
    try {
        body();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 70;
    }
}

// In a process of its own, so that no case finds a heap that others have used: how long malloc
// searches depends on it.
void count_apart(const CaseMaker& make) {
    const pid_t child = fork();
    NVLLM_CHECK(child >= 0, "fork failed");
    if (child == 0) _exit(status_of([&] { count(make()); }));
    int status = 0;
    const pid_t ended = waitpid(child, &status, 0);
    NVLLM_CHECK(ended == child && status == 0, "a case was not counted");
}

void count_all(const std::string& model_directory) {
    ThreadPool no_other_thread(1);
    ScratchArena scratch;
    const Context context{.device = {}, .scratch = &scratch, .threads = &no_other_thread};
    std::vector<CaseMaker> makers;
    add_op_cases(context, makers);
    add_step_cases(model_directory, makers);
    add_host_cases(model_directory, makers);
    for (const CaseMaker& make : makers) count_apart(make);
    std::printf("%zu cases, %s\n", makers.size(), cpu::isa_name(cpu::current_isa()));
}

}  // namespace
}  // namespace nvllm::counts

int main(int argc, char** argv) {
    if (argc != 2 || RUNNING_ON_VALGRIND == 0) {
        std::fprintf(stderr, "Run by scripts/check_counts.sh, under callgrind.\n");
        return 64;
    }
    return nvllm::counts::status_of([&] { nvllm::counts::count_all(argv[1]); });
}
