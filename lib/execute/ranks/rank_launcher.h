// Where the ranks of a worker come from. Each kind starts them anew, gives one connected socket for
// each, and ends them.
//
// A rank answers on its socket as serve_plans() says. Owned by one thread, which calls everything
// but for what says otherwise.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/owned_descriptor.h"
#include "lib/parallel/rank_setup.h"
#include "lib/parallel/rendezvous.h"

namespace nvllm {

// How ranks came to their end.
struct RanksEnd {
    std::string how;  // "process 12: killed by signal 9 (Killed)"; empty: nothing ran
    bool killed_by_others = false;
};

class RankLauncher {
  public:
    virtual ~RankLauncher() = default;

    // REQUIRES: what was started before was buried. Throws unavailable.
    virtual void start() = 0;
    // The sockets in the order of the ranks, once, as soon as all ranks are there; empty before.
    // `wait`: blocks until then. Throws unavailable when a rank ended instead.
    virtual std::optional<std::vector<OwnedDescriptor>> connected(bool wait) = 0;
    // Readable when there may be news for connected(), and the same one for as long as this lives;
    // empty: there is no such descriptor.
    virtual std::optional<int> readable_descriptor() const { return std::nullopt; }
    // Ends all ranks at once. Any thread. False when that would end this process.
    virtual bool kill(const std::string& cause) = 0;
    // Kills what is left and waits for its end. `closed_first`: a rank closed its socket, so that
    // it has an end of its own.
    virtual RanksEnd bury(bool closed_first, const std::string& what_was_seen) = 0;
    // The process that computes. Any thread; empty while there is none.
    virtual std::optional<int> process_id() const = 0;
    // Of the ranks that were started last; a setup has the same whichever of them it is for.
    virtual std::vector<GroupIdBytes> group_ids(const RankSetup& setup);
};

// The program nvllm-worker in one process, with a thread for each rank. It ends with this process
// and with the thread that called start(), however these end.
std::unique_ptr<RankLauncher> child_process_launcher(const std::filesystem::path& program,
                                                     int num_ranks);

// Threads of this process.
std::unique_ptr<RankLauncher> thread_launcher(int num_ranks);

// Where ranks of other processes come to, and who starts them.
struct RankLaunch {
    // Such as "mpirun", "--hostfile", "hosts"; "-n", the number of ranks and what they run are
    // added. Empty: someone else starts them.
    std::vector<std::string> command;
    std::filesystem::path program;  // nvllm-worker, at the same path on all machines
    RankAddress address;            // on which ranks are waited for
    std::string secret;
};

// Processes that join as ranks (join_as_rank()).
std::unique_ptr<RankLauncher> command_launcher(const RankLaunch& launch, int num_ranks);

}  // namespace nvllm
