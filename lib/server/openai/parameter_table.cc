// Names, types, ranges, defaults and meanings of all fields.
#include "lib/server/openai/parameter_table.h"

#include "lib/request/sampling_limits.h"

namespace nvllm::server {
namespace {

using namespace sampling_limits;
using namespace schema;

constexpr uint8_t kCompletion = 1, kChat = 2, kEmbedding = 4, kTokenize = 8, kDetokenize = 16;
constexpr uint8_t kGeneration = kCompletion | kChat;
constexpr uint8_t kAll = kGeneration | kEmbedding | kTokenize | kDetokenize;

using Parameters = std::vector<Parameter>;

Json counted(Counts range) { return integer(range.least, range.most); }
Json token_id() { return integer(0, kUnbounded); }
Json token_ids(std::optional<size_t> most = std::nullopt, size_t least = 0) {
    return list(token_id(), most, least);
}

// A text, token ids, or several of either.
Json prompts(const RequestLimits& limits) {
    const auto most = static_cast<size_t>(limits.max_prompts);
    return any_of({text(), token_ids(std::nullopt, 1), list(text(), most, 1),
                   list(token_ids(std::nullopt, 1), most, 1)});
}

// As many logprobs of a token as the server gives; with no limit -1 for all.
Json logprob_count(const RequestLimits& limits) {
    return limits.max_logprobs < 0 ? integer(-1, kUnbounded) : integer(0, limits.max_logprobs);
}

Json stop_string() {
    Json json = text();
    json["minLength"] = 1;
    json["maxLength"] = kLongestStopStringBytes;
    return json;
}

Json biases() {
    Json json = map_of(number(kBias));
    json["maxProperties"] = kMaxBiases;
    json["propertyNames"]["pattern"] = "^[0-9]+$";
    return json;
}

Json function_call() {
    return object({{"id", text(), false},
                   {"type", text(), false},
                   {"function", object({{"name", text()}, {"arguments", anything(), false}})}});
}

// A text, or an object whose type, or a key when there is none, says where its text stands.
Json text_part() {
    Json json = object({{"type", text(), false}});
    json["anyOf"] = Json::parse(R"([
        {"required": ["type", "text"],
         "properties": {"type": {"enum": ["text", "input_text", "output_text"]}, "text": {"type": "string"}}},
        {"required": ["type", "refusal"],
         "properties": {"type": {"const": "refusal"}, "refusal": {"type": "string"}}},
        {"required": ["type", "thinking"],
         "properties": {"type": {"const": "thinking"}, "thinking": {"type": "string"}}},
        {"required": ["text"], "not": {"required": ["type"]}, "properties": {"text": {"type": "string"}}}])");
    return any_of({text(), std::move(json)});
}

Json message() {
    Json json = object({{"role", text()},
                        {"content", or_null(any_of({text(), list(text_part())})), false},
                        {"name", or_null(text()), false},
                        {"refusal", or_null(text()), false},
                        {"reasoning_content", or_null(text()), false},
                        {"tool_calls", or_null(list(function_call())), false},
                        {"tool_call_id", or_null(text()), false}});
    json["allOf"] = Json::parse(R"([
        {"if": {"required": ["role"],
                "properties": {"role": {"enum": ["system", "developer", "user", "tool"]}}},
         "then": {"required": ["content"], "properties": {"content": {"not": {"type": "null"}}}}}])");
    return json;
}

// What has a field of its own is no variable.
Json template_variables() {
    Json json = object();
    json["propertyNames"] = Json::parse(R"({"not": {"enum": ["messages", "chat_template"]}})");
    return json;
}

Json messages(const RequestLimits& limits) {
    return list(message(), static_cast<size_t>(limits.max_messages), 1);
}

Json text_format() {
    Json type = Json::object();
    type["const"] = "text";
    return object({{"type", std::move(type)}});
}

void add_inputs(Parameters& table, const RequestLimits& limits) {
    table.insert(
        table.end(),
        {{"model",
          kAll,
          text(),
          {},
          "A name from /v1/models; when absent the first model, which x-nvllm-model names where "
          "several are served."},
         {"prompt",
          kCompletion,
          prompts(limits),
          {},
          "A text, a list of token ids, or a list of either: a choice, or n, for each.",
          kCompletion},
         {"messages",
          kChat,
          messages(limits),
          {},
          "The conversation; the model's template makes a prompt of it.",
          kChat},
         {"messages", kTokenize, messages(limits), {}, "A conversation in place of a text."},
         {"input",
          kEmbedding,
          prompts(limits),
          {},
          "A text, a list of token ids, or a list of either: a vector for each.",
          kEmbedding},
         {"prompt", kTokenize, text(), {}, "The text."},
         {"content",
          kTokenize,
          text(),
          {},
          "The text, of which no special tokens are made around it unless asked for."},
         {"tokens", kDetokenize, token_ids(), {}, "Token ids.", kDetokenize},
         {"add_special_tokens",
          kTokenize,
          boolean(),
          {},
          "Put the tokenizer's own tokens around the text: true for prompt, false for content."},
         {"return_token_strs", kTokenize, boolean(), false, "The tokens as they are spelled."},
         {"documents", kChat | kTokenize, anything(), {}, "Given to the template."},
         {"add_generation_prompt", kChat | kTokenize, boolean(), true,
          "End the prompt where the assistant is to speak."},
         {"continue_final_message", kChat | kTokenize, boolean(), false,
          "Go on writing the last message."},
         {"chat_template_kwargs",
          kChat | kTokenize,
          template_variables(),
          {},
          "Further variables of the template."},
         {"reasoning_effort", kChat | kTokenize, text(), {}, "Given to the template."},
         {"chat_template",
          kChat | kTokenize,
          limits.takes_chat_templates ? text() : values({""}),
          {},
          "A template in place of the model's; only where the server trusts those of requests "
          "(--trust-request-chat-template)."},
         {"tools",
          kTokenize,
          list(anything(), static_cast<size_t>(limits.max_tools)),
          {},
          "Given to the template."},
         {"truncate_prompt_tokens",
          kGeneration | kEmbedding,
          integer(-1, kUnbounded),
          {},
          "Only so many of the prompt's tokens, the last ones, and what the tokenizer puts around "
          "a text; -1: as many as leave room for the answer."}});
}

void add_lengths(Parameters& table) {
    table.insert(
        table.end(),
        {{"max_tokens",
          kChat,
          counted(kMaxTokens),
          {},
          "Tokens generated at most; to the end of the context when absent."},
         {"max_tokens",
          kCompletion,
          integer(0, kMaxTokens.most),
          {},
          "Tokens generated at most; when absent 16, or what the model's generation_config.json "
          "says. 0 only with echo: the prompt alone comes back."},
         {"max_completion_tokens",
          kGeneration,
          counted(kMaxTokens),
          {},
          "Another name of max_tokens."},
         {"min_tokens", kGeneration, counted(kMinTokens), 0,
          "No end before this many tokens; at most max_tokens."},
         {"min_length", kGeneration, counted(kMinLength), 0,
          "No end before prompt and answer have this many tokens together."},
         {"ignore_eos", kGeneration, boolean(), false, "The model's end tokens do not stop."},
         {"stop",
          kGeneration,
          any_of({stop_string(), list(stop_string(), kMaxStopStrings)}),
          {},
          "Texts that stop, of 16 KiB in all."},
         {"stop_token_ids",
          kGeneration,
          token_ids(kMaxStopTokens),
          {},
          "Token ids that stop besides the model's end tokens."},
         {"include_stop_str_in_output", kGeneration, boolean(), false,
          "Leave the stop in the answer."},
         {"skip_special_tokens", kGeneration, boolean(), true, "Special tokens leave no text."}});
}

void add_choosing(Parameters& table) {
    const SamplingParams plain;
    table.insert(
        table.end(),
        {{"temperature", kGeneration, number(kTemperature), plain.temperature,
          "0 takes the likeliest token; above 1 flattens."},
         {"top_p", kGeneration, number(kTopP), plain.top_p,
          "Keep the likeliest tokens that together have this probability."},
         {"top_k", kGeneration, integer(-1, kTopK.most), plain.top_k,
          "Keep so many of the likeliest tokens; 0 and -1: all."},
         {"min_p", kGeneration, number(kMinP), plain.min_p,
          "Keep tokens with this share of the likeliest one's probability."},
         {"typical_p", kGeneration, number(kTypicalP), plain.typical_p,
          "Keep the tokens of most typical surprise that together have this probability."},
         {"top_n_sigma", kGeneration, number(kTopNSigma), plain.top_n_sigma,
          "Keep tokens whose logit is at most so many deviations below the best; 0: all."},
         {"top_h", kGeneration, number(kTopH), plain.top_h,
          "Keep the likeliest tokens that together have this share of the entropy; 0: all."},
         {"epsilon_cutoff", kGeneration, number(kCutoff), plain.epsilon_cutoff,
          "Keep tokens with at least this probability; 0 and 1: all."},
         {"eta_cutoff", kGeneration, number(kCutoff), plain.eta_cutoff,
          "The same, with less where the distribution is flat; 0 and 1: all."},
         {"samplers",
          kGeneration,
          list(values({"temperature", "top_n_sigma", "top_h", "top_k", "top_p", "min_p",
                       "typical_p", "epsilon_cutoff", "eta_cutoff"})),
          {},
          "Which of these to apply, in this order."},
         {"repetition_penalty", kGeneration, number(kRepetitionPenalty), plain.repetition_penalty,
          "Divides positive and multiplies negative logits of tokens that were seen."},
         {"presence_penalty", kGeneration, number(kPresencePenalty), plain.presence_penalty,
          "Subtracted once from logits of tokens generated before."},
         {"frequency_penalty", kGeneration, number(kFrequencyPenalty), plain.frequency_penalty,
          "Subtracted for each time a token was generated."},
         {"logit_bias", kGeneration, biases(), {}, "Added to the logits of these token ids."},
         {"allowed_token_ids",
          kGeneration,
          token_ids(),
          {},
          "Nothing else may be chosen; at most as many as the vocabulary has."},
         {"bad_words",
          kGeneration,
          list(text(), kMaxBadWords),
          {},
          "Texts that are never written, of at most 64 tokens each."},
         {"no_repeat_ngram_size", kGeneration, counted(kNoRepeatNgramSize), 0,
          "No sequence of so many tokens comes twice, the prompt's included; 0: any may."},
         {"suppress_tokens", kGeneration, token_ids(), {}, "Token ids that are never chosen."},
         {"begin_suppress_tokens",
          kGeneration,
          token_ids(),
          {},
          "Token ids that are not chosen first."},
         {"forced_bos_token_id",
          kGeneration,
          integer(0),
          {},
          "The token id that follows a prompt of one token."},
         {"forced_eos_token_id",
          kGeneration,
          any_of({token_id(), token_ids()}),
          {},
          "The token id, or one of these, that is the last of max_tokens."},
         {"exponential_decay_length_penalty",
          kGeneration,
          list(any_of({counted(kMinTokens), number(kEndBoost)}), 2),
          {},
          "A number of tokens and a factor: after so many, scores of end tokens grow by its "
          "powers."},
         {"seed",
          kGeneration,
          integer(INT64_MIN, INT64_MAX),
          {},
          "The same request with the same seed has the same answer; drawn when absent."}});
}

void add_several(Parameters& table) {
    const SamplingParams plain;
    table.insert(
        table.end(),
        {{"n", kGeneration, counted(kN), plain.n, "Choices for each prompt."},
         {"best_of",
          kGeneration,
          counted(kBestOf),
          {},
          "Continuations made, of which the n likeliest are given; at least n. With beam search "
          "its width."},
         {"use_beam_search", kGeneration, boolean(), plain.use_beam_search,
          "The likeliest continuations instead of drawn ones; nothing that changes logits and no "
          "stop, min_tokens or logprobs beside it."},
         {"length_penalty", kGeneration, number(kLengthPenalty), plain.length_penalty,
          "Scores of beams are divided by length to this power."},
         {"early_stopping", kGeneration, values({true, false, "never"}), false,
          "When a beam search ends."}});
}

void add_answers(Parameters& table, const RequestLimits& limits) {
    table.insert(
        table.end(),
        {{"stream", kGeneration, boolean(), false, "The answer as server-sent events."},
         {"stream_options",
          kGeneration,
          object({{"include_usage", or_null(boolean()), false},
                  {"continuous_usage_stats", or_null(boolean()), false},
                  {"include_obfuscation", or_null(boolean()), false}}),
          {},
          "Only with stream. The counts of tokens in one more chunk at the end, or in every chunk; "
          "include_obfuscation does nothing."},
         {"return_progress", kGeneration, boolean(), false,
          "Chunks of a stream while the prompt is computed."},
         {"return_token_ids", kGeneration, boolean(), false, "The choices' token ids."},
         {"return_tokens_as_token_ids", kGeneration, boolean(), false,
          "Tokens of logprobs as \"token_id:17\" in place of their text."},
         {"echo", kCompletion, boolean(), false, "The prompt before the answer."},
         {"logprobs",
          kCompletion,
          logprob_count(limits),
          {},
          "Logprobs of what was chosen and of so many of the likeliest tokens."},
         {"logprobs", kChat, boolean(), false, "Logprobs of what was chosen."},
         {"top_logprobs",
          kChat,
          logprob_count(limits),
          {},
          "And of so many of the likeliest tokens; needs logprobs."},
         {"prompt_logprobs",
          kGeneration,
          logprob_count(limits),
          {},
          "The same of the prompt's tokens."},
         {"encoding_format", kEmbedding, values({"float", "base64"}), "float",
          "Lists of numbers, or base64 of little-endian float32."},
         {"dimensions",
          kEmbedding,
          integer(1, INT32_MAX),
          {},
          "Only so many numbers of each vector; at most as many as it has."},
         {"pooling",
          kEmbedding,
          values({"last", "mean", "cls"}),
          {},
          "Which positions make the vector; as the model's authors have it when absent."},
         {"normalize",
          kEmbedding,
          boolean(),
          {},
          "Vectors of length 1; as the model's authors have it when absent."},
         {"cache_salt",
          kGeneration,
          text(),
          {},
          "Cached prompts are shared among requests with the same salt only."},
         {"priority", kGeneration, integer(INT32_MIN, INT32_MAX), 0,
          "Lower is served first, where the server schedules by priority."}});
}

void add_what_is_limited(Parameters& table, const RequestLimits& limits) {
    table.insert(
        table.end(),
        {{"response_format",
          kGeneration,
          text_format(),
          {},
          "Only {\"type\": \"text\"}; json_object and json_schema are refused as unsupported."},
         {"tools",
          kGeneration,
          list(anything(), static_cast<size_t>(limits.max_tools)),
          {},
          "Given to a chat's template with tool_choice none; else refused as unsupported."},
         {"tool_choice",
          kGeneration,
          values({"none", "auto"}),
          {},
          "Others are refused as unsupported."},
         {"modalities", kGeneration, values({Json::array({"text"})}), {}, "Only text."}});
}

void add_idle(Parameters& table) {
    for (const char* name :
         {"safety_identifier", "metadata", "store", "service_tier", "verbosity", "prompt_cache_key",
          "request_id", "parallel_tool_calls", "prompt_cache_retention"}) {
        table.push_back({name,
                         kGeneration,
                         anything(),
                         {},
                         "Taken, and does nothing.",
                         0,
                         ParameterUse::no_effect});
    }
    table.push_back({"reasoning_effort",
                     kCompletion,
                     anything(),
                     {},
                     "Taken, and does nothing.",
                     0,
                     ParameterUse::no_effect});
    table.push_back({"user",
                     kGeneration | kEmbedding,
                     anything(),
                     {},
                     "Taken, and does nothing.",
                     0,
                     ParameterUse::no_effect});
}

struct NotBuilt {
    std::string_view name;
    uint8_t calls;
    std::string_view why;
};

constexpr std::string_view kNoGrammars = "answers cannot be held to a grammar or schema yet";
constexpr std::string_view kTextOnly = "only texts are read and written here";

constexpr NotBuilt kNotBuilt[] = {
    {"functions", kGeneration, "tools cannot be called yet"},
    {"function_call", kGeneration, "tools cannot be called yet"},
    {"grammar", kGeneration, kNoGrammars},
    {"guided_json", kGeneration, kNoGrammars},
    {"guided_regex", kGeneration, kNoGrammars},
    {"guided_choice", kGeneration, kNoGrammars},
    {"guided_grammar", kGeneration, kNoGrammars},
    {"guided_decoding_backend", kGeneration, kNoGrammars},
    {"structured_outputs", kGeneration, kNoGrammars},
    {"json_schema", kGeneration, kNoGrammars},
    {"audio", kGeneration, kTextOnly},
    {"images", kGeneration, kTextOnly},
    {"prompt_embeds", kGeneration, kTextOnly},
    {"prediction", kGeneration, "drafts of answers are not taken yet"},
    {"web_search_options", kGeneration, "this server never asks another one"},
    {"logits_processors", kGeneration, "code is never taken from a request"},
    {"suffix", kGeneration,
     "texts are only continued: write what goes before and after into the prompt, with the model's "
     "own tokens for filling in the middle"},
    {"lora", kGeneration, "adapters are not served yet"},
    {"kv_transfer_params", kGeneration, "caches are not moved between servers yet"},
    {"chat_template", kCompletion, "a completion has no template"},
    {"prompt_token_ids", kGeneration, "token ids are given as prompt of a completion"},
    {"prompt", kChat, "a chat has messages"},
    {"messages", kCompletion, "a completion has a prompt"},
};

// What says nothing is taken.
void add_not_built(Parameters& table) {
    for (const NotBuilt& row : kNotBuilt) {
        table.push_back({row.name,
                         row.calls,
                         values({"", false, Json::array(), Json::object()}),
                         {},
                         row.why,
                         0,
                         ParameterUse::not_built});
    }
}

}  // namespace

Parameters make_parameters(const RequestLimits& limits) {
    Parameters table;
    add_inputs(table, limits);
    add_lengths(table);
    add_choosing(table);
    add_several(table);
    add_answers(table, limits);
    add_what_is_limited(table, limits);
    add_idle(table);
    add_not_built(table);
    return table;
}

}  // namespace nvllm::server
