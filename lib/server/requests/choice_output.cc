// Deltas of a parser, with ids.
#include "lib/server/requests/choice_output.h"

#include <fmt/format.h>

#include <utility>

#include "lib/base/digest.h"

namespace nvllm::server {
namespace {

// The mixing steps of SplitMix64 behind the digest: close seeds are far apart.
uint64_t hash_of(std::string_view text) {
    uint64_t hash = digest(text.data(), text.size());
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ (hash >> 27)) * 0x94d049bb133111ebu;
    return hash ^ (hash >> 31);
}

}  // namespace

std::string tool_call_id(std::string_view seed) {
    constexpr std::string_view kLetters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    constexpr size_t kLength = 9;
    uint64_t hash = hash_of(seed);
    std::string id;
    for (size_t i = 0; i < kLength; ++i) {
        id += kLetters[hash % kLetters.size()];
        hash /= kLetters.size();
    }
    return id;
}

ChoiceOutput::ChoiceOutput(std::optional<OutputParser> parser, std::string_view request_id,
                           size_t choice)
    : parser_(std::move(parser)), seed_(fmt::format("{} {}", request_id, choice)) {}

void ChoiceOutput::push(std::string_view text, int64_t num_tokens) {
    if (!parser_) {
        said_.content += text;
        return;
    }
    bool is_reasoning = parser_->in_reasoning();
    if (!text.empty()) add(parser_->push(text));
    is_reasoning = is_reasoning || parser_->in_reasoning();
    if (is_reasoning) reasoning_tokens_ += num_tokens;
}

void ChoiceOutput::finish() {
    if (parser_) add(parser_->finish());
}

void ChoiceOutput::add(OutputDelta next) {
    for (ToolCallDelta& call : next.tool_calls) {
        has_called_ = true;
        const bool is_first = !call.name.empty();
        if (is_first && call.id.empty()) {
            call.id = tool_call_id(fmt::format("{} {}", seed_, call.index));
        }
    }
    said_.merge(std::move(next));
}

}  // namespace nvllm::server
