// Ranks of several replicas that are started together, because they share out experts: when one is
// lost, all are, and they start anew together.
//
// Each replica has a launcher of its own onto them. The first one that asks for a start starts all;
// the others join what it has started.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/execute/ranks/rank_launcher.h"

namespace nvllm {

class SharedRanks : public std::enable_shared_from_this<SharedRanks> {
  public:
    // `all`: launches the ranks of all replicas, those of the first one first.
    SharedRanks(std::unique_ptr<RankLauncher> all, int32_t num_replicas, int32_t ranks_of_replica);

    // For one replica; it holds on to the shared ranks.
    std::unique_ptr<RankLauncher> launcher(int32_t replica);

  private:
    class ReplicaLauncher;

    // What one replica knows of the ranks.
    struct Replica {
        uint64_t start = 0;                    // the number of the start that it uses; 0: none
        std::vector<OwnedDescriptor> sockets;  // of the latest start, until it takes them
        OwnedDescriptor news;                  // an eventfd, readable when its sockets are there
        OwnedDescriptor poll;                  // of it and of news for all replicas
    };

    Replica& of(int32_t replica) { return replicas_[static_cast<size_t>(replica)]; }
    // REQUIRES, as all below: the mutex is held.
    void start(int32_t replica);
    std::optional<std::vector<OwnedDescriptor>> connected(int32_t replica, bool wait);
    void deal_out(std::vector<OwnedDescriptor> sockets);
    // Ends the ranks, if they run, and every wait for them.
    void end(bool closed_first, const std::string& what_was_seen);

    const int32_t ranks_of_replica_;
    std::mutex mutex_;
    std::unique_ptr<RankLauncher> all_;
    std::vector<Replica> replicas_;
    uint64_t start_ = 0;  // the number of the latest one
    bool is_running_ = false;
    bool is_connected_ = false;
    std::vector<OwnedDescriptor> ends_;  // copies of all sockets, to end what waits for them
    std::vector<GroupIdBytes> group_ids_;
    RanksEnd last_end_;
};

}  // namespace nvllm
