// Runs every case under callgrind, which dumps the instructions of each by its name.
#include <valgrind/callgrind.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "kernels/context.h"
#include "kernels/cpu/isa.h"
#include "kernels/thread_pool.h"
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

void count_all(const std::string& model_directory) {
    ThreadPool one_thread(1);
    ScratchArena scratch;
    const Context context{.device = {}, .scratch = &scratch, .threads = &one_thread};
    std::vector<CaseMaker> makers;
    add_op_cases(context, makers);
    add_step_cases(model_directory, makers);
    add_host_cases(model_directory, makers);
    for (const CaseMaker& make : makers) count(make());
    std::printf("%zu cases, %s\n", makers.size(), cpu::isa_name(cpu::current_isa()));
}

}  // namespace
}  // namespace nvllm::counts

int main(int argc, char** argv) {
    if (argc != 2 || RUNNING_ON_VALGRIND == 0) {
        std::fprintf(stderr, "Run by scripts/check_counts.sh, under callgrind.\n");
        return 64;
    }
    try {
        nvllm::counts::count_all(argv[1]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 70;
    }
}
