// nvllm-worker: computes for the program that started it, and ends with it.
#include <unistd.h>

#include <cstdio>

#include "kernels/error.h"
#include "lib/base/option_values.h"
#include "lib/cli/main_guard.h"
#include "lib/execute/worker_service.h"
#include "lib/system/child_process.h"

namespace {

int run_program(int argc, char** argv) {
    const auto parent = nvllm::parse_integer<pid_t>(argc == 2 ? argv[1] : "");
    if (!parent) {
        throw nvllm::Error(nvllm::ErrorKind::usage,
                           "other programs start this one (--isolation process); it does nothing "
                           "by itself");
    }
    nvllm::end_with_parent(*parent);
    return nvllm::serve_plans(nvllm::OwnedDescriptor(nvllm::kWorkerSocket));
}

}  // namespace

int main(int argc, char** argv) {
    return nvllm::run_main("nvllm-worker", [&] { return run_program(argc, argv); });
}
