// Reasoning that stands between two tags at the start of the answer.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "lib/chat/output/answer.h"

namespace nvllm::output {

struct ReasoningTags {
    std::vector<std::string_view> begins = {};
    std::vector<std::string_view> ends = {};
    // Where it ends as well; these are the content's.
    std::vector<std::string_view> content_begins = {};
    // It stays in the content, after this text.
    std::string_view kept_after = {};
};

// Whether the prompt ends with the opening tag, so that the answer begins inside of the reasoning.
bool prompt_opens(const ReasoningTags& tags, std::string_view prompt_end);

// Reads to the end of the text. What is not reasoning goes to `give_content`. `in_reasoning`: at
// first what prompt_opens() says, then kept up to date. `held` is emptied where calls end the
// reasoning, for which a grammar still waits for a tag. The references must outlive the reading.
Reading<bool> split_reasoning(TextReader& in, const ReasoningTags& tags, Answer& answer,
                              const std::function<void(std::string_view)>& give_content,
                              bool& in_reasoning, HeldCalls& held);

}  // namespace nvllm::output
