// What a program that answers line by line says to one line: a JSON object, never an end of all.
#pragma once

#include <optional>
#include <string>

#include "lib/base/result.h"

namespace nvllm::view {

struct LineAnswer {
    std::string json;  // one line, without its end; always valid JSON
    std::optional<ErrorKind> fault;
};

// {"error": {"message": ..., "type": ...}}, as nvllm-run writes it.
LineAnswer fault_answer(const Fault& fault);

}  // namespace nvllm::view
