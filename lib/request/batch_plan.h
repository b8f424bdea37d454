// The only words from bookkeeping to compute: which positions of which sequences to compute next.
//
// Plain data without pointers: it can be written down and sent to another process. Plans carry
// differences; a worker keeps the tokens, block tables and sampling state of every sequence it was
// told of (`added`) until it is told to forget it
// (`removed`). A fresh worker gets every active sequence as `added` again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/cache/compaction.h"
#include "lib/cache/swap_space.h"
#include "lib/cache/tiers/disk_move.h"
#include "lib/request/adapter.h"
#include "lib/request/draft_tokens.h"
#include "lib/request/request.h"

namespace nvllm {

// A sequence the worker does not know yet, or was told to forget (preempted).
struct AddedSequence {
    SequenceId sequence = 0;
    std::vector<int32_t> token_ids;  // prompt, then what was generated before a preemption
    int32_t num_prompt_tokens = 0;
    SamplingParams sampling;  // seed set
    // Hidden states are gathered from the first position on that is computed from here on.
    std::optional<PoolingParams> pooling;
    std::vector<int32_t> eos_token_ids;
    int32_t index = 0;  // which of the request's n continuations: part of the random key
    // Which of the model's rotary frequencies: 0, or 1 in sequences that stay within its original
    // context, where those have their own.
    int32_t rope_choice = 0;
    int32_t adapter = 0;  // AdapterRef::id
    // Blocks that already hold this sequence's first tokens (found in the cache, back from host
    // memory, shared with the beam it was forked from), per cache group.
    // Entries wholly before a group's window are 0: nothing reads them.
    std::vector<std::vector<int32_t>> block_tables;
};

enum class OutputKind : uint8_t {
    none,        // a chunk that does not reach the last known token
    sample,      // choose the next token from the logits after the last position
    candidates,  // choose none: report the likeliest, as many as a beam search looks at
    pooled,      // no logits: the vector of a sequence with pooling, whose prompt ends here
};

// Whether an entry computes more than the token chosen last: a prompt, or what was given up. Only
// statistics depend on it.
inline bool is_prefill(int32_t count, OutputKind output) {
    return count > 1 || output == OutputKind::none || output == OutputKind::pooled;
}

// "Compute `count` tokens of this sequence from position `first`." Prefill, a chunk of it and
// decode are this one sentence. Positions from first on are known to the worker: given with the
// sequence or the entry, or sampled by it since.
struct PlanEntry {
    SequenceId sequence = 0;
    int32_t first = 0;
    int32_t count = 0;
    OutputKind output = OutputKind::none;
    int32_t num_candidates = 0;  // for OutputKind::candidates
    // Tokens that were chosen elsewhere since the worker last computed this sequence (beams).
    std::vector<int32_t> new_token_ids;
    // Physical blocks to append to the sequence's table before computing, per cache group; empty
    // when there are none.
    std::vector<std::vector<int32_t>> new_blocks;
};

// What few entries have. Apart from PlanEntry, so that a plan without any costs nothing.
struct EntryExtras {
    uint32_t entry = 0;  // index of the entry
    // Verified by this entry, whose count includes them.
    DraftTokens drafts;
    // The tokens that may be chosen, u32 [rows that sample, (vocab + 31) / 32]: bit i of word w is
    // token 32 w + i; empty: all.
    std::vector<uint32_t> token_mask;
    // Drafts that the worker's model is asked for, for the sequence's next entry, at most so many.
    int32_t num_next_drafts = 0;

    bool operator==(const EntryExtras&) const = default;
};

struct BatchPlan {
    uint64_t number = 0;  // consecutive from 1
    std::vector<SequenceId>
        removed;  // forgotten before anything is added: a sequence may be in both
    std::vector<AddedSequence> added;  // each has an entry
    // Carried out in this order before anything is computed: blocks move within the device (the
    // tables of known sequences change with them), go to host memory, are copied on write, and come
    // back from host memory.
    std::vector<BlockMove> moves;
    std::vector<TableChange> table_changes;
    std::vector<int32_t> num_blocks;  // of each cache group from here on; empty: as before
    std::vector<SwapMove> swaps_out;
    std::vector<BlockMove> copies;
    std::vector<SwapMove> swaps_in;
    std::vector<PlanEntry> entries;
    std::vector<EntryExtras> extras;  // of some entries, in their order
    // Begun, in this order, before anything is computed. An adapter is placed before a sequence
    // that has it is added, or has failed.
    std::vector<AdapterChange> adapters;
    // Begun after the copies above, beside what is computed: blocks are read from files into host
    // blocks, and written from there.
    std::vector<DiskMove> disk_reads;
    std::vector<DiskMove> disk_writes;
    // There is nothing to compute before one of these has ended: the worker waits, for a while.
    bool awaits_disk = false;
    // There is nothing to compute before an adapter is loaded or placed: the worker waits for one,
    // for a while.
    bool awaits_adapters = false;

    // Sum of counts.
    int32_t num_tokens() const {
        int32_t total = 0;
        for (const PlanEntry& entry : entries) total += entry.count;
        return total;
    }
    // Of those, draft tokens.
    int32_t num_draft_tokens() const {
        int32_t total = 0;
        for (const EntryExtras& extra : extras) total += extra.drafts.size();
        return total;
    }
    // Of those, of prefill; the rest is decode.
    int32_t num_prefill_tokens() const {
        int32_t total = 0;
        for (const PlanEntry& entry : entries) {
            total += is_prefill(entry.count, entry.output) ? entry.count : 0;
        }
        // The verification of drafts is decode.
        for (const EntryExtras& extra : extras) {
            total -= extra.drafts.empty() ? 0 : entries[extra.entry].count;
        }
        return total;
    }
};

}  // namespace nvllm
