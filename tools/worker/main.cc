// nvllm-worker: computes for the program that started it, and ends with it.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/error.h"
#include "lib/base/option_values.h"
#include "lib/cli/main_guard.h"
#include "lib/execute/worker_service.h"
#include "lib/system/child_process.h"

namespace {

int run_program(int argc, char** argv) {
    if (argc == 3 && std::string_view(argv[1]) == "join") {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // with its launcher, also where it was stopped
        return nvllm::join_and_serve(argv[2]);
    }
    const auto parent = nvllm::parse_integer<pid_t>(argc == 3 ? argv[1] : "");
    const auto num_ranks = nvllm::parse_integer<int>(argc == 3 ? argv[2] : "");
    if (!parent || !num_ranks || *num_ranks < 1) {
        throw nvllm::Error(nvllm::ErrorKind::usage,
                           "other programs start this one (--isolation process); it does nothing "
                           "by itself");
    }
    nvllm::end_with_parent(*parent);
    std::vector<nvllm::OwnedDescriptor> sockets;
    for (int rank = 0; rank < *num_ranks; ++rank) {
        sockets.emplace_back(nvllm::kWorkerSocket + rank);
    }
    return nvllm::serve_plans(std::move(sockets));
}

}  // namespace

int main(int argc, char** argv) {
    return nvllm::run_main("nvllm-worker", [&] { return run_program(argc, argv); });
}
