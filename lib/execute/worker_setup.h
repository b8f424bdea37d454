// The setup of a worker: plain data, the same for this process and for another one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/host/cpu_placement.h"
#include "lib/execute/propose/proposer_setup.h"
#include "lib/execute/worker.h"
#include "lib/model/loader.h"
#include "lib/model/lora/lora_targets.h"
#include "lib/parallel/pipeline_stages.h"
#include "lib/parallel/rank_setup.h"
#include "lib/parallel/replica_place.h"

namespace nvllm {

struct WorkerSetup {
    // `threads` is set by the process that makes the worker, by `placement`; `checkpoint` may save
    // opening the files once more.
    ModelLoadOptions model;
    CpuPlacement placement;
    // By which ranks of other processes plan their own, each for its machine.
    PlacementOptions placement_options;
    WorkerConfig worker;
    // The model that memory and cache were planned for.
    std::vector<CacheLayout> kv_groups;
    int32_t vocab_size = 0;
    ProposerSetup proposer;
    std::vector<CacheLayout> draft_kv_groups;
    RankSetup ranks;
    ReplicaPlace replica;
    std::vector<PipelineStage> stages;  // by stage; empty: there is one
    // The number of each rank's device; empty: model.device is that of all. Of ranks that a
    // launcher starts, model.device is that of the first one of each machine, and others have those
    // that follow.
    std::vector<int32_t> devices = {};

    // That of one of the ranks: its part of the model and of what it caches, and its share of the
    // processors, of which all ranks of this machine are told. Only the rank that chooses tokens
    // proposes some.
    WorkerSetup of_rank(int32_t rank) const;
};

// The times of a worker that is ready for its first plan.
struct WorkerReady {
    double weights_ms = 0.0;  // mapping, conversion
    double worker_ms = 0.0;   // blocks, scratch
    // Of this rank, or of the one with the most.
    uint64_t weight_bytes = 0;
    uint64_t read_bytes = 0;  // of the model's files
    uint64_t kv_bytes = 0;
};

// Of an all_reduce: the hidden states of the largest step.
uint64_t max_sum_bytes(int64_t max_num_batched_tokens, int64_t hidden_size, DType activations);

// The part of a model in a stage; `stages` empty: all blocks.
ModelPart part_of(const Shard& tensor, const std::vector<PipelineStage>& stages, int32_t stage);

// What one of several ranks of a machine has of the threads that were planned there: at least one.
CpuPlacement share_of(const CpuPlacement& all, int32_t rank, int32_t ranks);

// Binds the calling thread as the pool's first (what the system refuses is logged), loads the model
// and reserves memory. The thread is the one that will carry out plans. Throws what load_model()
// and Worker throw, and bad_data when the model on disk is no longer the one that was planned for.
std::unique_ptr<Worker> make_worker(const WorkerSetup& setup, ThreadPool& threads,
                                    WorkerReady& ready);

}  // namespace nvllm
