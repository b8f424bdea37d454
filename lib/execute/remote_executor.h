// The worker as ranks that are spoken to over sockets: in processes of their own, which are killed
// and started again, or in threads of this one.
//
// Every rank gets every plan. The one that chooses tokens answers with the result, of which the
// others are told before the next plan; each of them answers that it has computed. When one rank is
// lost, all are started anew.
#pragma once

#include <deque>
#include <filesystem>
#include <memory>
#include <vector>

#include "lib/execute/frame_channel.h"
#include "lib/execute/ranks/rank_launcher.h"
#include "lib/execute/step_executor.h"

namespace nvllm {

class RemoteExecutor : public StepExecutor {
  public:
    // `launcher` starts as many ranks as the setup has.
    RemoteExecutor(const WorkerSetup& setup, std::unique_ptr<RankLauncher> launcher);
    // One process that has all ranks; `program`: nvllm-worker of this build; find_worker_program().
    RemoteExecutor(const WorkerSetup& setup, const std::filesystem::path& program);
    ~RemoteExecutor() override;

    void start() override;
    std::optional<WorkerReady> ready(bool wait) override;
    std::optional<int> readable_descriptor() const override;
    std::optional<std::string> check_alive() override;
    StepResult execute(const BatchPlan& plan) override;
    int max_in_flight() const override;
    void begin(const BatchPlan& plan) override;
    StepResult finish() override;
    void forget() override;
    std::optional<int> process_id() const override;
    bool kill(const std::string& cause) override;

    // A step in which other replicas compute, with experts of these ranks, in two parts; the second
    // does nothing where the worker has ended or was started anew meanwhile. REQUIRES: the worker
    // is ready. Both throw WorkerDied.
    void begin_step_of_others();
    void finish_step_of_others();

  private:
    struct Rank {
        explicit Rank(OwnedDescriptor socket) : channel(std::move(socket)) {}

        FrameChannel channel;
        std::optional<WorkerReady> ready;
        std::deque<StepResult> answers;  // to plans, that were not used yet
    };

    Rank& output_rank() { return *ranks_[static_cast<size_t>(setup_.ranks.sizes.output_rank())]; }
    // Takes the sockets when all ranks are there, and sends each its setup.
    bool connect(bool wait);
    void receive_ready(Rank& rank);
    // The next answer of a rank to a plan; `plan` is the oldest that it has not answered.
    void receive_answer(Rank& rank, const BatchPlan& plan);
    // Until every rank has answered the oldest plan. Throws as soon as one cannot.
    void await_answers();
    // Sends, and takes a failure to do so for the worker's end.
    template <typename Message>
    void send(Rank& rank, const Message& message);
    template <typename Message>
    void send_all(const Message& message);
    // The next frame's kind.
    MessageKind receive(Rank& rank);
    // Ends what is left of the worker; how it came to its end.
    RanksEnd bury(bool closed_first, const std::string& what_was_seen);
    [[noreturn]] void throw_lost(const std::string& what_was_seen, bool closed_first = false);

    WorkerSetup setup_;
    std::unique_ptr<RankLauncher> launcher_;
    bool is_started_ = false;
    std::vector<std::unique_ptr<Rank>> ranks_;  // empty: not connected
    OwnedDescriptor poll_;                      // of all ranks' sockets, where there are several
    std::deque<BatchPlan> sent_plans_;          // not finished yet
    bool awaits_others_ = false;                // a step of others was begun
};

// Where nvllm-worker lies: below the installation or the build tree that this library, or else the
// running program, belongs to. Throws not_found, naming the places.
std::filesystem::path find_worker_program();

}  // namespace nvllm
