// The state of scheduler and cache at one moment, as plain data: every block, every sequence with
// its blocks and the reason why it waits, and the prefix tree. Inspection reads and writes it
// (snapshot_json.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/cache/cache_stats.h"
#include "lib/request/sequence.h"
#include "lib/schedule/scheduler_stats.h"

namespace nvllm {

// The prefix tree takes time in proportion to the tokens in the cache; without it a snapshot takes
// microseconds for each thousand blocks.
enum class SnapshotDetail : uint8_t { without_tree, full };

enum class BlockState : uint8_t {
    free,
    cached,     // no sequence refers to it, its content is in the prefix cache
    used,       // its content is not in the prefix cache (yet)
    published,  // used, and in the prefix cache
};

struct GroupSnapshot {
    int32_t window = 0;         // positions a query reads; 0: all
    bool keeps_states = false;  // its blocks are slots of states
    std::vector<BlockState> states;
    std::vector<int32_t> references;  // by tables, and by plans that are not committed
    CacheGroupStats stats;
};

struct TableSnapshot {
    int32_t num_given_back = 0;   // entries before the window
    std::vector<int32_t> blocks;  // of the entries after those
};

enum class WaitReason : uint8_t {
    none,            // it does not wait
    next_step,       // it can be admitted
    no_slot,         // max_num_seqs sequences run
    no_blocks,       // the cache has too few free blocks for it
    budget_spent,    // the latest step had no tokens left
    other_sequence,  // another sequence of its request computes the prompt; "sibling"
    paused,          // another sequence has its slot (policy)
    slow_client,     // paused until its client has read more; "held"
    swapped,         // in host memory, until there are free blocks for it
    remote_blocks,   // a remote source fills its blocks
    behind_another,  // an earlier sequence waits for blocks
    adapter,         // its adapter is not in a slot
    disk_blocks,     // what it begins with is read from files
};
const char* wait_reason_name(WaitReason reason);
const char* block_state_name(BlockState state);

struct SequenceSnapshot {
    SequenceId id = 0;
    RequestId request = 0;
    int32_t index = 0;
    int32_t priority = 0;
    std::string adapter;  // its name; empty: none
    SequenceState state = SequenceState::waiting;
    WaitReason wait_reason = WaitReason::none;
    int32_t num_missing_blocks = 0;  // no_blocks
    SequenceId waits_for = 0;        // other_sequence, behind_another

    int32_t num_prompt_tokens = 0;
    int32_t num_tokens = 0;  // of prompt and output
    int32_t longest_length = 0;
    int32_t num_computed = 0;
    int32_t num_in_flight = 0;
    std::optional<int32_t> num_cached_tokens;
    int32_t num_preemptions = 0;
    int32_t num_pauses = 0;

    double arrival_s = 0.0;
    double state_since_s = 0.0;
    double waited_s = 0.0;
    std::optional<double> first_scheduled_s;
    std::optional<double> first_token_s;

    bool swapped_out = false;
    std::optional<double> lease_end_s;  // remote_blocks: then it waits without them
    int32_t num_published_blocks = 0;
    std::vector<TableSnapshot> tables;  // per cache group
};

// A run of the prefix tree, see RadixRun, with its first kRunTokensShown tokens.
struct RunSnapshot {
    std::optional<int32_t> parent;  // index, smaller than its own
    int32_t num_tokens = 0;
    std::vector<int32_t> first_tokens;
    bool has_extra = false;  // a salt, an adapter, media or a choice of RoPE belongs to its content
    int32_t first_depth = 0;
    int32_t num_contents = 0;
    int64_t num_hits = 0;
    int64_t last_use = 0;
    int32_t num_expected = 0;
    int64_t references = 0;
    std::vector<std::vector<int32_t>> blocks;  // per cache group
};
inline constexpr size_t kRunTokensShown = 16;

struct ConfigSnapshot {
    std::string model;
    int32_t block_size = 0;
    bool enable_prefix_caching = false;
    std::string eviction_policy;
    std::string scheduling_policy;
    int32_t max_num_seqs = 0;
    int32_t max_num_batched_tokens = 0;
    int32_t max_model_len = 0;
    int32_t pipeline_depth = 0;
    bool enable_chunked_prefill = false;
    int32_t prefill_chunk_size = 0;
};

struct Snapshot {
    double now_s = 0.0;  // on the engine's clock
    int64_t tick = 0;    // blocks allocated so far: the clock of RunSnapshot::last_use
    ConfigSnapshot config;
    SchedulerStats scheduler;
    DetailedCacheStats cache;  // without groups: each is in its GroupSnapshot
    std::vector<GroupSnapshot> groups;
    bool has_tree = false;
    std::vector<RunSnapshot> runs;  // a parent before its children
    // Running sequences in the order of admission, then the queue in its order.
    std::vector<SequenceSnapshot> sequences;
    std::vector<AdapterState> adapters;  // that the worker has, or that requests have
};

// Which sequences hold each block of a group, by block.
std::vector<std::vector<SequenceId>> block_owners(const Snapshot& snapshot, int32_t group);

}  // namespace nvllm
