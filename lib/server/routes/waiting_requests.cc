// Reasons of waiting, from an engine's snapshot.
#include "lib/server/routes/waiting_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace nvllm::server {
namespace {

// All engines together: a page asks again a second later.
constexpr std::chrono::milliseconds kPatience{250};

std::string_view state_word(SequenceState state) {
    switch (state) {
        case SequenceState::paused:
            return "paused";
        case SequenceState::swapped:
            return "swapped";
        default:
            return "waiting";
    }
}

}  // namespace

WaitingRequests::WaitingRequests(const ModelSet& models, const std::vector<RequestStats>& active) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (const auto& model : models.all()) {
        if (model->state() != ModelState::ready) continue;
        const Engine& engine = *model->engine();
        // The engine's count is of its last step: what came since then is only known here.
        const bool any_waits = std::ranges::any_of(active, [&](const RequestStats& request) {
            return request.engine == &engine && !request.is_scheduled;
        });
        if (!any_waits && engine.stats().scheduler.num_waiting == 0) continue;
        for (int32_t replica = 0; replica < engine.memory_plan().num_replicas; ++replica) {
            auto future = model->engine()->snapshot(SnapshotDetail::without_tree, replica);
            if (future.wait_until(deadline) != std::future_status::ready) continue;
            try {
                add(engine, future.get());
            } catch (const std::exception&) {
                // The engine ended meanwhile, or had no memory for a snapshot: it says nothing.
            }
        }
    }
}

void WaitingRequests::add(const Engine& engine, const Snapshot& snapshot) {
    for (const SequenceSnapshot& sequence : snapshot.sequences) {
        Row& row = rows_[{&engine, sequence.request}];
        if (sequence.wait_reason == WaitReason::none) {
            row.is_running = true;
        } else if (row.reason.empty()) {
            row.state = state_word(sequence.state);
            row.reason = describe(snapshot, sequence);
        }
    }
}

RequestProgress WaitingRequests::progress(const RequestStats& request) const {
    const Row* waiting = nullptr;
    for (const RequestId id : request.engine_ids) {
        const auto found = rows_.find({request.engine, id});
        if (found == rows_.end()) continue;
        if (found->second.is_running) return {.state = "running", .why_waiting = {}};
        if (waiting == nullptr) waiting = &found->second;
    }
    if (waiting != nullptr) return {.state = waiting->state, .why_waiting = waiting->reason};
    if (request.is_scheduled) return {.state = "running", .why_waiting = {}};
    RequestProgress progress{.state = "waiting", .why_waiting = {}};
    if (request.engine_ids.empty()) progress.why_waiting = "its prompt is being prepared";
    return progress;
}

std::string WaitingRequests::describe(const Snapshot& snapshot, const SequenceSnapshot& sequence) {
    switch (sequence.wait_reason) {
        case WaitReason::none:
            return "";
        case WaitReason::next_step:
            return "begins with the next step";
        case WaitReason::no_slot:
            return fmt::format("max_num_seqs: {} sequences run", snapshot.config.max_num_seqs);
        case WaitReason::no_blocks:
            return fmt::format("needs {} more blocks than are free", sequence.num_missing_blocks);
        case WaitReason::budget_spent:
            return fmt::format("max_num_batched_tokens: the last step computed {} for others",
                               snapshot.config.max_num_batched_tokens);
        case WaitReason::other_sequence:
            return "another sequence of it computes the prompt";
        case WaitReason::paused:
            return "another sequence has its slot";
        case WaitReason::slow_client:
            return "its client reads too slowly";
        case WaitReason::swapped:
            return "in host memory until blocks are free";
        case WaitReason::remote_blocks:
            return "a remote source fills its blocks";
        case WaitReason::behind_another:
            return "an earlier request waits for blocks";
        case WaitReason::disk_blocks:
            return "what its prompt begins with is read from files";
        case WaitReason::adapter:
            return fmt::format("adapter {} is not in one of the slots", sequence.adapter);
    }
    return "";
}

}  // namespace nvllm::server
