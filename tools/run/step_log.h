// A JSON line for every step of the engine.
#pragma once

#include <filesystem>
#include <fstream>

#include "lib/engine/engine.h"

namespace nvllm::run {

class StepLog {
  public:
    // Throws cannot_create. Lives until the engine has stopped.
    StepLog(Engine& engine, const std::filesystem::path& file);

  private:
    std::ofstream stream_;
};

// What the engine did, in one line.
std::string describe(const EngineStats& stats);

}  // namespace nvllm::run
