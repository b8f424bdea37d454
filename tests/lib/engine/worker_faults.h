// Fault points that a test sets, in this process or in the workers that it starts. Who includes
// this includes lib/base/fault_points.h too, or the build leaves fault points out of that file.
#pragma once

#include <cstdlib>
#include <string>

#include "lib/base/fault_points.h"
#include "lib/engine/engine_config.h"

namespace nvllm::test {

// Or this process would take the first test's rules for its workers to be its own.
inline const bool kReadOwnRules = (set_fault_points(""), true);

// Fault points of this process, or of the workers that are started from here on.
class Faults {
  public:
    Faults(Isolation isolation, const std::string& rules) : isolation_(isolation) {
        if (isolation == Isolation::thread) {
            set_fault_points(rules);
        } else {
            ::setenv("NVLLM_FAULTS", rules.c_str(), 1);
        }
    }
    ~Faults() {
        if (isolation_ == Isolation::thread) {
            set_fault_points("");
        } else {
            ::unsetenv("NVLLM_FAULTS");
        }
    }
    Faults(const Faults&) = delete;
    Faults& operator=(const Faults&) = delete;

  private:
    Isolation isolation_;
};

}  // namespace nvllm::test
