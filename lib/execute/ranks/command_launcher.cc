// Ranks that mpirun, srun or the like starts, or that someone else does: they come to a listener.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>

#include <mutex>

#include "kernels/error.h"
#include "lib/base/log.h"
#include "lib/execute/ranks/rank_launcher.h"
#include "lib/execute/worker_service.h"
#include "lib/parallel/rendezvous.h"
#include "lib/system/child_process.h"

namespace nvllm {
namespace {

using Clock = std::chrono::steady_clock;

// How long a command may take to end by itself when its ranks are told to.
constexpr std::chrono::seconds kTimeToEnd{3};
constexpr int kPollMs = 50;
// A command that has worked before may fail because a machine is gone for a while: it is started
// again after a pause, which doubles, until this is over.
constexpr std::chrono::minutes kLongestOutage{5};
constexpr std::chrono::milliseconds kFirstPause{500};
constexpr std::chrono::milliseconds kLongestPause{8000};
// Of a process that a signal ended.
constexpr int kFirstSignalCode = 128;

class CommandLauncher final : public RankLauncher {
  public:
    CommandLauncher(const RankLaunch& launch, int num_ranks)
        : launch_(launch),
          num_ranks_(num_ranks),
          listener_(launch.address, launch.secret),
          timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
          poll_(::epoll_create1(EPOLL_CLOEXEC)) {
        watch(listener_.descriptor());
        watch(timer_.get());
    }
    ~CommandLauncher() override { bury(false, ""); }

    void start() override {
        {
            const std::lock_guard lock(mutex_);
            kill_cause_.clear();
        }
        pause_ = kFirstPause;
        gives_up_ = Clock::now() + kLongestOutage;
        start_command();
    }

    std::optional<std::vector<OwnedDescriptor>> connected(bool wait) override {
        while (!listener_.take()) {
            check_running();
            if (!wait) return std::nullopt;
            pollfd one{poll_.get(), POLLIN, 0};
            ::poll(&one, 1, kPollMs);
        }
        std::vector<OwnedDescriptor> sockets = listener_.ranks();
        end_of_process_.reset();
        has_worked_ = true;
        const std::lock_guard lock(mutex_);
        for (const OwnedDescriptor& socket : sockets) {
            sockets_.emplace_back(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
        }
        return sockets;
    }

    std::optional<int> readable_descriptor() const override { return poll_.get(); }

    // Ranks see that their connections end, and end with them.
    bool kill(const std::string& cause) override {
        const std::lock_guard lock(mutex_);
        if (sockets_.empty() && process_ == nullptr) return false;
        if (kill_cause_.empty()) kill_cause_ = cause;
        shut_down();
        return true;
    }

    RanksEnd bury(bool closed_first, const std::string& what_was_seen) override {
        listener_.expect(0);
        end_of_process_.reset();
        set_timer(std::chrono::milliseconds(0));
        std::unique_ptr<ChildProcess> process;
        std::string cause;
        bool were_connected = false;
        {
            const std::lock_guard lock(mutex_);
            shut_down();
            were_connected = !sockets_.empty();
            sockets_.clear();
            process = std::move(process_);
            cause = kill_cause_;
        }
        if (process == nullptr && !were_connected) return {};
        RanksEnd end;
        end.how = fmt::format("{} ranks: {}", num_ranks_, cause.empty() ? what_was_seen : cause);
        if (process == nullptr) return end;
        if (!process->ends_within(kTimeToEnd)) process->kill();
        const int status = process->wait();
        if (!cause.empty()) return end;
        end.how += fmt::format("; {} {}", launch_.command.front(), describe_exit(status));
        // Launchers end with a rank's own exit code, as shells have it.
        end.killed_by_others =
            closed_first && WIFEXITED(status) && WEXITSTATUS(status) == kFirstSignalCode + SIGKILL;
        return end;
    }

    std::optional<int> process_id() const override {
        const std::lock_guard lock(mutex_);
        if (process_ == nullptr) return std::nullopt;
        return process_->id();
    }

  private:
    // Open MPI wants to be told that it may run as root and with more ranks than cores, is not to
    // bind ranks, which do so themselves, and hands only named variables to other machines.
    std::vector<std::string> variables() const {
        return {fmt::format("{}={}", kRankSecretVariable, launch_.secret),
                "OMPI_ALLOW_RUN_AS_ROOT=1",
                "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
                "OMPI_MCA_orte_execute_quiet=1",
                "OMPI_MCA_rmaps_base_oversubscribe=1",
                "OMPI_MCA_hwloc_base_binding_policy=none",
                fmt::format("OMPI_MCA_mca_base_env_list={}", kRankSecretVariable),
                "PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe",
                "PRTE_MCA_hwloc_default_binding_policy=none"};
    }

    void watch(int descriptor) {
        epoll_event event{EPOLLIN, {}};
        ::epoll_ctl(poll_.get(), EPOLL_CTL_ADD, descriptor, &event);
    }

    void start_command() {
        listener_.expect(num_ranks_);
        if (launch_.command.empty()) {
            log_info(fmt::format("waiting for {} ranks at {}", num_ranks_,
                                 format_rank_address(listener_.address())));
            return;
        }
        std::vector<std::string> arguments = launch_.command;
        arguments.front() = program_path(arguments.front());
        for (const std::string& argument :
             {std::string("-n"), std::to_string(num_ranks_), launch_.program.string(),
              std::string("join"), format_rank_address(listener_.address())}) {
            arguments.push_back(argument);
        }
        auto process =
            std::make_unique<ChildProcess>(arguments, std::span<const InheritedDescriptor>(),
                                           ChildSignals::left_to_parent, variables());
        end_of_process_ = process->readable_at_end();
        if (end_of_process_) watch(end_of_process_.get());
        const std::lock_guard lock(mutex_);
        process_ = std::move(process);
    }

    // Of a command: whether it still runs, or is to be started again.
    void check_running() {
        uint64_t expirations = 0;
        if (::read(timer_.get(), &expirations, sizeof(expirations)) > 0) return start_command();
        std::string how;
        {
            const std::lock_guard lock(mutex_);
            if (process_ == nullptr || !process_->ends_within(std::chrono::milliseconds(0))) return;
            how =
                fmt::format("{}: {} before all {} ranks had come", fmt::join(launch_.command, " "),
                            describe_exit(process_->wait()), num_ranks_);
            process_.reset();
        }
        end_of_process_.reset();
        if (!has_worked_ || Clock::now() > gives_up_) throw Error(ErrorKind::unavailable, how);
        log_warning(fmt::format("{}; it is started again in {} s", how,
                                static_cast<double>(pause_.count()) / 1000.0));
        listener_.expect(num_ranks_);
        set_timer(pause_);
        pause_ = std::min(2 * pause_, kLongestPause);
    }

    // 0: it does not go off.
    void set_timer(std::chrono::milliseconds time) {
        itimerspec after{};
        after.it_value.tv_sec = time.count() / 1000;
        after.it_value.tv_nsec = time.count() % 1000 * 1000000;
        ::timerfd_settime(timer_.get(), 0, &after, nullptr);
    }

    void shut_down() {
        for (const OwnedDescriptor& socket : sockets_) ::shutdown(socket.get(), SHUT_RDWR);
    }

    RankLaunch launch_;
    int num_ranks_;
    RankListener listener_;
    OwnedDescriptor end_of_process_;  // while ranks are waited for
    OwnedDescriptor timer_;           // when the command is started again
    OwnedDescriptor poll_;            // of these and the listener
    bool has_worked_ = false;
    std::chrono::milliseconds pause_ = kFirstPause;
    Clock::time_point gives_up_;

    mutable std::mutex mutex_;  // of what other threads see
    std::unique_ptr<ChildProcess> process_;
    std::vector<OwnedDescriptor> sockets_;  // copies, to end connections by
    std::string kill_cause_;                // empty: this process did not end them
};

}  // namespace

std::unique_ptr<RankLauncher> command_launcher(const RankLaunch& launch, int num_ranks) {
    return std::make_unique<CommandLauncher>(launch, num_ranks);
}

}  // namespace nvllm
