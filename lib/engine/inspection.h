// Serves snapshots of a running engine to the owner of the process, over a Unix socket.
//
// A client sends lines and gets one line for each: "snapshot" all there is, "summary" the same
// without the prefix tree, anything else {"error": ...}. The server has a thread of its own and
// asks the engine at most twenty times a second, however many ask it; the engine fills plain data
// between two steps and never waits. A client that is slow, sends half a line, or sends too long a
// one loses its connection and nothing else.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include "lib/schedule/snapshot.h"
#include "lib/system/unix_socket.h"

namespace nvllm {

struct InspectionLimits {
    int max_connections = 8;
    size_t max_line_bytes = 128;
    // For the rest of a line, and for reading an answer.
    std::chrono::milliseconds patience{10'000};
    // Between two lines.
    std::chrono::milliseconds idle{300'000};
    std::chrono::milliseconds between_snapshots{50};
};

// Asks the engine for a snapshot as soon as it can; never blocks.
using SnapshotRequest = std::function<std::future<Snapshot>(SnapshotDetail)>;

// What a dump file holds: one line, see snapshot_json.h.
std::string dump_text(const Snapshot& snapshot);

class InspectionServer {
  public:
    // Throws cannot_create when it cannot listen there.
    InspectionServer(const std::filesystem::path& path, SnapshotRequest request,
                     const InspectionLimits& limits = {});
    // Closes all connections and removes the socket.
    ~InspectionServer();
    InspectionServer(const InspectionServer&) = delete;
    InspectionServer& operator=(const InspectionServer&) = delete;

  private:
    std::filesystem::path path_;
    OwnedDescriptor listener_;
    OwnedDescriptor stop_;  // an eventfd
    std::thread thread_;
};

}  // namespace nvllm
