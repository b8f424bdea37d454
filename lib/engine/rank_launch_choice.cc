// From words of options to a command and an address.
#include "lib/engine/rank_launch_choice.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <sstream>

#include "kernels/collectives.h"
#include "kernels/ops/open_backend.h"
#include "lib/execute/remote_executor.h"
#include "lib/execute/worker_service.h"

namespace nvllm {
namespace {

constexpr const char* kMpi = "mpi";

[[noreturn]] void refuse_mpi(const std::string& why) {
    throw Error(ErrorKind::unavailable,
                fmt::format("--distributed-executor-backend: {}; threads needs no MPI", why));
}

std::vector<std::string> words_of(const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> words;
    for (std::string word; stream >> word;) words.push_back(word);
    return words;
}

}  // namespace

bool has_own_processes(RankBackend backend) {
    return backend == RankBackend::mpi || backend == RankBackend::external;
}

std::string rank_collectives() {
    const std::optional<FoundBackend> module = find_backend(kMpi);
    if (!module) refuse_mpi(fmt::format("libnanovllm_{}.so is not installed", kMpi));
    const CollectivesLibrary library = open_collectives(module->path).look();
    if (!library.fault.empty()) refuse_mpi(library.fault);
    return module->path;
}

RankLaunch rank_launch(const ParallelOptions& options, const ReplicaPlace& place) {
    RankLaunch launch;
    launch.program = find_worker_program();
    launch.address = options.rank_address.empty() ? RankAddress{"127.0.0.1", 0}
                                                  : parse_rank_address(options.rank_address);
    if (launch.address.port > 0) {
        const int32_t port = launch.address.port + place.index;
        if (port > UINT16_MAX) {
            throw Error(ErrorKind::usage,
                        fmt::format("--rank-address {}: replica {} has the port {} then, and there "
                                    "are {}: use a smaller one",
                                    options.rank_address, place.index, port, UINT16_MAX));
        }
        launch.address.port = static_cast<uint16_t>(port);
    }
    const char* const secret = std::getenv(kRankSecretVariable);
    if (secret != nullptr) launch.secret = secret;
    if (options.backend == RankBackend::mpi) {
        launch.command = words_of(options.rank_launcher);
        if (launch.command.empty()) {
            throw Error(ErrorKind::usage, "--rank-launcher: a command is expected");
        }
        if (launch.secret.empty()) launch.secret = make_rank_secret();
        return launch;
    }
    if (options.rank_address.empty() || launch.secret.empty()) {
        throw Error(ErrorKind::usage,
                    fmt::format("--distributed-executor-backend external: ranks that others start "
                                "need --rank-address and the environment variable {}",
                                kRankSecretVariable));
    }
    return launch;
}

std::unique_ptr<RankLauncher> rank_launcher(const EngineConfig& config, const ReplicaPlace& place,
                                            int32_t num_ranks, const ChosenDevice& device) {
    const ParallelOptions& parallel = config.compute.parallel;
    if (num_ranks > 1 && has_own_processes(parallel.backend)) {
        return command_launcher(rank_launch(parallel, place), num_ranks);
    }
    const bool can_share = device.is_cpu() || num_ranks == 1;
    if (config.compute.isolation == Isolation::thread && can_share) {
        return thread_launcher(num_ranks);
    }
    return child_process_launcher(find_worker_program(), num_ranks);
}

}  // namespace nvllm
