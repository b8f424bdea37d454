// Which requests wait in an engine, and for what, in words for people.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/server/models/model_set.h"
#include "lib/server/requests/active_request.h"

namespace nvllm::server {

// For status reports: what a request is at.
struct RequestProgress {
    std::string_view state;  // running, waiting, paused, swapped
    // Empty: it runs, or the engine did not say in time.
    std::optional<std::string> why_waiting;
};

// Taken from snapshots of those engines in which something waits. Of an engine that is busy with a
// step for longer than a page may wait, nothing is known.
class WaitingRequests {
  public:
    WaitingRequests(const ModelSet& models, const std::vector<RequestStats>& active);

    RequestProgress progress(const RequestStats& request) const;

    // What a sequence waits for. REQUIRES: it waits.
    static std::string describe(const Snapshot& snapshot, const SequenceSnapshot& sequence);

  private:
    struct Row {
        bool is_running = false;  // one of its sequences is
        std::string_view state;   // of the first that waits
        std::string reason;
    };

    void add(const Engine& engine, const Snapshot& snapshot);

    std::map<std::pair<const Engine*, RequestId>, Row> rows_;
};

}  // namespace nvllm::server
