// A worker without a model: it stores the state that plans give it, checks every read of the cache,
// and chooses tokens by a rule.
//
// The next token is a number drawn from all tokens before it: the output is the same however it was
// computed, and expected_tokens() predicts it. Checks count errors instead of stopping.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/cache/cache_manager.h"
#include "lib/request/batch_plan.h"
#include "lib/request/step_result.h"
#include "tests/lib/cache/kv_slots.h"
#include "tests/lib/schedule/fake_adapters.h"
#include "tests/lib/schedule/fake_files.h"

namespace nvllm {

constexpr int32_t kEndToken = 0;

struct TokenRule {
    int32_t vocab_size = 60;

    int32_t next(uint64_t digest, int32_t index) const {
        const uint64_t mixed = (digest + static_cast<uint64_t>(index)) * 0xd6e8feb86659fd93;
        return static_cast<int32_t>((mixed >> 32) % static_cast<uint64_t>(vocab_size));
    }
};

// What a rule takes for the index of a sequence: other adapters choose other tokens.
inline int32_t index_with(int32_t index, int32_t adapter) { return index + 1000 * adapter; }

// Prompt and output of a sequence that is not cancelled.
inline std::vector<int32_t> expected_tokens(const Request& request, int32_t index,
                                            const TokenRule& rule, int32_t max_model_len) {
    std::vector<int32_t> tokens = request.prompt_token_ids;
    if (request.pooling) return tokens;
    const SamplingParams& sampling = request.sampling;
    const size_t num_prompt = tokens.size();
    while (true) {
        tokens.push_back(
            rule.next(prefix_digests(tokens).back(), index_with(index, request.adapter.id)));
        const auto num_generated = static_cast<int32_t>(tokens.size() - num_prompt);
        const bool ends = tokens.back() == kEndToken && !sampling.ignore_eos;
        if (ends && num_generated >= sampling.min_tokens) return tokens;
        if (num_generated >= sampling.max_tokens.value_or(max_model_len)) return tokens;
        if (static_cast<int32_t>(tokens.size()) >= max_model_len) return tokens;
    }
}

// The likeliest tokens after a prefix, by a rule of their own: never two alike.
inline std::vector<TokenLogprob> expected_candidates(uint64_t digest, int32_t count,
                                                     const TokenRule& rule) {
    std::vector<TokenLogprob> candidates;
    float logprob = 0.0f;
    for (int32_t i = 0; i < count; ++i) {
        const uint64_t mixed = (digest + 77u * static_cast<uint64_t>(i)) * 0xd6e8feb86659fd93;
        logprob -= 0.05f + static_cast<float>(mixed >> 44) / static_cast<float>(1 << 20);
        const int32_t first = rule.next(digest, 0);
        candidates.push_back({(first + i) % rule.vocab_size, logprob});
    }
    return candidates;
}

class FakeWorker {
  public:
    FakeWorker(const CacheConfig& cache, TokenRule rule)
        : files(cache), block_size_(cache.block_size), rule_(rule) {
        for (const CacheGroupConfig& group : cache.groups) {
            is_state_.push_back(group.kind == CacheGroupKind::state);
            slots_.emplace_back(group.num_blocks, cache.block_size, group.window);
            host_slots_.emplace_back(std::max(1, group.num_host_blocks), cache.block_size, 0);
        }
    }

    StepResult execute(const BatchPlan& plan) {
        wrong += last_plan_ != 0 && plan.number != last_plan_ + 1;
        last_plan_ = plan.number;
        move_blocks(plan);
        const std::vector<DiskEvent> disk = files.step(plan, host_slots_);
        std::set<int32_t> in_use;
        for (const Named& named : uncommitted_) {
            in_use.insert(named.adapters.begin(), named.adapters.end());
        }
        const auto events = adapters.begin(plan.adapters, plan.awaits_adapters, in_use);
        for (const SequenceId id : plan.removed) wrong += known_.erase(id) != 1;
        for (const TableChange& change : plan.table_changes) {
            known_.at(change.owner)
                .tables[static_cast<size_t>(change.group)]
                .at(static_cast<size_t>(change.index)) = change.block;
        }
        for (const AddedSequence& added : plan.added) add(added, plan);
        StepResult result{.plan_number = plan.number, .sequences = {}};
        result.adapters = events;
        result.disk = disk;
        std::set<SequenceId> seen;
        Named named{plan.number, std::vector<std::set<BlockId>>(slots_.size()), {}};
        auto extras = plan.extras.begin();
        for (size_t i = 0; i < plan.entries.size(); ++i) {
            const PlanEntry& entry = plan.entries[i];
            wrong += !seen.insert(entry.sequence).second || entry.count < 1;
            const bool has_extras = extras != plan.extras.end() && extras->entry == i;
            result.sequences.push_back(
                compute(entry, has_extras ? (extras++)->drafts : DraftTokens{}, named));
            propose_next(entry, i, result);
        }
        wrong += extras != plan.extras.end();
        for (const AddedSequence& added : plan.added) wrong += !seen.contains(added.sequence);
        uncommitted_.push_back(std::move(named));
        return result;
    }

    void committed(uint64_t plan_number) {
        while (!uncommitted_.empty() && uncommitted_.front().plan_number <= plan_number) {
            uncommitted_.pop_front();
        }
    }

    // What a fresh worker knows.
    void restart() {
        known_.clear();
        uncommitted_.clear();
        adapters.restart();
        files.restart();
        for (KvSlots& group : slots_) group.lose_everything();
        for (KvSlots& group : host_slots_) group.lose_everything();
    }

    // A remote source writes KV of the positions from `first` to `end`, outside of any plan.
    void receive(const std::vector<std::vector<BlockId>>& tables,
                 const std::vector<int32_t>& tokens, int32_t first, int32_t end) {
        const std::vector<uint64_t> digests = prefix_digests(tokens);
        for (size_t group = 0; group < slots_.size(); ++group) {
            for (int32_t position = first; position < end; ++position) {
                const BlockId block = tables[group].at(static_cast<size_t>(position / block_size_));
                for (const Named& plan : uncommitted_) wrong += plan.blocks[group].contains(block);
                slots_[group].write(tables[group], position,
                                    digests[static_cast<size_t>(position)]);
            }
        }
    }

    size_t num_known() const { return known_.size(); }
    // Where it reads and writes. REQUIRES: the sequence is known.
    const std::vector<BlockId>& table(SequenceId sequence, size_t group) const {
        return known_.at(sequence).tables[group];
    }

    // Drafts for the next entry of a sequence with these tokens and this index; empty: none.
    std::function<DraftTokens(std::span<const int32_t>, int32_t)> propose;

    FakeAdapters adapters;
    FakeFiles files;

    int64_t wrong = 0;  // broken promises of plans
    int64_t drafts_accepted = 0;
    int64_t drafts_rejected = 0;
    int64_t computed_positions = 0;  // in all
    int64_t blocks_out = 0;          // to host memory
    int64_t blocks_in = 0;

  private:
    struct Known {
        std::vector<int32_t> tokens;
        std::vector<uint64_t> digests;
        std::vector<std::vector<BlockId>> tables;
        int32_t next = 0;  // the position to compute next
        int32_t index = 0;
        bool pooled = false;
        int32_t adapter = 0;
    };
    struct Named {
        uint64_t plan_number = 0;
        std::vector<std::set<BlockId>> blocks;  // per group
        std::set<int32_t> adapters;
    };

    void move_blocks(const BatchPlan& plan) {
        for (const BlockMove& move : plan.moves) copy(move);
        for (const SwapMove& move : plan.swaps_out) {
            host_slots_[static_cast<size_t>(move.group)].take_block(
                slots_[static_cast<size_t>(move.group)], move.device_block, move.host_block);
        }
        for (const BlockMove& move : plan.copies) copy(move);
        for (const SwapMove& move : plan.swaps_in) {
            slots_[static_cast<size_t>(move.group)].take_block(
                host_slots_[static_cast<size_t>(move.group)], move.host_block, move.device_block);
        }
        blocks_out += static_cast<int64_t>(plan.swaps_out.size());
        blocks_in += static_cast<int64_t>(plan.swaps_in.size());
    }
    void copy(const BlockMove& move) {
        KvSlots& slots = slots_[static_cast<size_t>(move.group)];
        slots.take_block(slots, move.from, move.to);
    }

    void add(const AddedSequence& added, const BatchPlan& plan) {
        Known known{added.token_ids, prefix_digests(added.token_ids), added.block_tables, 0,
                    added.index,     added.pooling.has_value(),       added.adapter};
        wrong += known.tables.size() != slots_.size();
        const auto entry = std::ranges::find(plan.entries, added.sequence, &PlanEntry::sequence);
        known.next = entry == plan.entries.end() ? 0 : entry->first;
        // What is not computed now lies in the blocks it comes with.
        for (size_t group = 0; group < slots_.size() && group < known.tables.size(); ++group) {
            const auto size = static_cast<int32_t>(known.tables[group].size());
            wrong += !is_state_[group] && known.next > size * block_size_;
        }
        wrong += known.next >= static_cast<int32_t>(known.tokens.size());
        // Hidden states are nowhere but in the worker.
        wrong += added.pooling && added.pooling->reads_early_positions() && known.next != 0;
        wrong += !known_.emplace(added.sequence, std::move(known)).second;
    }

    void propose_next(const PlanEntry& entry, size_t index, StepResult& result) {
        const auto found = known_.find(entry.sequence);
        if (!propose || entry.output != OutputKind::sample || found == known_.end()) return;
        StepExtras extras;
        extras.entry = static_cast<uint32_t>(index);
        const auto num_tokens = static_cast<int32_t>(result.sequences.back().token_ids.size());
        for (int32_t row = 1; row < num_tokens; ++row) extras.accepted_rows.push_back(row);
        extras.next_drafts = propose(found->second.tokens, found->second.index);
        result.extras.push_back(std::move(extras));
    }

    SequenceStep compute(const PlanEntry& entry, const DraftTokens& drafts, Named& named) {
        SequenceStep step;
        step.sequence = entry.sequence;
        const auto found = known_.find(entry.sequence);
        const int32_t end = entry.first + entry.count;
        if (found == known_.end() || entry.first != found->second.next) {
            ++wrong;
            return step;
        }
        for (const int32_t token : entry.new_token_ids) append_token(found->second, token);
        Known& known = found->second;
        if (known.adapter != 0) {
            named.adapters.insert(known.adapter);
            if (adapters.has_failed(known.adapter)) {
                step.fault = Fault{ErrorKind::bad_data, "broken"};
            } else {
                wrong += !adapters.is_placed(known.adapter);
            }
        }
        append_blocks(known, entry);
        const int32_t num_known = end - drafts.size();
        if (num_known > static_cast<int32_t>(known.tokens.size())) {
            ++wrong;
            return step;
        }
        if (!drafts.empty()) wrong += entry.output != OutputKind::sample;
        const bool branches = drafts.branches();
        if (!branches) {
            for (const int32_t token : drafts.token_ids) append_token(known, token);
        }
        for (size_t group = 0; group < slots_.size(); ++group) {
            const auto& table = known.tables[group];
            if (is_state_[group]) {
                update_state(slots_[group], table, known, entry.first, num_known);
                named.blocks[group].insert(table.begin(), table.end());
                continue;
            }
            visit(slots_[group], table, known, entry.first, branches ? num_known : end);
            wrong += static_cast<int32_t>(table.size()) * block_size_ < end;
            const auto read = table.begin() + slots_[group].first_read(entry.first) / block_size_;
            named.blocks[group].insert(read, table.end());
        }
        if (!drafts.empty() && !branches) {
            known.tokens.resize(static_cast<size_t>(num_known));
            known.digests.resize(static_cast<size_t>(num_known));
        }
        known.next = num_known;
        computed_positions += entry.count;
        const bool last = num_known == static_cast<int32_t>(known.tokens.size());
        wrong += last != (entry.output != OutputKind::none);
        wrong += (last && known.pooled) != (entry.output == OutputKind::pooled);
        if (entry.output == OutputKind::pooled) step.embedding = {1.0f};
        if (entry.output == OutputKind::candidates) {
            step.candidates =
                expected_candidates(known.digests.back(), entry.num_candidates, rule_);
        }
        if (entry.output != OutputKind::sample || step.fault) return step;
        choose_tokens(known, drafts, step);
        return step;
    }

    // The accepted drafts, then the token after them. Those of a tree go to their positions.
    void choose_tokens(Known& known, const DraftTokens& drafts, SequenceStep& step) {
        size_t num_accepted = 0;
        int32_t last = 0;
        const auto child = [&] {
            for (int32_t row = last + 1; row <= drafts.size(); ++row) {
                const int32_t token = drafts.token_ids[static_cast<size_t>(row - 1)];
                if (drafts.parent(row) == last && token == step.token_ids.back()) return row;
            }
            return 0;
        };
        while (true) {
            step.token_ids.push_back(
                rule_.next(known.digests.back(), index_with(known.index, known.adapter)));
            append_token(known, step.token_ids.back());
            last = child();
            if (last == 0) break;
            for (size_t group = 0; group < slots_.size() && drafts.branches(); ++group) {
                slots_[group].write(known.tables[group], known.next,
                                    known.digests[static_cast<size_t>(known.next)]);
            }
            ++num_accepted;
            ++known.next;
        }
        // States stop where the accepted drafts do.
        const auto num_before = known.next - static_cast<int32_t>(num_accepted);
        for (size_t group = 0; group < slots_.size() && num_accepted > 0; ++group) {
            if (!is_state_[group]) continue;
            update_state(slots_[group], known.tables[group], known, num_before, known.next);
        }
        drafts_accepted += static_cast<int64_t>(num_accepted);
        drafts_rejected += static_cast<int64_t>(drafts.token_ids.size() - num_accepted);
    }

    static void append_token(Known& known, int32_t token) {
        known.tokens.push_back(token);
        known.digests = prefix_digests_after(known);
    }

    // One digest more, without going through all tokens again.
    static std::vector<uint64_t> prefix_digests_after(Known& known) {
        std::vector<uint64_t> digests = std::move(known.digests);
        const std::vector<int32_t> last{known.tokens.back()};
        digests.push_back(prefix_digests(last, digests.back())[0]);
        return digests;
    }

    void append_blocks(Known& known, const PlanEntry& entry) {
        wrong += !entry.new_blocks.empty() && entry.new_blocks.size() != slots_.size();
        for (size_t group = 0; group < entry.new_blocks.size(); ++group) {
            for (const BlockId block : entry.new_blocks[group]) {
                for (const Named& plan : uncommitted_) wrong += plan.blocks[group].contains(block);
                known.tables[group].push_back(block);
            }
        }
    }

    void visit(KvSlots& slots, const std::vector<BlockId>& table, const Known& known, int32_t first,
               int32_t end) {
        if (static_cast<int32_t>(table.size()) * block_size_ < end) {
            ++wrong;
            return;
        }
        for (int32_t p = first; p < end; ++p)
            slots.write(table, p, known.digests[static_cast<size_t>(p)]);
        for (int32_t p = first; p < end; ++p) wrong += !slots.reads_well(table, p, known.digests);
    }

    // The state before the first position becomes the one after the last; it lies where position 0
    // would.
    void update_state(KvSlots& slots, const std::vector<BlockId>& table, const Known& known,
                      int32_t first, int32_t end) {
        if (table.size() != 1) {
            ++wrong;
            return;
        }
        const auto digest = [&](int32_t next) {
            return known.digests[static_cast<size_t>(next - 1)];
        };
        if (first > 0) wrong += slots.holds(table, 0) != digest(first);
        slots.write(table, 0, digest(end));
    }

    int32_t block_size_;
    std::vector<bool> is_state_;
    TokenRule rule_;
    std::vector<KvSlots> slots_;
    std::vector<KvSlots> host_slots_;
    std::unordered_map<SequenceId, Known> known_;
    std::deque<Named> uncommitted_;
    uint64_t last_plan_ = 0;
};

}  // namespace nvllm
