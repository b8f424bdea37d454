// One launch for all, and each replica's part of it.
#include "lib/execute/ranks/shared_ranks.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <iterator>
#include <utility>

#include "kernels/error.h"

namespace nvllm {

class SharedRanks::ReplicaLauncher final : public RankLauncher {
  public:
    ReplicaLauncher(std::shared_ptr<SharedRanks> ranks, int32_t replica)
        : ranks_(std::move(ranks)), replica_(replica) {}

    void start() override {
        const std::lock_guard lock(ranks_->mutex_);
        ranks_->start(replica_);
    }

    std::optional<std::vector<OwnedDescriptor>> connected(bool wait) override {
        const std::lock_guard lock(ranks_->mutex_);
        return ranks_->connected(replica_, wait);
    }

    // Any replica that is woken takes the sockets of all. One that was woken as well, and comes too
    // late to see why, still has an event of its own.
    std::optional<int> readable_descriptor() const override {
        return ranks_->of(replica_).poll.get();
    }

    bool kill(const std::string& cause) override { return ranks_->all_->kill(cause); }

    RanksEnd bury(bool closed_first, const std::string& what_was_seen) override {
        const std::lock_guard lock(ranks_->mutex_);
        Replica& own = ranks_->of(replica_);
        if (own.start == 0) return {};
        if (own.start == ranks_->start_) ranks_->end(closed_first, what_was_seen);
        own.start = 0;
        return ranks_->last_end_;
    }

    std::optional<int> process_id() const override { return ranks_->all_->process_id(); }

    std::vector<GroupIdBytes> group_ids(const RankSetup& setup) override {
        const std::lock_guard lock(ranks_->mutex_);
        if (ranks_->group_ids_.empty()) ranks_->group_ids_ = ranks_->all_->group_ids(setup);
        return ranks_->group_ids_;
    }

  private:
    std::shared_ptr<SharedRanks> ranks_;
    int32_t replica_;
};

SharedRanks::SharedRanks(std::unique_ptr<RankLauncher> all, int32_t num_replicas,
                         int32_t ranks_of_replica)
    : ranks_of_replica_(ranks_of_replica),
      all_(std::move(all)),
      replicas_(static_cast<size_t>(num_replicas)) {
    const std::optional<int> of_all = all_->readable_descriptor();
    for (Replica& replica : replicas_) {
        replica.news = OwnedDescriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
        replica.poll = OwnedDescriptor(::epoll_create1(EPOLL_CLOEXEC));
        epoll_event event{EPOLLIN, {}};
        ::epoll_ctl(replica.poll.get(), EPOLL_CTL_ADD, replica.news.get(), &event);
        if (of_all) ::epoll_ctl(replica.poll.get(), EPOLL_CTL_ADD, *of_all, &event);
    }
}

std::unique_ptr<RankLauncher> SharedRanks::launcher(int32_t replica) {
    return std::make_unique<ReplicaLauncher>(shared_from_this(), replica);
}

// A replica that starts again what it has already wants other ranks.
void SharedRanks::start(int32_t replica) {
    Replica& own = of(replica);
    if (is_running_ && own.start == start_) end(false, "started again");
    if (!is_running_) {
        group_ids_.clear();
        ends_.clear();
        is_connected_ = false;
        ++start_;
        all_->start();
        is_running_ = true;
    }
    own.start = start_;
}

std::optional<std::vector<OwnedDescriptor>> SharedRanks::connected(int32_t replica, bool wait) {
    Replica& own = of(replica);
    if (!is_running_ || own.start != start_) {
        throw Error(ErrorKind::unavailable, "the ranks of another replica have ended");
    }
    if (!is_connected_) {
        std::optional<std::vector<OwnedDescriptor>> sockets = all_->connected(wait);
        if (!sockets) return std::nullopt;
        deal_out(std::move(*sockets));
    }
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t unused = ::read(own.news.get(), &count, sizeof(count));
    return std::move(own.sockets);
}

void SharedRanks::deal_out(std::vector<OwnedDescriptor> sockets) {
    for (const OwnedDescriptor& socket : sockets) ends_.emplace_back(::dup(socket.get()));
    auto next = std::make_move_iterator(sockets.begin());
    for (Replica& replica : replicas_) {
        replica.sockets.assign(next, next + ranks_of_replica_);
        next += ranks_of_replica_;
        const uint64_t one = 1;
        [[maybe_unused]] const ssize_t unused = ::write(replica.news.get(), &one, sizeof(one));
    }
    is_connected_ = true;
}

// Ranks that wait for a plan, and replicas that wait for an answer, come to the end of a socket.
void SharedRanks::end(bool closed_first, const std::string& what_was_seen) {
    if (!is_running_) return;
    for (const OwnedDescriptor& socket : ends_) ::shutdown(socket.get(), SHUT_RDWR);
    last_end_ = all_->bury(closed_first, what_was_seen);
    is_running_ = false;
    ends_.clear();
    for (Replica& replica : replicas_) replica.sockets.clear();
}

}  // namespace nvllm
