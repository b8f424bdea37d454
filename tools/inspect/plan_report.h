// A memory plan as text and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lib/engine/engine.h"

namespace nvllm::inspect {

// "nvllm-inspect.plan/1".
nlohmann::ordered_json plan_json(const MemoryPlan& plan, const std::string& model);
std::string plan_text(const MemoryPlan& plan, const std::string& model);

}  // namespace nvllm::inspect
