// Request fields that say what an answer is held to: those of OpenAI, vLLM and llama.cpp.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>

#include "lib/grammar/grammar_spec.h"

namespace nvllm {

struct GrammarField {
    const char* name;
    // Nothing for a value that asks for no grammar. Throws json_values::WrongValue.
    std::optional<GrammarSpec> (*read)(const nlohmann::ordered_json& value);
};

std::span<const GrammarField> grammar_fields();

}  // namespace nvllm
