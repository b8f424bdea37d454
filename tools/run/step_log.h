// A JSON line for every step of the engine.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "lib/engine/engine.h"

namespace nvllm::run {

class StepLog {
  public:
    // Throws cannot_create. Lives until the engine has stopped.
    StepLog(Engine& engine, const std::filesystem::path& file);
    // Throws io when not all of it could be written. REQUIRES: the engine has stopped.
    void finish();

  private:
    std::string name_;
    std::ofstream stream_;
};

// What the engine did, in one line: `num_tokens` were generated in `seconds`.
std::string describe(const EngineStats& stats, int64_t num_tokens, double seconds);

}  // namespace nvllm::run
