// From engine outputs to the types of responses; a chunk is made for every token of every
// stream.
#include "lib/server/openai/response_json.h"

#include <algorithm>
#include <cmath>

#include "lib/base/utf8.h"
#include "lib/server/openai/response_fields.h"

namespace nvllm::server {
namespace {

using responses::ChatCompletion;
using responses::ChatCompletionChunk;
using responses::ChatLogprobs;
using responses::ChosenLogprob;
using responses::Completion;
using responses::CompletionChunk;
using responses::CompletionLogprobs;
using responses::DeltaChoice;
using responses::MessageChoice;
using responses::PromptLogprob;
using responses::PromptLogprobs;
using responses::TextChoice;
using responses::TopLogprob;

// What is left out where there is none.
template <typename T>
Maybe<Written<T>> written(const std::string& json) {
    return json.empty() ? Maybe<Written<T>>() : Maybe<Written<T>>(Written<T>{json});
}

// What all choices have in common, whole or in a chunk.
template <typename OneChoice>
OneChoice plain_choice(size_t index) {
    OneChoice choice;
    choice.index = index;
    return choice;
}

template <typename OneChoice>
OneChoice choice_of(const ChoicePiece& piece) {
    OneChoice choice = plain_choice<OneChoice>(piece.index);
    if (!piece.logprobs.empty()) choice.logprobs.emplace().json = piece.logprobs;
    if (piece.finish_reason) {
        const bool ends_to_call = piece.has_called && piece.finish_reason == FinishReason::stop;
        choice.finish_reason =
            ends_to_call ? "tool_calls" : finish_reason_name(*piece.finish_reason);
        choice.stop_reason = piece.stop_reason;
    }
    if (piece.token_ids) choice.token_ids = *piece.token_ids;
    if constexpr (!OneChoice::kIsChat) {
        choice.prompt_logprobs = written<PromptLogprobs>(piece.prompt_logprobs);
    }
    return choice;
}

void say(const ChoicePiece& piece, TextChoice& choice) { choice.said = piece.text; }

void say(const ChoicePiece& piece, MessageChoice& choice) {
    const bool is_something_else = !piece.tool_calls.empty() || !piece.reasoning.empty();
    if (!piece.text.empty() || !is_something_else) choice.said.content = piece.text;
    if (!piece.reasoning.empty()) choice.said.reasoning = piece.reasoning;
    if (piece.tool_calls.empty()) return;
    auto& calls = choice.said.tool_calls.emplace();
    for (const ToolCallDelta& call : piece.tool_calls) {
        calls.push_back({.id = call.id, .type = {}, .function = {call.name, call.arguments}});
    }
}

void say(const ChoicePiece& piece, DeltaChoice& choice) {
    if (!piece.text.empty()) choice.said.content = piece.text;
    if (!piece.reasoning.empty()) choice.said.reasoning = piece.reasoning;
    if (piece.tool_calls.empty()) return;
    auto& calls = choice.said.tool_calls.emplace();
    for (const ToolCallDelta& call : piece.tool_calls) {
        auto& delta = calls.emplace_back();
        delta.index = call.index;
        delta.function.arguments = call.arguments;
        if (call.name.empty()) continue;
        delta.id = call.id;
        delta.type.emplace();
        delta.function.name = call.name;
    }
}

template <typename Response>
Response begin(const ResponseEnvelope& head) {
    Response response;
    response.beginning.id = head.id;
    response.beginning.created = head.created;
    response.beginning.model = head.model;
    return response;
}

// The prompt of a chat is one, whatever the number of its choices.
template <typename Response>
void add_prompt_logprobs(const ChoicePiece& piece, Response& response) {
    if (response.prompt_logprobs || piece.prompt_logprobs.empty()) return;
    response.prompt_logprobs = written<PromptLogprobs>(piece.prompt_logprobs);
}

template <typename Response>
std::string whole(const ResponseEnvelope& head, const std::vector<ChoicePiece>& pieces,
                  const Usage& usage) {
    auto response = begin<Response>(head);
    for (const ChoicePiece& piece : pieces) {
        auto& choice = response.beginning.choices.emplace_back(
            choice_of<typename Response::ChoiceType>(piece));
        say(piece, choice);
        add_prompt_logprobs(piece, response);
    }
    response.usage = usage;
    return json_of(response);
}

template <typename Chunk>
void add_usage(ChunkUsage usage, const Usage& counts, Chunk& chunk) {
    if (usage == ChunkUsage::null) chunk.usage.emplace();
    if (usage == ChunkUsage::given) chunk.usage.emplace(counts);
}

template <typename Chunk>
std::string piece_chunk(const ResponseEnvelope& head, const ChoicePiece& piece, ChunkUsage usage,
                        const Usage& counts) {
    auto chunk = begin<Chunk>(head);
    auto& choice =
        chunk.beginning.choices.emplace_back(choice_of<typename Chunk::ChoiceType>(piece));
    say(piece, choice);
    add_prompt_logprobs(piece, chunk);
    add_usage(usage, counts, chunk);
    return json_of(chunk);
}

template <typename Chunk>
std::string progress(const ResponseEnvelope& head, const PromptProgress& stats, ChunkUsage usage,
                     const Usage& counts) {
    auto chunk = begin<Chunk>(head);
    chunk.beginning.choices.emplace_back();
    chunk.prompt_progress = stats;
    chunk.prompt_progress->time_ms = std::round(stats.time_ms * 1000.0) / 1000.0;
    add_usage(usage, counts, chunk);
    return json_of(chunk);
}

template <typename Chunk>
std::string counts_chunk(const ResponseEnvelope& head, const Usage& counts) {
    auto chunk = begin<Chunk>(head);
    add_usage(ChunkUsage::given, counts, chunk);
    return json_of(chunk);
}

}  // namespace

LogprobWriter::LogprobWriter(std::shared_ptr<const Tokenizer> tokenizer, bool is_chat,
                             bool shows_ids)
    : tokenizer_(std::move(tokenizer)),
      is_chat_(is_chat),
      shows_ids_(shows_ids || tokenizer_ == nullptr),
      offsets_(tokenizer_) {}

std::string LogprobWriter::json(const LogprobPiece& piece) {
    return is_chat_ ? json_of(of_chat(piece)) : json_of(of_completion(piece));
}

std::string LogprobWriter::bytes_of(int32_t token_id) const {
    if (shows_ids_) return fmt::format("token_id:{}", token_id);
    std::string bytes = tokenizer_->token_bytes(token_id);
    return bytes.empty() ? tokenizer_->token_text(token_id) : bytes;
}

TopLogprob LogprobWriter::shown(const TokenLogprob& token) const {
    TopLogprob shown{.token = bytes_of(token.token_id), .logprob = {token.logprob}, .bytes = {}};
    shown.bytes.assign(shown.token.begin(), shown.token.end());
    return shown;
}

ChatLogprobs LogprobWriter::of_chat(const LogprobPiece& piece) const {
    ChatLogprobs logprobs;
    for (const SampledLogprobs& token : piece.output) {
        ChosenLogprob& one = logprobs.content.emplace_back();
        one.chosen = shown(token.chosen);
        for (const TokenLogprob& other : token.top) one.top_logprobs.push_back(shown(other));
    }
    return logprobs;
}

CompletionLogprobs LogprobWriter::of_completion(const LogprobPiece& piece) {
    CompletionLogprobs lists;
    num_characters_ += utf8::count(piece.text);
    if (piece.start) add_start(piece, lists);
    for (const SampledLogprobs& token : piece.output) {
        const size_t offset = offsets_.next(token.chosen.token_id);
        add(token, piece.is_last ? std::min(offset, num_characters_) : offset, lists);
    }
    return lists;
}

void LogprobWriter::add_start(const LogprobPiece& piece, CompletionLogprobs& lists) {
    const ChoiceStart& start = *piece.start;
    if (start.echo) {
        offsets_.begin_echo(*start.echo);
        const int32_t first = start.prompt.front();
        lists.tokens.push_back(bytes_of(first));
        lists.token_logprobs.emplace_back();
        lists.top_logprobs.emplace_back();
        lists.text_offset.push_back(offsets_.next(first));
        for (const SampledLogprobs& token : piece.prompt) {
            add(token, offsets_.next(token.chosen.token_id), lists);
        }
    }
    offsets_.begin_response(start.prompt, start.skips_special_tokens);
}

// Of two tokens with the same text the likelier stands, and what was chosen always does.
void LogprobWriter::add(const SampledLogprobs& token, size_t offset,
                        CompletionLogprobs& lists) const {
    Keyed<Logprob> seen;
    const auto note = [&](const TokenLogprob& each) {
        std::string text = utf8::with_replacement(bytes_of(each.token_id));
        const auto same = std::ranges::find(seen, text, &Keyed<Logprob>::value_type::first);
        if (same == seen.end()) {
            seen.emplace_back(std::move(text), Logprob{each.logprob});
        } else {
            same->second.value = std::max(same->second.value, each.logprob);
        }
    };
    for (const TokenLogprob& other : token.top) note(other);
    note(token.chosen);
    lists.tokens.push_back(bytes_of(token.chosen.token_id));
    lists.token_logprobs.emplace_back(Logprob{token.chosen.logprob});
    lists.top_logprobs.emplace_back(std::move(seen));
    lists.text_offset.push_back(offset);
}

std::string whole_response(const ResponseEnvelope& head, const std::vector<ChoicePiece>& choices,
                           const Usage& usage) {
    return head.is_chat ? whole<ChatCompletion>(head, choices, usage)
                        : whole<Completion>(head, choices, usage);
}

std::string role_chunk(const ResponseEnvelope& head, size_t index, ChunkUsage usage,
                       const Usage& counts) {
    auto chunk = begin<ChatCompletionChunk>(head);
    auto& choice = chunk.beginning.choices.emplace_back(plain_choice<DeltaChoice>(index));
    choice.said.role.emplace();
    choice.said.content = "";
    add_usage(usage, counts, chunk);
    return json_of(chunk);
}

std::string chunk_of(const ResponseEnvelope& head, const ChoicePiece& choice, ChunkUsage usage,
                     const Usage& counts) {
    return head.is_chat ? piece_chunk<ChatCompletionChunk>(head, choice, usage, counts)
                        : piece_chunk<CompletionChunk>(head, choice, usage, counts);
}

std::string usage_chunk(const ResponseEnvelope& head, const Usage& usage) {
    return head.is_chat ? counts_chunk<ChatCompletionChunk>(head, usage)
                        : counts_chunk<CompletionChunk>(head, usage);
}

std::string progress_chunk(const ResponseEnvelope& head, const PromptProgress& stats,
                           ChunkUsage usage, const Usage& counts) {
    return head.is_chat ? progress<ChatCompletionChunk>(head, stats, usage, counts)
                        : progress<CompletionChunk>(head, stats, usage, counts);
}

std::string prompt_logprobs_json(const std::vector<SampledLogprobs>& logprobs,
                                 const Tokenizer* tokenizer) {
    PromptLogprobs list(1);
    for (const SampledLogprobs& token : logprobs) {
        Keyed<PromptLogprob> entries;
        const auto add = [&](const TokenLogprob& each, int32_t rank) {
            const std::string text =
                tokenizer == nullptr ? std::string() : tokenizer->token_bytes(each.token_id);
            entries.emplace_back(fmt::format("{}", each.token_id),
                                 PromptLogprob{{each.logprob}, rank, text});
        };
        bool has_chosen = false;
        for (size_t i = 0; i < token.top.size(); ++i) {
            add(token.top[i], static_cast<int32_t>(i) + 1);
            has_chosen |= token.top[i].token_id == token.chosen.token_id;
        }
        if (!has_chosen) add(token.chosen, token.rank);
        list.emplace_back(std::move(entries));
    }
    return json_of(list);
}

}  // namespace nvllm::server
