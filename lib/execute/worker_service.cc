// Messages in, messages out.
#include "lib/execute/worker_service.h"

#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

#include "kernels/host/start_thread.h"
#include "lib/base/error_kinds.h"
#include "lib/base/log.h"
#include "lib/execute/frame_channel.h"
#include "lib/execute/worker_setup.h"
#include "lib/parallel/rank_groups.h"

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
    explicit Service(OwnedDescriptor socket) : channel_(std::move(socket)) {}

    int run() {
        const std::optional<FrameHead> head = channel_.receive();
        if (!head) return 0;
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
            threads_ = std::make_unique<ThreadPool>(setup.placement);
            worker_ = make_worker(setup, *threads_, ready);
            channel_.send(ready);
            return std::nullopt;
        } catch (const std::exception&) {
            const WorkerFault fault = current_fault();
            RankGroups::abandon(setup.ranks);
            return fault;
        }
    }

    void answer(MessageKind kind) {
        if (kind == MessageKind::forget) {
            worker_->reset();
        } else if (kind == MessageKind::plan) {
            compute(read_payload<BatchPlan>(channel_.payload()));
        } else if (kind == MessageKind::result) {
            worker_->settle(read_payload<StepResult>(channel_.payload()));
        } else {
            refuse();
        }
    }

    void compute(const BatchPlan& plan) {
        StepResult result;
        try {
            result = worker_->execute(plan);
        } catch (const DeviceLost&) {
            throw;  // nothing can be computed here any more: the process ends
        } catch (const std::exception&) {
            channel_.send(current_fault());
            return;
        }
        channel_.send(result);
    }

    FrameChannel channel_;
    std::unique_ptr<ThreadPool> threads_;
    std::unique_ptr<Worker> worker_;
};

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

int serve_plans(std::vector<OwnedDescriptor> sockets) {
    if (sockets.size() == 1) return serve_plans(std::move(sockets.front()));
    std::vector<std::thread> others;
    for (size_t rank = 1; rank < sockets.size(); ++rank) {
        others.push_back(start_thread([socket = std::move(sockets[rank])]() mutable {
            serve_until_end(std::move(socket));
        }));
    }
    serve_until_end(std::move(sockets.front()));
    return 0;
}

int serve_plans(OwnedDescriptor socket) {
    Service service(std::move(socket));
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

}  // namespace nvllm
