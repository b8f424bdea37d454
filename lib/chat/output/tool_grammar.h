// What lets a model write only tool calls that are whole and whose arguments fit their schemas: a
// structural tag for the grammar engine, in each format's own form.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/chat/output/output_parser.h"

namespace nvllm {

enum class ToolChoice {
    automatic,  // text, and calls where the model begins one
    required,   // calls and nothing else
};

struct ToolGrammarRequest {
    std::string tool_format = {};
    // Those that may be called: of a named choice only that one.
    std::vector<OfferedTool> tools = {};
    ToolChoice choice = ToolChoice::automatic;
    bool several_calls = true;
    // The vocabulary's special tokens. Grammars name them; they are no part of any text.
    std::vector<std::string> special_tokens = {};
};

// The JSON text of xgrammar's structural tag, {"type": "structural_tag", "format": {...}} (its
// docs/structural_tag, version 0.2.8), for what follows the reasoning. Nothing without tools, and
// for formats that the engine has no form for (pythonic).
std::optional<std::string> tool_structural_tag(const ToolGrammarRequest& request);

// The calls that this tag holds from their beginning on. None where there is no tag, and where the
// schema of a function leaves open whether its arguments are an object. A special token that a
// model spells with other tokens begins no call for the grammar, but looks so here.
HeldCalls held_calls(const ToolGrammarRequest& request);

}  // namespace nvllm
