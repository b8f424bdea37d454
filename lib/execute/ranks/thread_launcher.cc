// Ranks as threads of this process: each serves its end of a pair of sockets.
#include <thread>

#include "kernels/host/start_thread.h"
#include "lib/base/log.h"
#include "lib/execute/frame_channel.h"
#include "lib/execute/ranks/rank_launcher.h"
#include "lib/execute/worker_service.h"

namespace nvllm {
namespace {

class ThreadLauncher final : public RankLauncher {
  public:
    explicit ThreadLauncher(int num_ranks) : num_ranks_(num_ranks) {}
    ~ThreadLauncher() override { join(); }

    void start() override {
        ours_.clear();
        for (int rank = 0; rank < num_ranks_; ++rank) {
            auto [our_end, their_end] = make_socket_pair();
            ours_.push_back(std::move(our_end));
            threads_.push_back(start_thread([socket = std::move(their_end)]() mutable {
                try {
                    serve_plans(std::move(socket));
                } catch (const std::exception& error) {
                    log_error(error.what());
                }
            }));
        }
    }

    std::optional<std::vector<OwnedDescriptor>> connected(bool) override {
        if (ours_.empty()) return std::nullopt;
        return std::move(ours_);
    }

    bool kill(const std::string&) override { return false; }

    // Its ends of the sockets are closed: each rank ends when it comes to its own, or when another
    // one has left the group.
    RanksEnd bury(bool, const std::string& what_was_seen) override {
        ours_.clear();
        if (threads_.empty()) return {};
        join();
        return {what_was_seen, false};
    }

    std::optional<int> process_id() const override { return std::nullopt; }

  private:
    void join() {
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
    }

    int num_ranks_;
    std::vector<OwnedDescriptor> ours_;
    std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<RankLauncher> thread_launcher(int num_ranks) {
    return std::make_unique<ThreadLauncher>(num_ranks);
}

}  // namespace nvllm
