// Templates, tokenization and limits of one request.
#include "lib/engine/input_processor.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/decode/logits_processors.h"

namespace nvllm {
namespace {

Fault fault(std::string message, std::string field = {}, std::string code = {}) {
    return Fault{ErrorKind::bad_data, std::move(message), std::move(field), std::move(code)};
}

PoolingKind kind_of(PooledRow row) {
    switch (row) {
        case PooledRow::first:
            return PoolingKind::cls;
        case PooledRow::mean:
            return PoolingKind::mean;
        case PooledRow::last:
            return PoolingKind::last;
    }
    return PoolingKind::last;
}

}  // namespace

InputProcessor::InputProcessor(std::shared_ptr<const Tokenizer> tokenizer,
                               const ModelConfig& config, const GenerationConfig& generation,
                               const PoolingConfig& pooling, int32_t max_model_len,
                               const std::string& chat_template)
    : tokenizer_(std::move(tokenizer)),
      generation_(generation),
      eos_token_ids_(generation.eos_token_ids.empty() ? config.eos_token_ids
                                                      : generation.eos_token_ids),
      pooling_(pooling),
      architecture_(config.architecture),
      encoder_(config.encoder),
      generates_(config.generates),
      vocab_size_(static_cast<int32_t>(config.vocab_size)),
      hidden_size_(config.hidden_size),
      max_model_len_(max_model_len),
      conversations_(tokenizer_, config.model_type, chat_template) {}

Result<Request> InputProcessor::process(const RequestInput& input) const {
    if (input.pooling) return process_pooling(input);
    if (!generates_) {
        return fault(fmt::format("{} makes embeddings and generates no text", architecture_));
    }
    SamplingParams sampling = input.sampling;
    if (tokenizer_ == nullptr && !input.bad_words.empty()) {
        return fault("bad_words: this model has no tokenizer, so texts cannot be forbidden",
                     "bad_words");
    }
    add_bad_words(input.bad_words, sampling);
    if (auto wrong = sampling.check(vocab_size_)) return *wrong;
    if (auto wrong = check_sampler_order(sampling)) return *wrong;
    if (tokenizer_ == nullptr && !input.sampling.stop.empty()) {
        return fault(
            "stop: this model has no tokenizer, so stop strings cannot be found; use "
            "stop_token_ids",
            "stop");
    }
    auto ids = prompt_ids(input);
    if (!ids) return ids.fault();
    truncate(input, std::max(1, sampling.max_tokens.value_or(1)), *ids);
    if (auto wrong = check_ids(*ids, 1)) return *wrong;

    Request request;
    request.prompt_token_ids = std::move(*ids);
    request.sampling = std::move(sampling);
    request.eos_token_ids = eos_token_ids_;
    // What best_of ranks by.
    request.hides_logprobs = request.sampling.num_sequences() > request.sampling.n &&
                             !request.sampling.use_beam_search && !request.sampling.logprobs;
    if (request.hides_logprobs) request.sampling.logprobs = 0;
    request.cache_salt = input.cache_salt;
    request.priority = input.priority;
    const auto room = max_model_len_ - static_cast<int32_t>(request.prompt_token_ids.size());
    request.sampling.max_tokens = std::min(request.sampling.max_tokens.value_or(room), room);
    return request;
}

Result<Request> InputProcessor::process_pooling(const RequestInput& input) const {
    if (auto wrong = input.pooling->check(hidden_size_)) return *wrong;
    auto ids = prompt_ids(input);
    if (!ids) return ids.fault();
    truncate(input, 0, *ids);
    if (auto wrong = check_ids(*ids, 0)) return *wrong;
    Request request;
    request.prompt_token_ids = std::move(*ids);
    request.pooling = input.pooling;
    request.cache_salt = input.cache_salt;
    request.priority = input.priority;
    return request;
}

Result<PoolingParams> InputProcessor::default_pooling() const {
    if (pooling_.fault) return *pooling_.fault;
    PoolingParams params;
    const PoolingKind unsaid = encoder_ ? PoolingKind::cls : PoolingKind::last;
    params.kind = pooling_.row ? kind_of(*pooling_.row) : unsaid;
    params.normalize = pooling_.normalize.value_or(true);
    return params;
}

// A word is forbidden at the start of a text and after a space, where vocabularies spell it
// differently (as vLLM does).
void InputProcessor::add_bad_words(const std::vector<std::string>& words,
                                   SamplingParams& sampling) const {
    const EncodeOptions plain{.add_special_tokens = false};
    for (const std::string& word : words) {
        const std::string bare = word.substr(std::min(word.find_first_not_of(' '), word.size()));
        std::vector<int32_t> alone = tokenizer_->encode(bare, plain);
        std::vector<int32_t> after_space = tokenizer_->encode(" " + bare, plain);
        const bool differs = alone.size() == after_space.size() && alone != after_space &&
                             alone.front() != after_space.front();
        sampling.bad_words.push_back(std::move(alone));
        if (differs) sampling.bad_words.push_back(std::move(after_space));
    }
}

Result<std::vector<int32_t>> InputProcessor::prompt_ids(const RequestInput& input) const {
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&input.prompt)) return *ids;
    if (tokenizer_ == nullptr) {
        return fault("this model has no tokenizer: give the prompt as token ids");
    }
    try {
        if (const auto* text = std::get_if<std::string>(&input.prompt)) {
            return tokenizer_->encode(*text);
        }
        return chat_ids(input);
    } catch (const Error& error) {  // a text that this vocabulary cannot spell
        return Fault{error.kind(), error.what()};
    }
}

Result<std::vector<int32_t>> InputProcessor::chat_ids(const RequestInput& input) const {
    auto rendered = conversations_.render(*std::get<ChatPrompt>(input.prompt));
    if (!rendered) return rendered.fault();
    return encode_chat(*tokenizer_, *rendered, input.allow_special_in_messages);
}

void InputProcessor::truncate(const RequestInput& input, int32_t num_answer,
                              std::vector<int32_t>& ids) const {
    if (!input.truncate_prompt_tokens) return;
    int32_t most = *input.truncate_prompt_tokens;
    if (most < 0) most = std::max(1, max_model_len_ - num_answer);
    if (ids.size() <= static_cast<size_t>(most)) return;
    std::vector<int32_t> around;  // what the tokenizer puts around a text
    if (std::holds_alternative<std::string>(input.prompt)) around = tokenizer_->encode("");
    const auto first_other = std::ranges::mismatch(around, ids).in1;
    const auto leading = first_other - around.begin();
    const auto trailing = around.end() - first_other;
    const auto kept = std::max<int64_t>(0, most - leading - trailing);
    ids.erase(ids.begin() + leading, ids.end() - trailing - kept);
}

std::optional<Fault> InputProcessor::check_known(const std::vector<int32_t>& ids,
                                                 const std::string& field) const {
    for (const int32_t id : ids) {
        if (id >= 0 && id < vocab_size_) continue;
        return fault(fmt::format("{} token id {} is outside of the vocabulary [0, {})", field, id,
                                 vocab_size_),
                     field);
    }
    return std::nullopt;
}

std::optional<Fault> InputProcessor::check_ids(const std::vector<int32_t>& ids,
                                               int32_t num_answer) const {
    if (ids.empty()) return fault("the prompt is empty: it has no tokens", "prompt");
    if (auto unknown = check_known(ids, "prompt")) return unknown;
    const int32_t room = max_model_len_ - num_answer;
    if (static_cast<int64_t>(ids.size()) <= room) return std::nullopt;
    return fault(
        fmt::format(
            "the prompt has {} tokens, but the context of {} leaves room for at most {}{}: shorten "
            "it, or raise --max-model-len{} as far as the model allows",
            ids.size(), max_model_len_, room, num_answer > 0 ? " and one answer token" : "",
            encoder_ ? " and --max-num-batched-tokens" : ""),
        "prompt", "context_length_exceeded");
}

SamplingParams InputProcessor::default_sampling() const {
    SamplingParams sampling;
    if (generation_.temperature) sampling.temperature = *generation_.temperature;
    if (generation_.top_k) sampling.top_k = *generation_.top_k;
    if (generation_.top_p) sampling.top_p = *generation_.top_p;
    if (generation_.min_p) sampling.min_p = *generation_.min_p;
    if (generation_.repetition_penalty) {
        sampling.repetition_penalty = *generation_.repetition_penalty;
    }
    if (generation_.do_sample == false) sampling.temperature = 0.0f;
    return sampling;
}

}  // namespace nvllm
