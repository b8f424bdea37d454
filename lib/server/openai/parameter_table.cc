// Names, types, ranges, defaults and meanings of all fields.
#include "lib/server/openai/parameter_table.h"

#include "lib/request/sampling_fields.h"
#include "lib/server/openai/conversation_rows.h"

namespace nvllm::server {
namespace {

using namespace schema;

constexpr uint32_t bit(CallKind kind) { return static_cast<uint32_t>(kind); }
constexpr uint32_t kCompletion = bit(CallKind::completion), kChat = bit(CallKind::chat);
constexpr uint32_t kEmbedding = bit(CallKind::embedding), kTokenize = bit(CallKind::tokenize);
constexpr uint32_t kDetokenize = bit(CallKind::detokenize);
constexpr uint32_t kScore = bit(CallKind::score), kRerank = bit(CallKind::rerank);
constexpr uint32_t kClassify = bit(CallKind::classify);
constexpr uint32_t kGeneration = kCompletion | kChat;
constexpr uint32_t kComparison = kScore | kRerank;
constexpr uint32_t kScoring = kComparison | kClassify;
constexpr uint32_t kAll = kGeneration | kEmbedding | kTokenize | kDetokenize | kScoring;

using Parameters = std::vector<Parameter>;

Json token_id() { return integer(0, kUnboundedCount); }
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
    return limits.max_logprobs < 0 ? integer(-1, kUnboundedCount) : integer(0, limits.max_logprobs);
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

Json messages(const RequestLimits& limits) {
    return list(message(), static_cast<size_t>(limits.max_messages), 1);
}

// What is wrong inside, such as a keyword that cannot be held to, is said when it is compiled.
Json json_schema() { return any_of({object(), text(), boolean()}); }

Json format() {
    return object({{"type", values({"text", "json_object", "json_schema", "structural_tag"})}});
}

Json structured_outputs() {
    Json json = object({{"json", or_null(json_schema()), false},
                        {"regex", or_null(text()), false},
                        {"choice", or_null(list(text(), std::nullopt, 1)), false},
                        {"grammar", or_null(text()), false},
                        {"json_object", or_null(boolean()), false},
                        {"structural_tag", or_null(any_of({object(), text()})), false}});
    json["minProperties"] = 1;
    return json;
}

Json tool() {
    Json function = object({{"name", text()},
                            {"description", or_null(text()), false},
                            {"parameters", or_null(object()), false},
                            {"strict", or_null(boolean()), false}});
    function["properties"]["name"]["minLength"] = 1;
    return object({{"type", values({"function"})}, {"function", std::move(function)}});
}

Json tool_choice() {
    return any_of(
        {values({"none", "auto", "required"}),
         object({{"type", values({"function"})}, {"function", object({{"name", text()}})}}),
         object({{"type", values({"allowed_tools"})},
                 {"allowed_tools", object({{"mode", values({"auto", "required"})},
                                           {"tools", list(object(), std::nullopt, 1)}})}})});
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
         {"return_token_strs", kTokenize, boolean(), false, "The tokens as they are spelled."}});
}

// How the template makes a prompt of a conversation, and how long that may be.
void add_rendering(Parameters& table, const RequestLimits& limits) {
    table.insert(
        table.end(),
        {{"documents", kChat | kTokenize, anything(), {}, "Given to the template."},
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
         {"enable_thinking", kChat | kTokenize, boolean(), {}, "Given to the template."},
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
          kGeneration | kEmbedding | kClassify,
          integer(-1, kUnboundedCount),
          {},
          "Only so many of the prompt's tokens, the last ones, and what the tokenizer puts around "
          "a text; -1: as many as leave room for the answer."}});
}

Json schema_of(const CountRange& range) {
    return integer(range.minus_one_is_zero ? -1 : range.min, range.max);
}
Json schema_of(const NumberRange& range) {
    return number(range.min, range.max, range.excludes_min);
}
Json schema_of(const TokenId&) { return integer(0); }
Json schema_of(const TokenIds& limit) {
    Json json = token_ids(limit.max_count == 0 ? std::nullopt : std::optional(limit.max_count));
    return limit.takes_one ? any_of({token_id(), std::move(json)}) : json;
}
Json schema_of(const TokenSequences& limit) { return list(text(), limit.max_count); }
Json schema_of(const TokenBiases& limit) {
    Json json = map_of(schema_of(limit.bias));
    json["maxProperties"] = limit.max_count;
    json["propertyNames"]["pattern"] = "^[0-9]+$";
    return json;
}
Json schema_of(const Texts& limit) {
    Json one = text();
    one["minLength"] = 1;
    one["maxLength"] = limit.max_bytes;
    return any_of({one, list(one, limit.max_count)});
}
Json schema_of(const SamplerNames&) {
    return list(values(std::vector<Json>(kNarrowingSamplers.begin(), kNarrowingSamplers.end())));
}
Json schema_of(const EndBoostRange& range) {
    return list(any_of({schema_of(range.start), schema_of(range.factor)}), 2);
}

Json schema_of(const SamplingField<bool, AnyValue>&) { return boolean(); }
Json schema_of(const SamplingField<EarlyStopping, AnyValue>&) {
    return values({true, false, "never"});
}
Json schema_of(const SamplingField<std::optional<uint64_t>, AnyValue>&) {
    return integer(INT64_MIN, INT64_MAX);
}
template <typename Member, typename Limit>
Json schema_of(const SamplingField<Member, Limit>& field) {
    return schema_of(field.limit);
}

template <typename Member>
Json fallback_of(const Member& initial) {
    if constexpr (std::is_arithmetic_v<Member>) return initial;
    return {};
}
Json fallback_of(EarlyStopping initial) {
    return initial == EarlyStopping::never ? Json("never") : Json(initial == EarlyStopping::yes);
}

// Adds a row for those of the generating calls that have none of this name yet. Returns false if
// all have one.
bool add_where_missing(Parameters& table, Parameter row) {
    row.calls = kGeneration;
    for (const Parameter& other : table) {
        if (other.name == row.name) row.calls &= ~other.calls;
    }
    if (row.calls == 0) return false;
    table.push_back(std::move(row));
    return true;
}

// Fields with another meaning in one kind of call, or with a limit of the server.
void add_special_sampling(Parameters& table, const RequestLimits& limits) {
    table.insert(table.end(),
                 {{"max_tokens",
                   kCompletion,
                   integer(0, kUnboundedCount),
                   {},
                   "Tokens to generate at most; if absent 16, or the value of the model's "
                   "generation_config.json. 0 only with echo: the response is the prompt alone."},
                  {"logprobs",
                   kCompletion,
                   logprob_count(limits),
                   {},
                   "The logprob of each chosen token, and of this many of the likeliest tokens."},
                  {"logprobs", kChat, boolean(), false, "The logprob of each chosen token."},
                  {"top_logprobs",
                   kChat,
                   logprob_count(limits),
                   {},
                   "The logprobs of this many of the likeliest tokens; needs logprobs."},
                  {"prompt_logprobs",
                   kGeneration,
                   logprob_count(limits),
                   {},
                   "The same for the tokens of the prompt."}});
}

void add_sampling(Parameters& table, const RequestLimits& limits) {
    add_special_sampling(table, limits);
    visit_sampling_fields([&](const auto& field) {
        const Json initial = fallback_of(initial_sampling().*field.member);
        const std::string_view alias = field.traits.json_alias;
        const bool is_added =
            add_where_missing(table, {field.name, 0, schema_of(field), initial, field.help});
        if (is_added && !alias.empty()) {
            add_where_missing(table, {alias, 0, schema_of(field), {}, field.help});
        }
    });
}

void add_answers(Parameters& table) {
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
         {"prompt_name",
          kEmbedding,
          text(),
          {},
          "Which of the prompts in config_sentence_transformers.json texts begin with; empty: "
          "none; when absent the one that the file names as default."},
         {"cache_salt",
          kGeneration | kComparison,
          text(),
          {},
          "Cached prompts are shared among requests with the same salt only."},
         {"priority", kGeneration | kScoring, integer(INT32_MIN, INT32_MAX), 0,
          "Lower is served first, where the server schedules by priority."},
         {"speculative", kGeneration, boolean(), true,
          "Whether tokens may be proposed and verified several in a step, where the server does "
          "so; the answer is the same."}});
}

// What an answer is held to, in the words of three APIs: one of them.
void add_grammars(Parameters& table) {
    const auto add = [&](std::string_view name, Json schema, std::string_view description) {
        table.push_back({name, kGeneration, std::move(schema), {}, description});
    };
    add("response_format", format(),
        "text; json_object, with \"schema\" as llama.cpp has it; json_schema, which is always held "
        "to, whatever \"strict\" says; structural_tag.");
    add("structured_outputs", structured_outputs(),
        "What the answer is held to: one of json (a JSON schema), regex, choice, grammar (EBNF or "
        "GBNF), json_object, structural_tag.");
    add("guided_json", json_schema(), "structured_outputs.json under its older name.");
    add("guided_regex", text(), "structured_outputs.regex under its older name.");
    add("guided_choice", list(text(), std::nullopt, 1),
        "structured_outputs.choice under its older name.");
    add("guided_grammar", text(), "structured_outputs.grammar under its older name.");
    add("guided_json_object", boolean(), "structured_outputs.json_object under its older name.");
    add("json_schema", json_schema(), "structured_outputs.json as llama.cpp names it.");
    add("grammar", text(), "structured_outputs.grammar as llama.cpp names it.");
}

// A text, or an object that has one.
Json document() { return any_of({text(), object({{"text", text()}})}); }

Json documents(const RequestLimits& limits) {
    return list(document(), static_cast<size_t>(limits.max_prompts), 1);
}

void add_comparisons(Parameters& table, const RequestLimits& limits) {
    const Json several = any_of({document(), documents(limits)});
    for (const char* name : {"text_1", "queries", "data_1"}) {
        table.push_back({name,
                         kScore,
                         several,
                         {},
                         "The first text, or as many as there are second ones; also named text_1, "
                         "queries or data_1."});
    }
    for (const char* name : {"text_2", "documents", "data_2"}) {
        table.push_back({name,
                         kScore,
                         several,
                         {},
                         "The second texts, a score for each; also named text_2, documents or "
                         "data_2."});
    }
    table.insert(
        table.end(),
        {{"query", kRerank, document(), {}, "What the documents are compared with.", kRerank},
         {"documents", kRerank, documents(limits), {}, "The texts to rank.", kRerank},
         {"top_n", kRerank, integer(0, kUnboundedCount), 0,
          "Only so many results, the best; 0: all."},
         {"return_documents", kRerank, boolean(), true, "The texts with the results."},
         {"max_tokens_per_doc",
          kComparison,
          integer(1, kUnboundedCount),
          {},
          "Only so many of a document's tokens, the first ones; of a cross-encoder."},
         {"truncate_prompt_tokens",
          kComparison,
          integer(-1, kUnboundedCount),
          {},
          "Only so many tokens of query and document together: ids are cut off the end of the "
          "longer one first; -1: as many as the model takes. Of embedding models the last ones of "
          "each text."},
         {"instruction",
          kComparison,
          text(),
          {},
          "What makes a document relevant, for models whose prompt says it (Qwen3-Reranker)."},
         {"use_activation", kScoring, boolean(), true,
          "Scores as the model's authors have them; without it the values of the model's head."},
         {"activation", kScoring, boolean(), true, "An older name of use_activation."},
         {"input",
          kClassify,
          prompts(limits),
          {},
          "A text, a list of token ids, or a list of either: scores of the classes for each.",
          kClassify}});
}

void add_what_is_limited(Parameters& table, const RequestLimits& limits) {
    table.insert(
        table.end(),
        {{"tools",
          kChat,
          list(tool(), static_cast<size_t>(limits.max_tools)),
          {},
          "Functions that the model may call; the template shows them. With strict, arguments "
          "always fit their schema."},
         {"tool_choice",
          kChat,
          tool_choice(),
          {},
          "Whether something is called: none, auto (as the model decides), required, a function by "
          "its name, or allowed_tools: some of the tools, auto or required. What is required holds "
          "the answer to calls whose arguments fit."},
         {"tool_choice", kCompletion, values({"none", "auto"}), {}, "A completion calls nothing."},
         {"parallel_tool_calls", kChat, boolean(), true,
          "Let several functions be called at once, where the answer is held to calls."},
         {"include_reasoning", kChat, boolean(), true, "The model's reasoning in the answer."},
         {"modalities", kGeneration, values({Json::array({"text"})}), {}, "Only text."}});
}

void add_idle(Parameters& table) {
    for (const char* name :
         {"safety_identifier", "metadata", "store", "service_tier", "verbosity", "prompt_cache_key",
          "request_id", "prompt_cache_retention", "guided_decoding_backend"}) {
        table.push_back({name,
                         kGeneration,
                         anything(),
                         {},
                         "Taken, and does nothing.",
                         0,
                         ParameterUse::no_effect});
    }
    for (const char* name :
         {"reasoning_effort", "parallel_tool_calls", "enable_thinking", "include_reasoning"}) {
        table.push_back({name,
                         kCompletion,
                         anything(),
                         {},
                         "Taken, and does nothing.",
                         0,
                         ParameterUse::no_effect});
    }
    table.push_back({"user",
                     kGeneration | kEmbedding | kScoring,
                     anything(),
                     {},
                     "Taken, and does nothing.",
                     0,
                     ParameterUse::no_effect});
}

struct NotBuilt {
    std::string_view name;
    uint32_t calls;
    std::string_view why;
};

constexpr std::string_view kOldTools = "use tools and tool_choice, which took its place";
constexpr std::string_view kNoTools = "a completion calls nothing: ask /v1/chat/completions";
constexpr std::string_view kTextOnly = "only texts are read and written here";

constexpr NotBuilt kNotBuilt[] = {
    {"functions", kChat, kOldTools},
    {"function_call", kChat, kOldTools},
    {"functions", kCompletion, kNoTools},
    {"function_call", kCompletion, kNoTools},
    {"tools", kCompletion, kNoTools},
    {"guided_whitespace_pattern", kGeneration,
     "whitespace between the parts of JSON is as the grammar engine has it"},
    {"audio", kGeneration, kTextOnly},
    {"images", kGeneration, kTextOnly},
    {"prompt_embeds", kGeneration, kTextOnly},
    {"prediction", kGeneration, "drafts of answers are not taken yet"},
    {"web_search_options", kGeneration, "this server never asks another one"},
    {"logits_processors", kGeneration, "code is never taken from a request"},
    {"suffix", kGeneration,
     "texts are only continued: write what goes before and after into the prompt, with the model's "
     "own tokens for filling in the middle"},
    {"lora", kGeneration, "an adapter is asked for by its name as model"},
    {"adapter", kGeneration, "an adapter is asked for by its name as model"},
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
    add_rendering(table, limits);
    add_sampling(table, limits);
    add_answers(table);
    add_grammars(table);
    add_comparisons(table, limits);
    add_what_is_limited(table, limits);
    add_idle(table);
    add_not_built(table);
    add_message_rows(table, limits);
    add_response_rows(table, limits);
    return table;
}

}  // namespace nvllm::server
