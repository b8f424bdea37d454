// Templates, tokenization and limits of one request.
#include "lib/engine/input_processor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "lib/engine/message_borders.h"

namespace nvllm {
namespace {

Fault fault(std::string message, std::string field = {}, std::string code = {}) {
    return Fault{ErrorKind::bad_data, std::move(message), std::move(field), std::move(code)};
}

template <typename T>
void take(const std::optional<T>& value, T& member) {
    if (value) member = *value;
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

std::string end_of_prompt(const Tokenizer& tokenizer, std::span<const int32_t> prompt) {
    return tokenizer.decode(prompt.last(std::min(prompt.size(), kHeaderTokens)), false);
}

std::optional<GrammarSpec> grammar_of(const RequestInput& input, const Tokenizer* tokenizer,
                                      std::span<const int32_t> prompt) {
    if (!input.grammar_for_prompt || tokenizer == nullptr) return input.grammar;
    return input.grammar_for_prompt(end_of_prompt(*tokenizer, prompt));
}

InputProcessor::InputProcessor(std::shared_ptr<const Tokenizer> tokenizer,
                               const ModelConfig& config, const GenerationConfig& generation,
                               const PoolingConfig& pooling, int32_t max_model_len,
                               const std::string& chat_template, const std::string& score_tokens)
    : tokenizer_(std::move(tokenizer)),
      generation_(generation),
      eos_token_ids_(generation.eos_token_ids.empty() ? config.eos_token_ids
                                                      : generation.eos_token_ids),
      pooling_(pooling),
      architecture_(config.architecture),
      encoder_(config.encoder),
      has_states_(config.linear_attention.has_value()),
      generates_(config.generates),
      vocab_size_(static_cast<int32_t>(config.vocab_size)),
      vector_size_(pooling.vector_size(config.hidden_size)),
      max_model_len_(max_model_len),
      scoring_(tokenizer_, config, pooling, score_tokens),
      conversations_(tokenizer_, config.model_type, chat_template),
      grammars_(std::make_unique<AnswerGrammars>(tokenizer_, vocab_size_, eos_token_ids_)) {}

Result<Request> InputProcessor::process(const RequestInput& input) const {
    if (input.pooling) return process_pooling(input);
    if (!generates_) {
        return fault(fmt::format("{} makes {} and generates no text", architecture_,
                                 scoring_.labels().empty() ? "embeddings" : "scores"));
    }
    SamplingParams sampling = input.sampling;
    if (tokenizer_ == nullptr && !input.bad_words.empty()) {
        return fault("bad_words: this model has no tokenizer, so texts cannot be forbidden",
                     "bad_words");
    }
    add_bad_words(input.bad_words, sampling);
    if (auto wrong = sampling.check(vocab_size_)) return *wrong;
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
    if (auto wrong = bound_length(static_cast<int32_t>(ids->size()), sampling)) return *wrong;
    auto constraint = this->constraint(input, *ids);
    if (!constraint) return constraint.fault();

    Request request;
    request.constraint = std::move(*constraint);
    request.prompt_token_ids = std::move(*ids);
    if (tokenizer_ != nullptr) {
        request.num_stable_tokens = count_stable_tokens(*tokenizer_, request.prompt_token_ids);
    }
    if (tokenizer_ != nullptr && has_states_) {
        request.message_borders = message_borders(*tokenizer_, request.prompt_token_ids);
    }
    request.sampling = std::move(sampling);
    request.eos_token_ids = eos_token_ids_;
    // What best_of ranks by.
    request.hides_logprobs = request.sampling.num_sequences() > request.sampling.n &&
                             !request.sampling.use_beam_search && !request.sampling.logprobs;
    if (request.hides_logprobs) request.sampling.logprobs = 0;
    request.kept_special_tokens = known_special(input.kept_special_tokens);
    request.cache_salt = input.cache_salt;
    request.priority = input.priority;
    request.speculative = input.speculative;
    return request;
}

// The last step of a request that is right otherwise: to compile takes the longest.
Result<std::shared_ptr<const AnswerConstraintSource>> InputProcessor::constraint(
    const RequestInput& input, std::span<const int32_t> prompt) const {
    const auto grammar = grammar_of(input, tokenizer_.get(), prompt);
    if (!grammar) return std::shared_ptr<const AnswerConstraintSource>();
    if (input.sampling.use_beam_search) {
        return fault("use_beam_search: beams cannot be held to a grammar; leave one of them out",
                     "use_beam_search");
    }
    if (input.sampling.ignore_eos) {
        return fault(
            "ignore_eos: an answer that is held to a grammar ends where the grammar does; "
            "leave one of them out",
            "ignore_eos");
    }
    return grammars_->compile(*grammar);
}

std::vector<int32_t> InputProcessor::known_special(const std::vector<std::string>& texts) const {
    std::vector<int32_t> known;
    if (tokenizer_ == nullptr) return known;
    for (const std::string& text : texts) {
        const auto id = tokenizer_->token_id(text);
        if (id && tokenizer_->is_special(*id)) known.push_back(*id);
    }
    return known;
}

std::optional<Fault> InputProcessor::bound_length(int32_t num_prompt_tokens,
                                                  SamplingParams& sampling) const {
    int32_t space = max_model_len_ - num_prompt_tokens;
    if (!sampling.max_tokens && generation_.max_length) {
        space = std::min(space, *generation_.max_length - num_prompt_tokens);
        if (space <= 0) {
            return fault(fmt::format("the prompt has {} tokens, but generation_config.json says "
                                     "max_length {} of prompt and answer together: give max_tokens",
                                     num_prompt_tokens, *generation_.max_length),
                         "max_tokens");
        }
    }
    sampling.max_tokens = std::min(sampling.max_tokens.value_or(space), space);
    const int32_t least = std::min(sampling.min_length - num_prompt_tokens, *sampling.max_tokens);
    sampling.min_tokens = std::max(sampling.min_tokens, least);
    return std::nullopt;
}

Result<Request> InputProcessor::process_pooling(const RequestInput& input) const {
    if (input.grammar || input.grammar_for_prompt)
        return fault("a vector of a text cannot be held to a grammar");
    if (auto wrong = input.pooling->check(vector_size_)) return *wrong;
    Request request;
    request.pooling = input.pooling;
    if (const auto* pair = std::get_if<TextPair>(&input.prompt)) {
        auto encoded = pair_ids(input, *pair);
        if (!encoded) return encoded.fault();
        request.prompt_token_ids = std::move(encoded->ids);
        request.pooling->second_text = encoded->second_text;
    } else {
        const auto begun = with_prompt(input);
        if (!begun) return begun.fault();
        auto ids = prompt_ids(*begun ? **begun : input);
        if (!ids) return ids.fault();
        truncate(input, 0, *ids);
        request.prompt_token_ids = std::move(*ids);
    }
    if (auto wrong = check_ids(request.prompt_token_ids, 0)) return *wrong;
    request.cache_salt = input.cache_salt;
    request.priority = input.priority;
    return request;
}

Result<std::optional<RequestInput>> InputProcessor::with_prompt(const RequestInput& input) const {
    const auto* text = std::get_if<std::string>(&input.prompt);
    if (text == nullptr && input.prompt_name) {
        return fault("prompt_name: only a text can begin with a prompt", "prompt_name");
    }
    const std::string name = input.prompt_name.value_or(pooling_.default_prompt);
    if (text == nullptr || name.empty() || input.pooling->values != PooledValues::hidden) {
        return std::optional<RequestInput>();
    }
    const auto prompt = pooling_.prompts.find(name);
    if (prompt == pooling_.prompts.end()) {
        std::vector<std::string_view> known;
        for (const auto& [other, unused] : pooling_.prompts) known.push_back(other);
        return fault(fmt::format("prompt_name: this model has no prompt of that name, {}",
                                 known.empty() ? "and no other"
                                               : fmt::format("but {}", fmt::join(known, ", "))),
                     "prompt_name");
    }
    if (prompt->second.empty()) return std::optional<RequestInput>();
    if (!pooling_.pools_prompts) {
        return fault(
            "prompt_name: this model leaves its prompts out of the pooling (include_prompt), which "
            "is not supported",
            "prompt_name");
    }
    RequestInput begun = input;
    begun.prompt = prompt->second + *text;
    return std::optional(std::move(begun));
}

Result<EncodedPair> InputProcessor::pair_ids(const RequestInput& input,
                                             const TextPair& pair) const {
    if (tokenizer_ == nullptr) {
        return fault("this model has no tokenizer, so that two texts cannot be compared");
    }
    try {
        for (const std::string* text : {&pair.first, &pair.second}) {
            if (auto wrong = check_beginning(input, *text)) return *wrong;
        }
        std::optional<int32_t> most = input.truncate_prompt_tokens;
        if (most && *most < 0) most = max_model_len_;
        return scoring_.encode(pair, most);
    } catch (const Error& error) {  // a text that cannot be spelled, a limit that leaves nothing
        return Fault{error.kind(), error.what()};
    }
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
            if (auto wrong = check_beginning(input, *text)) return *wrong;
            return tokenizer_->encode(*text);
        }
        return chat_ids(input);
    } catch (const Error& error) {  // a text that this vocabulary cannot spell
        return Fault{error.kind(), error.what()};
    }
}

// A text that is far too long is refused by what it begins with: to tokenize all of it may take
// minutes. Twice the context leaves no doubt, wherever the beginning was cut off.
std::optional<Fault> InputProcessor::check_beginning(const RequestInput& input,
                                                     const std::string& text) const {
    if (input.truncate_prompt_tokens) return std::nullopt;
    constexpr size_t kBytesOfToken = 32;
    const size_t num_bytes = kBytesOfToken * static_cast<size_t>(max_model_len_);
    if (text.size() <= 2 * num_bytes) return std::nullopt;
    const size_t num_tokens = tokenizer_->encode(text.substr(0, num_bytes)).size();
    if (num_tokens <= 2 * static_cast<size_t>(max_model_len_)) return std::nullopt;
    return fault(
        fmt::format("the prompt has {} bytes, of which the first {} are {} tokens already, "
                    "but the context has {}: shorten it",
                    text.size(), num_bytes, num_tokens, max_model_len_),
        "prompt", "context_length_exceeded");
}

Result<std::vector<int32_t>> InputProcessor::chat_ids(const RequestInput& input) const {
    auto rendered = conversations_.render(*std::get<ChatPrompt>(input.prompt));
    if (!rendered) return rendered.fault();
    if (auto wrong = check_beginning(input, rendered->text)) return *wrong;
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
    const int32_t space = max_model_len_ - num_answer;
    if (static_cast<int64_t>(ids.size()) <= space) return std::nullopt;
    return fault(
        fmt::format(
            "the prompt has {} tokens, but the context of {} leaves room for at most {}{}: shorten "
            "it, or raise --max-model-len{} as far as the model allows",
            ids.size(), max_model_len_, space, num_answer > 0 ? " and one answer token" : "",
            encoder_ ? " and --max-num-batched-tokens" : ""),
        "prompt", "context_length_exceeded");
}

SamplingParams InputProcessor::default_sampling() const {
    SamplingParams sampling;
    take(generation_.temperature, sampling.temperature);
    take(generation_.top_k, sampling.top_k);
    take(generation_.top_p, sampling.top_p);
    take(generation_.min_p, sampling.min_p);
    take(generation_.typical_p, sampling.typical_p);
    take(generation_.top_h, sampling.top_h);
    take(generation_.epsilon_cutoff, sampling.epsilon_cutoff);
    take(generation_.eta_cutoff, sampling.eta_cutoff);
    take(generation_.repetition_penalty, sampling.repetition_penalty);
    take(generation_.no_repeat_ngram_size, sampling.no_repeat_ngram_size);
    take(generation_.length_penalty, sampling.length_penalty);
    if (generation_.do_sample == false) sampling.temperature = 0.0f;
    if (generation_.early_stopping == "yes") sampling.early_stopping = EarlyStopping::yes;
    if (generation_.early_stopping == "never") sampling.early_stopping = EarlyStopping::never;
    sampling.max_tokens = generation_.max_new_tokens;
    take(generation_.min_new_tokens, sampling.min_tokens);
    take(generation_.min_length, sampling.min_length);
    if (tokenizer_ != nullptr) sampling.stop = generation_.stop_strings;
    add_default_tokens(sampling);
    return sampling;
}

// Tokens beyond the vocabulary are never chosen anyway.
void InputProcessor::add_default_tokens(SamplingParams& sampling) const {
    const auto is_known = [&](int32_t token) { return token < vocab_size_; };
    const auto known = [&](const std::vector<int32_t>& tokens) {
        std::vector<int32_t> found;
        std::ranges::copy_if(tokens, std::back_inserter(found), is_known);
        return found;
    };
    sampling.suppress_tokens = known(generation_.suppress_tokens);
    sampling.begin_suppress_tokens = known(generation_.begin_suppress_tokens);
    sampling.forced_eos_token_ids = known(generation_.forced_eos_token_ids);
    if (generation_.forced_bos_token_id && is_known(*generation_.forced_bos_token_id)) {
        sampling.forced_bos_token_id = generation_.forced_bos_token_id;
    }
    if (const auto& penalty = generation_.exponential_decay_length_penalty) {
        sampling.end_boost = EndBoost{penalty->first, penalty->second};
    }
    for (const std::vector<int32_t>& word : generation_.bad_words_ids) {
        // An end token alone is none, as in transformers.
        const bool is_end = word.size() == 1 && std::ranges::count(eos_token_ids_, word[0]) > 0;
        if (!is_end && std::ranges::all_of(word, is_known)) sampling.bad_words.push_back(word);
    }
    for (const auto& bias : generation_.token_biases) {
        if (is_known(bias.first)) sampling.logit_bias.push_back(bias);
    }
}

}  // namespace nvllm
