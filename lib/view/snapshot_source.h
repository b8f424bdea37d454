// Where snapshots come from: a dump, or a running engine.
#pragma once

#include <filesystem>
#include <string>

#include "lib/schedule/snapshot.h"
#include "lib/system/unix_socket.h"

namespace nvllm::view {

// Throws not_found, io, or bad_data with the field that is wrong.
Snapshot read_snapshot_file(const std::filesystem::path& path);

// One connection to an engine's --inspect-socket. Its answers are believed as little as a file.
class LiveSnapshots {
  public:
    // Throws not_found or unavailable.
    explicit LiveSnapshots(const std::filesystem::path& socket);
    // Throws unavailable when the engine went away or does not answer within ten seconds.
    Snapshot next(SnapshotDetail detail);
    // The answer as it came, checked.
    std::string next_line(SnapshotDetail detail);

  private:
    std::string exchange(SnapshotDetail detail);

    std::string name_;
    OwnedDescriptor peer_;
    std::string rest_;
};

}  // namespace nvllm::view
