// One process with all ranks as its threads, and a pair of sockets for each.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <mutex>

#include "lib/execute/frame_channel.h"
#include "lib/execute/ranks/rank_launcher.h"
#include "lib/execute/worker_service.h"
#include "lib/system/child_process.h"

namespace nvllm {
namespace {

class ChildProcessLauncher final : public RankLauncher {
  public:
    ChildProcessLauncher(const std::filesystem::path& program, int num_ranks)
        : program_(program), num_ranks_(num_ranks) {}

    void start() override {
        std::vector<OwnedDescriptor> theirs;
        std::vector<InheritedDescriptor> inherited;
        ours_.clear();
        for (int rank = 0; rank < num_ranks_; ++rank) {
            auto [our_end, their_end] = make_socket_pair();
            inherited.push_back({their_end.get(), kWorkerSocket + rank});
            ours_.push_back(std::move(our_end));
            theirs.push_back(std::move(their_end));
        }
        auto process = std::make_unique<ChildProcess>(
            std::vector<std::string>{program_.string(), std::to_string(::getpid()),
                                     std::to_string(num_ranks_)},
            inherited, ChildSignals::left_to_parent);
        const std::lock_guard lock(mutex_);
        process_ = std::move(process);
        kill_cause_.clear();
    }

    std::optional<std::vector<OwnedDescriptor>> connected(bool) override {
        if (ours_.empty()) return std::nullopt;
        return std::move(ours_);
    }

    bool kill(const std::string& cause) override {
        const std::lock_guard lock(mutex_);
        if (process_ == nullptr) return false;
        if (kill_cause_.empty()) kill_cause_ = cause;
        process_->kill();
        return true;
    }

    // A worker that closed its socket is ending already and keeps the exit it has: the kill is for
    // one that misbehaves in another way.
    RanksEnd bury(bool closed_first, const std::string& what_was_seen) override {
        ours_.clear();
        std::unique_ptr<ChildProcess> process;
        std::string cause;
        {
            const std::lock_guard lock(mutex_);
            process = std::move(process_);
            cause = kill_cause_;
        }
        if (process == nullptr) return {};
        process->kill();
        const int status = process->wait();
        RanksEnd end;
        end.killed_by_others =
            closed_first && cause.empty() && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        end.how = fmt::format(
            "process {}: {}", process->id(),
            !cause.empty() ? cause : fmt::format("{} ({})", describe_exit(status), what_was_seen));
        return end;
    }

    std::optional<int> process_id() const override {
        const std::lock_guard lock(mutex_);
        if (process_ == nullptr) return std::nullopt;
        return process_->id();
    }

  private:
    std::filesystem::path program_;
    int num_ranks_;
    std::vector<OwnedDescriptor> ours_;

    mutable std::mutex mutex_;  // of what other threads see
    std::unique_ptr<ChildProcess> process_;
    std::string kill_cause_;  // empty: this process did not kill it
};

}  // namespace

std::unique_ptr<RankLauncher> child_process_launcher(const std::filesystem::path& program,
                                                     int num_ranks) {
    return std::make_unique<ChildProcessLauncher>(program, num_ranks);
}

}  // namespace nvllm
