// Written straight into text: a chunk is made for every token of every stream.
#include "lib/server/answer_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/base/json.h"
#include "lib/base/utf8.h"

namespace nvllm::server {
namespace {

// What stands for "very unlikely" in the OpenAI API: JSON has no infinity.
constexpr float kLowestLogprob = -9999.0f;

std::string logprob_json(float logprob) {
    return json_number(std::isfinite(logprob) ? std::max(logprob, kLowestLogprob) : kLowestLogprob);
}

std::string ids_json(const std::vector<int32_t>& ids) {
    return fmt::format("[{}]", fmt::join(ids, ","));
}

std::string finish_json(const ChoicePiece& choice) {
    if (!choice.finish_reason) return R"("finish_reason":null)";
    std::string json = fmt::format(R"("finish_reason":"{}","stop_reason":)",
                                   finish_reason_name(*choice.finish_reason));
    return json + (choice.stop_token_id ? fmt::format("{}", *choice.stop_token_id) : "null");
}

std::string extras_json(const ChoicePiece& choice) {
    std::string json;
    if (choice.token_ids) json += fmt::format(R"(,"token_ids":{})", ids_json(*choice.token_ids));
    if (!choice.prompt_logprobs.empty()) {
        json += fmt::format(R"(,"prompt_logprobs":{})", choice.prompt_logprobs);
    }
    return json;
}

std::string head_json(const AnswerHead& head, std::string_view object) {
    return fmt::format(R"({{"id":{},"object":"{}","created":{},"model":{})", json_quoted(head.id),
                       object, head.created, json_quoted(head.model));
}

std::string chunk_head(const AnswerHead& head) {
    return head_json(head, head.is_chat ? "chat.completion.chunk" : "text_completion");
}

std::string chunk_tail(ChunkUsage usage, const Usage& counts) {
    switch (usage) {
        case ChunkUsage::absent:
            return "}";
        case ChunkUsage::null:
            return R"(,"usage":null})";
        case ChunkUsage::given:
            break;
    }
    return fmt::format(R"(,"usage":{}}})", counts.json());
}

std::string whole_choice(const AnswerHead& head, const ChoicePiece& choice) {
    const std::string said =
        head.is_chat
            ? fmt::format(R"("message":{{"role":"assistant","content":{},"refusal":null}})",
                          json_quoted(choice.text))
            : fmt::format(R"("text":{})", json_quoted(choice.text));
    return fmt::format(R"({{"index":{},{},"logprobs":{},{}{}}})", choice.index, said,
                       choice.logprobs, finish_json(choice), extras_json(choice));
}

}  // namespace

std::string Usage::json() const {
    return fmt::format(
        R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":{}}}}})",
        prompt_tokens, completion_tokens, prompt_tokens + completion_tokens, cached_tokens);
}

LogprobWriter::LogprobWriter(std::shared_ptr<const Tokenizer> tokenizer, bool is_chat)
    : tokenizer_(std::move(tokenizer)), is_chat_(is_chat), offsets_(tokenizer_) {}

std::string LogprobWriter::json(const LogprobPiece& piece) {
    return is_chat_ ? chat_json(piece) : completion_json(piece);
}

std::string LogprobWriter::bytes_of(int32_t token_id) const {
    if (tokenizer_ == nullptr) return fmt::format("token_id:{}", token_id);
    std::string bytes = tokenizer_->token_bytes(token_id);
    return bytes.empty() ? tokenizer_->token_text(token_id) : bytes;
}

std::string LogprobWriter::token_json(const TokenLogprob& token) const {
    const std::string bytes = bytes_of(token.token_id);
    const std::vector<int> numbers(reinterpret_cast<const uint8_t*>(bytes.data()),
                                   reinterpret_cast<const uint8_t*>(bytes.data()) + bytes.size());
    return fmt::format(R"("token":{},"logprob":{},"bytes":[{}])", json_quoted(bytes),
                       logprob_json(token.logprob), fmt::join(numbers, ","));
}

std::string LogprobWriter::chat_json(const LogprobPiece& piece) const {
    std::string content;
    for (const SampledLogprobs& token : piece.answer) {
        std::string top;
        for (const TokenLogprob& other : token.top) {
            top += fmt::format("{}{{{}}}", top.empty() ? "" : ",", token_json(other));
        }
        content += fmt::format(R"({}{{{},"top_logprobs":[{}]}})", content.empty() ? "" : ",",
                               token_json(token.chosen), top);
    }
    return fmt::format(R"({{"content":[{}],"refusal":null}})", content);
}

void LogprobWriter::Lists::add(std::string_view token, std::string_view logprob,
                               std::string_view top, size_t offset) {
    const std::string_view comma = tokens.empty() ? "" : ",";
    tokens.append(comma).append(token);
    logprobs.append(comma).append(logprob);
    tops.append(comma).append(top);
    offsets.append(comma).append(fmt::format("{}", offset));
}

std::string LogprobWriter::completion_json(const LogprobPiece& piece) {
    Lists lists;
    num_characters_ += utf8::count(piece.text);
    if (piece.start) add_start(piece, lists);
    for (const SampledLogprobs& token : piece.answer) {
        const size_t offset = offsets_.next(token.chosen.token_id);
        add(token, piece.is_last ? std::min(offset, num_characters_) : offset, lists);
    }
    return fmt::format(
        R"({{"tokens":[{}],"token_logprobs":[{}],"top_logprobs":[{}],"text_offset":[{}]}})",
        lists.tokens, lists.logprobs, lists.tops, lists.offsets);
}

void LogprobWriter::add_start(const LogprobPiece& piece, Lists& lists) {
    const ChoiceStart& start = *piece.start;
    if (start.echo) {
        offsets_.begin_echo(*start.echo);
        const int32_t first = start.prompt.front();
        lists.add(json_quoted(bytes_of(first)), "null", "null", offsets_.next(first));
        for (const SampledLogprobs& token : piece.prompt) {
            add(token, offsets_.next(token.chosen.token_id), lists);
        }
    }
    offsets_.begin_answer(start.prompt, start.skips_special_tokens);
}

// Of two tokens with the same text the likelier stands, and what was chosen always does.
void LogprobWriter::add(const SampledLogprobs& token, size_t offset, Lists& lists) const {
    std::vector<std::pair<std::string, float>> seen;
    const auto note = [&](const TokenLogprob& each) {
        std::string text = utf8::with_replacement(bytes_of(each.token_id));
        const auto same = std::ranges::find(seen, text, &std::pair<std::string, float>::first);
        if (same == seen.end()) {
            seen.emplace_back(std::move(text), each.logprob);
        } else {
            same->second = std::max(same->second, each.logprob);
        }
    };
    for (const TokenLogprob& other : token.top) note(other);
    note(token.chosen);
    std::string top;
    for (const auto& [text, logprob] : seen) {
        top += fmt::format("{}{}:{}", top.empty() ? "" : ",", json_quoted(text),
                           logprob_json(logprob));
    }
    lists.add(json_quoted(bytes_of(token.chosen.token_id)), logprob_json(token.chosen.logprob),
              fmt::format("{{{}}}", top), offset);
}

std::string whole_answer(const AnswerHead& head, const std::vector<ChoicePiece>& choices,
                         const Usage& usage) {
    std::string list;
    for (const ChoicePiece& choice : choices) {
        if (!list.empty()) list += ',';
        list += whole_choice(head, choice);
    }
    return fmt::format(R"({},"choices":[{}],"usage":{}}})",
                       head_json(head, head.is_chat ? "chat.completion" : "text_completion"), list,
                       usage.json());
}

std::string role_chunk(const AnswerHead& head, size_t index, ChunkUsage usage,
                       const Usage& counts) {
    return fmt::format(
        R"({},"choices":[{{"index":{},"delta":{{"role":"assistant","content":""}},"logprobs":null,"finish_reason":null}}]{})",
        chunk_head(head), index, chunk_tail(usage, counts));
}

std::string chunk_of(const AnswerHead& head, const ChoicePiece& choice, ChunkUsage usage,
                     const Usage& counts) {
    std::string said;
    if (!head.is_chat) {
        said = fmt::format(R"("text":{})", json_quoted(choice.text));
    } else if (choice.text.empty()) {
        said = R"("delta":{})";
    } else {
        said = fmt::format(R"("delta":{{"content":{}}})", json_quoted(choice.text));
    }
    return fmt::format(R"({},"choices":[{{"index":{},{},"logprobs":{},{}{}}}]{})", chunk_head(head),
                       choice.index, said, choice.logprobs, finish_json(choice),
                       extras_json(choice), chunk_tail(usage, counts));
}

std::string usage_chunk(const AnswerHead& head, const Usage& usage) {
    return fmt::format(R"({},"choices":[],"usage":{}}})", chunk_head(head), usage.json());
}

std::string progress_chunk(const AnswerHead& head, const PromptProgress& progress, ChunkUsage usage,
                           const Usage& counts) {
    const std::string_view said = head.is_chat ? R"("delta":{})" : R"("text":"")";
    return fmt::format(
        R"({},"choices":[{{"index":0,{},"logprobs":null,"finish_reason":null}}],"prompt_progress":{{"total":{},"cache":{},"processed":{},"time_ms":{}}}{})",
        chunk_head(head), said, progress.total, progress.cached, progress.processed,
        json_number(std::round(progress.time_ms * 1000.0) / 1000.0), chunk_tail(usage, counts));
}

std::string prompt_logprobs_json(const std::vector<SampledLogprobs>& logprobs,
                                 const Tokenizer* tokenizer) {
    std::string list = "null";
    for (const SampledLogprobs& token : logprobs) {
        std::string entries;
        const auto add = [&](const TokenLogprob& each, int32_t rank) {
            const std::string text =
                tokenizer == nullptr ? std::string() : tokenizer->token_bytes(each.token_id);
            entries += fmt::format(R"({}"{}":{{"logprob":{},"rank":{},"decoded_token":{}}})",
                                   entries.empty() ? "" : ",", each.token_id,
                                   logprob_json(each.logprob), rank, json_quoted(text));
        };
        bool has_chosen = false;
        for (size_t i = 0; i < token.top.size(); ++i) {
            add(token.top[i], static_cast<int32_t>(i) + 1);
            has_chosen |= token.top[i].token_id == token.chosen.token_id;
        }
        if (!has_chosen) add(token.chosen, token.rank);
        list += fmt::format(",{{{}}}", entries);
    }
    return fmt::format("[{}]", list);
}

}  // namespace nvllm::server
