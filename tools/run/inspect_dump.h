// Writes a dump of the engine's state, at a step or at the end.
#pragma once

#include <atomic>
#include <filesystem>
#include <fstream>
#include <optional>

#include "lib/engine/engine.h"

namespace nvllm::run {

// The engine must have no step listener for snapshots yet, and outlive this.
class InspectDump {
  public:
    // Opens the file, so that one that cannot be written is known before anything is computed.
    // Throws cannot_create.
    InspectDump(Engine& engine, const std::filesystem::path& file, std::optional<uint64_t> step);
    // Writes it now, unless a step wrote it. Throws io.
    void finish();

  private:
    void write(const Snapshot& snapshot);

    Engine& engine_;
    std::filesystem::path file_;
    std::optional<uint64_t> step_;
    std::ofstream stream_;
    std::atomic<bool> written_ = false;
};

}  // namespace nvllm::run
