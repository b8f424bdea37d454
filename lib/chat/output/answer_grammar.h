// A grammar for a whole answer: the reasoning, which is free, and then the calls or the content
// that the answer is held to.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/chat/output/tool_grammar.h"
#include "lib/grammar/grammar_spec.h"

namespace nvllm {

struct AnswerGrammarRequest {
    std::string reasoning_format = {};  // empty: the model does not reason
    // With `content` too, the answer is either of them.
    std::optional<ToolGrammarRequest> calls = {};
    std::optional<GrammarSpec> content = {};
    // As in ToolGrammarRequest.
    std::vector<std::string> special_tokens = {};
};

// `prompt_end` shows whether the answer begins inside of the reasoning, or after it
// (OutputContext). Nothing where there is nothing to hold to.
std::optional<GrammarSpec> answer_grammar(const AnswerGrammarRequest& request,
                                          std::string_view prompt_end);

// The calls that this grammar holds from their beginning on. Beside content only where that is JSON
// and cannot look like a call.
HeldCalls held_calls(const AnswerGrammarRequest& request);

}  // namespace nvllm
