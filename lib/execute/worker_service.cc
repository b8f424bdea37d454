// Messages in, messages out.
#include "lib/execute/worker_service.h"

#include <fmt/format.h>
#include <poll.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include "kernels/host/start_thread.h"
#include "lib/base/error_kinds.h"
#include "lib/base/log.h"
#include "lib/execute/frame_channel.h"
#include "lib/execute/worker_setup.h"
#include "lib/parallel/launch_environment.h"
#include "lib/parallel/rank_groups.h"
#include "lib/parallel/rendezvous.h"

namespace nvllm {
namespace {

[[noreturn]] void refuse() {
    throw Error(ErrorKind::bad_data, "a message to the worker came at the wrong time");
}

// What is caught here, as a message. Asks for as little memory as can be: there may be none.
WorkerFault current_fault() {
    try {
        throw;
    } catch (const std::bad_alloc&) {
        return {ErrorKind::does_not_fit, "out of memory", true};
    } catch (const Error& error) {
        return {error.kind(), error.what(), false};
    } catch (const std::exception& error) {
        return {ErrorKind::internal, error.what(), false};
    }
}

class Service {
  public:
    // `launched`: as which of this machine's ranks the process was started; empty: its parent has
    // planned for it.
    explicit Service(OwnedDescriptor socket, std::optional<LaunchedRank> launched)
        : channel_(std::move(socket)), launched_(std::move(launched)) {}

    int run() {
        const std::optional<FrameHead> head = channel_.receive();
        if (!head) return 0;
        if (head->kind == MessageKind::probe) {
            return measure(read_payload<RankProbe>(channel_.payload()));
        }
        if (head->kind != MessageKind::setup) refuse();
        if (const auto fault = make(read_payload<WorkerSetup>(channel_.payload()))) {
            channel_.send(*fault);
            return exit_code_for(fault->kind);
        }
        while (const std::optional<FrameHead> next = channel_.receive()) answer(next->kind);
        return 0;
    }

  private:
    std::optional<WorkerFault> make(const WorkerSetup& setup) {
        try {
            WorkerReady ready;
            // Ranks that are started with those of other replicas are counted with them.
            const ReplicaPlace alone =
                setup.ranks.sharing.is_alone() ? setup.replica : ReplicaPlace{};
            threads_ = std::make_unique<ThreadPool>(
                placement(setup.placement, setup.placement_options, alone));
            worker_ = make_worker(placed(setup), *threads_, ready);
            channel_.send(ready);
            return std::nullopt;
        } catch (const std::exception&) {
            const WorkerFault fault = current_fault();
            RankGroups::abandon(setup.ranks);
            return fault;
        }
    }

    // On the device of a rank that was launched.
    WorkerSetup placed(const WorkerSetup& setup) const {
        WorkerSetup own = setup;
        if (launched_ && !setup.model.device.module_path.empty()) {
            own.model.device.index += launched_->local_rank;
        }
        return own;
    }

    int measure(const RankProbe& probe) {
        try {
            ThreadPool threads(placement(probe.placement, probe.placement_options, {}));
            const int num_local = launched_ ? launched_->num_local : probe.ranks.sizes.num_ranks();
            channel_.send(measure_as_rank(probe, num_local, threads));
            // A process ends with its first rank that does: the others' answers come before.
            if (channel_.receive()) refuse();
            return 0;
        } catch (const std::exception&) {
            const WorkerFault fault = current_fault();
            RankGroups::abandon(probe.ranks);
            channel_.send(fault);
            return exit_code_for(fault.kind);
        }
    }

    // `planned`: by the parent, of this machine. A rank that was launched plans by itself.
    CpuPlacement placement(const CpuPlacement& planned, const PlacementOptions& options,
                           const ReplicaPlace& replica) const {
        if (!launched_) return planned;
        const CpuPlacement all = plan_placement(read_cpu_resources(), options);
        return share_of(share_of(all, replica.index, replica.count), launched_->local_rank,
                        launched_->num_local);
    }

    void answer(MessageKind kind) {
        if (kind == MessageKind::forget) {
            worker_->reset();
        } else if (kind == MessageKind::plan) {
            const BatchPlan plan = read_payload<BatchPlan>(channel_.payload());
            compute([&] { return worker_->execute(plan); });
        } else if (kind == MessageKind::others) {
            compute([&] { return worker_->take_part(); });
        } else if (kind == MessageKind::result) {
            worker_->settle(read_payload<StepResult>(channel_.payload()));
        } else {
            refuse();
        }
    }

    void compute(const std::function<StepResult()>& step) {
        StepResult result;
        try {
            result = step();
        } catch (const DeviceLost&) {
            throw;  // nothing can be computed here any more: the process ends
        } catch (const std::exception&) {
            channel_.send(current_fault());
            return;
        }
        channel_.send(result);
    }

    FrameChannel channel_;
    std::optional<LaunchedRank> launched_;
    std::unique_ptr<ThreadPool> threads_;
    std::unique_ptr<Worker> worker_;
};

int serve(Service&& service) {
    try {
        return service.run();
    } catch (const DeviceLost& lost) {
        // At once, with the socket open: it closes when the process has ended, and nothing of the
        // device is given back.
        log_error(lost.what());
        std::_Exit(exit_code_for(lost.kind()));
    } catch (const Error& error) {
        // The engine is gone: there is no reader for the error.
        if (error.kind() == ErrorKind::io) return 0;
        throw;
    }
}

// A rank whose thread ends takes the process with it: the others wait for it.
void serve_until_end(OwnedDescriptor socket) {
    int code = exit_code_for(ErrorKind::internal);
    try {
        code = serve_plans(std::move(socket));
    } catch (const Error& error) {
        log_error(error.what());
        code = exit_code_for(error.kind());
    } catch (const std::exception& error) {
        log_error(error.what());
    }
    std::_Exit(code);
}

}  // namespace

int serve_plans(OwnedDescriptor socket) { return serve(Service(std::move(socket), std::nullopt)); }

int serve_plans(std::vector<OwnedDescriptor> sockets) {
    if (sockets.size() == 1) return serve_plans(std::move(sockets.front()));
    std::vector<std::thread> others;
    for (size_t rank = 1; rank < sockets.size(); ++rank) {
        others.push_back(start_thread(
            [socket = std::move(sockets[rank])]() mutable { serve_until_end(std::move(socket)); }));
    }
    serve_until_end(std::move(sockets.front()));
    return 0;
}

namespace {

constexpr std::chrono::minutes kPatienceToJoin{5};
// What a rank that is idle needs to see the end by itself.
constexpr std::chrono::seconds kTimeToEnd{2};

// A rank that waits for others does not read its socket.
void end_with_connection(int socket) {
    start_thread([socket] {
        pollfd end{socket, POLLRDHUP, 0};
        while (::poll(&end, 1, -1) < 0) {
        }
        std::this_thread::sleep_for(kTimeToEnd);
        std::_Exit(exit_code_for(ErrorKind::unavailable));
    }).detach();
}

RankAddress address_of(const std::string& text, const LaunchedRank& launched) {
    RankAddress address = parse_rank_address(text);
    if (address.host.empty()) address.host = launched.leader_address;
    if (!address.host.empty()) return address;
    throw Error(ErrorKind::usage, fmt::format("{}: {} names no host to join; HOST:PORT is expected",
                                              text, launched.launcher));
}

}  // namespace

int join_and_serve(const std::string& address) {
    const std::optional<LaunchedRank> launched = launched_rank();
    if (!launched) {
        throw Error(ErrorKind::usage,
                    "this process was started as no rank: start it by mpirun, srun or another "
                    "launcher, or set RANK and WORLD_SIZE");
    }
    const char* const secret = std::getenv(kRankSecretVariable);
    if (secret == nullptr || *secret == 0) {
        throw Error(ErrorKind::usage,
                    fmt::format("{} is not set: it is the same for all ranks and for the program "
                                "that they join",
                                kRankSecretVariable));
    }
    OwnedDescriptor socket = join_as_rank(address_of(address, *launched), secret, launched->rank,
                                          launched->num_ranks, kPatienceToJoin);
    end_with_connection(socket.get());
    return serve(Service(std::move(socket), launched));
}

}  // namespace nvllm
