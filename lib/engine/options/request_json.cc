// The table of request fields and how each is read.
#include "lib/engine/options/request_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lib/base/json.h"
#include "lib/base/option_values.h"
#include "lib/chat/chat_message.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

// What a field's reader throws; turned into the request's fault with the field's name.
struct WrongField {
    std::string expected;
};

double read_number(const Json& value) {
    if (!value.is_number()) throw WrongField{"a number"};
    return value.get<double>();
}

float read_float(const Json& value) {
    const double number = read_number(value);
    // A magnitude beyond float32 would become infinite, which range checks then refuse by name.
    return static_cast<float>(number);
}

int64_t read_integer(const Json& value, int64_t lowest, int64_t highest) {
    const std::string expected = fmt::format("an integer in [{}, {}]", lowest, highest);
    if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) {
        throw WrongField{expected};
    }
    if (value.is_number_integer()) {
        const int64_t integer = value.get<int64_t>();
        if (integer < lowest || integer > highest) throw WrongField{expected};
        return integer;
    }
    // Beyond this, what was written may have been another integer.
    constexpr double kLargestExact = 9007199254740992.0;
    const double number = read_number(value);
    const bool is_exact = number == std::floor(number) && std::abs(number) <= kLargestExact;
    if (!is_exact || number < static_cast<double>(lowest) ||
        number > static_cast<double>(highest)) {
        throw WrongField{expected};
    }
    return static_cast<int64_t>(number);
}

int32_t read_int32(const Json& value) {
    return static_cast<int32_t>(read_integer(value, std::numeric_limits<int32_t>::min(),
                                             std::numeric_limits<int32_t>::max()));
}

// -1 says all, as 0 does.
int32_t read_top_k(const Json& value) {
    const int32_t count = read_int32(value);
    return count == -1 ? 0 : count;
}

bool read_bool(const Json& value) {
    if (!value.is_boolean()) throw WrongField{"true or false"};
    return value.get<bool>();
}

std::string read_string(const Json& value) {
    if (!value.is_string()) throw WrongField{"a string"};
    return value.get<std::string>();
}

std::vector<int32_t> read_ids(const Json& value) {
    if (!value.is_array()) throw WrongField{"a list of token ids"};
    std::vector<int32_t> ids;
    ids.reserve(value.size());
    for (const Json& id : value) ids.push_back(read_int32(id));
    return ids;
}

// One id or a list of them.
std::vector<int32_t> read_id_or_ids(const Json& value) {
    if (value.is_number()) return {read_int32(value)};
    return read_ids(value);
}

std::vector<std::string> read_strings(const Json& value) {
    if (!value.is_array()) throw WrongField{"a list of strings"};
    std::vector<std::string> texts;
    for (const Json& text : value) texts.push_back(read_string(text));
    return texts;
}

std::vector<std::string> read_stop(const Json& value) {
    if (value.is_string()) return {read_string(value)};
    return read_strings(value);
}

std::vector<std::pair<int32_t, float>> read_logit_bias(const Json& value) {
    if (!value.is_object()) throw WrongField{"an object from token id to bias"};
    std::vector<std::pair<int32_t, float>> bias;
    for (const auto& [key, amount] : value.items()) {
        int32_t id = 0;
        const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
        if (error != std::errc() || end != key.data() + key.size()) {
            throw WrongField{"an object from token id to bias"};
        }
        bias.emplace_back(id, read_float(amount));
    }
    return bias;
}

EndBoost read_end_boost(const Json& value) {
    if (!value.is_array() || value.size() != 2) {
        throw WrongField{"a list of a number of tokens and a factor"};
    }
    return {read_int32(value[0]), read_float(value[1])};
}

EarlyStopping read_early_stopping(const Json& value) {
    if (value.is_boolean()) return value.get<bool>() ? EarlyStopping::yes : EarlyStopping::no;
    if (value == "never") return EarlyStopping::never;
    throw WrongField{"true, false or \"never\""};
}

// Completions give a count, chat gives true and the count as top_logprobs.
void read_logprobs(const Json& value, SamplingParams& sampling) {
    if (value.is_boolean()) {
        if (value.get<bool>())
            sampling.logprobs = sampling.logprobs.value_or(0);
        else
            sampling.logprobs.reset();
        return;
    }
    sampling.logprobs = read_int32(value);
}

struct Builder {
    JsonRequest request;
    Conversation chat;
    size_t max_messages = SIZE_MAX;
    std::optional<Fault> fault;  // of the messages, which names the position in them
};

struct Field {
    const char* name;
    void (*read)(const Json&, Builder&);
};

// Reads straight into a member of SamplingParams.
template <auto Member, auto Reader>
void into(const Json& value, Builder& builder) {
    builder.request.input.sampling.*Member = Reader(value);
}

Json read_anything(const Json& value) { return value; }

// A variable of the template.
template <const char* Name, auto Reader>
void into_chat(const Json& value, Builder& builder) {
    builder.chat.variables[Name] = Reader(value);
}

constexpr char kTools[] = "tools";
constexpr char kDocuments[] = "documents";
constexpr char kAddGenerationPrompt[] = "add_generation_prompt";
constexpr char kContinueFinalMessage[] = "continue_final_message";
constexpr char kReasoningEffort[] = "reasoning_effort";

void read_prompt(const Json& value, Builder& builder) {
    if (value.is_string()) {
        builder.request.prompt_text = value.get<std::string>();
        builder.request.input.prompt = builder.request.prompt_text;
    } else if (value.is_array() && (value.empty() || !value[0].is_string())) {
        builder.request.input.prompt = read_ids(value);
    } else {
        throw WrongField{"one text or one list of token ids: several prompts are several requests"};
    }
}

void read_template_kwargs(const Json& value, Builder& builder) {
    if (!value.is_object()) throw WrongField{"an object"};
    for (const auto& [key, argument] : value.items()) {
        if (key == "messages" || key == "chat_template") {
            throw WrongField{"an object without '" + key + "', which is a field of its own"};
        }
        // What has a field of its own stands above.
        if (!builder.chat.variables.contains(key)) builder.chat.variables[key] = argument;
    }
}

void read_messages_field(const Json& value, Builder& builder) {
    auto messages = read_messages(value, builder.max_messages);
    if (!messages) {
        builder.fault = messages.fault();
    } else {
        builder.chat.messages = std::move(*messages);
    }
}

// An empty one is the model's.
void read_chat_template(const Json& value, Builder& builder) {
    std::string text = read_string(value);
    if (!text.empty()) builder.chat.chat_template = std::move(text);
}

void ignored(const Json&, Builder&) {}

constexpr auto kFields = std::to_array<Field>({
    {"prompt", read_prompt},
    {"prompt_token_ids", [](const Json& v, Builder& b) { b.request.input.prompt = read_ids(v); }},
    {"messages", read_messages_field},
    {"tools", into_chat<kTools, read_anything>},
    {"documents", into_chat<kDocuments, read_anything>},
    {"add_generation_prompt", into_chat<kAddGenerationPrompt, read_bool>},
    {"continue_final_message", into_chat<kContinueFinalMessage, read_bool>},
    {"reasoning_effort", into_chat<kReasoningEffort, read_string>},
    {"chat_template", read_chat_template},
    {"chat_template_kwargs", read_template_kwargs},
    {"max_tokens", into<&SamplingParams::max_tokens, read_int32>},
    {"max_completion_tokens", into<&SamplingParams::max_tokens, read_int32>},
    {"temperature", into<&SamplingParams::temperature, read_float>},
    {"top_k", into<&SamplingParams::top_k, read_top_k>},
    {"top_p", into<&SamplingParams::top_p, read_float>},
    {"min_p", into<&SamplingParams::min_p, read_float>},
    {"typical_p", into<&SamplingParams::typical_p, read_float>},
    {"top_n_sigma", into<&SamplingParams::top_n_sigma, read_float>},
    {"top_h", into<&SamplingParams::top_h, read_float>},
    {"epsilon_cutoff", into<&SamplingParams::epsilon_cutoff, read_float>},
    {"eta_cutoff", into<&SamplingParams::eta_cutoff, read_float>},
    {"samplers", into<&SamplingParams::sampler_order, read_strings>},
    {"allowed_token_ids", into<&SamplingParams::allowed_token_ids, read_ids>},
    {"bad_words", [](const Json& v, Builder& b) { b.request.input.bad_words = read_strings(v); }},
    {"no_repeat_ngram_size", into<&SamplingParams::no_repeat_ngram_size, read_int32>},
    {"suppress_tokens", into<&SamplingParams::suppress_tokens, read_ids>},
    {"begin_suppress_tokens", into<&SamplingParams::begin_suppress_tokens, read_ids>},
    {"forced_bos_token_id", into<&SamplingParams::forced_bos_token_id, read_int32>},
    {"forced_eos_token_id", into<&SamplingParams::forced_eos_token_ids, read_id_or_ids>},
    {"exponential_decay_length_penalty", into<&SamplingParams::end_boost, read_end_boost>},
    {"repetition_penalty", into<&SamplingParams::repetition_penalty, read_float>},
    {"presence_penalty", into<&SamplingParams::presence_penalty, read_float>},
    {"frequency_penalty", into<&SamplingParams::frequency_penalty, read_float>},
    {"logit_bias", into<&SamplingParams::logit_bias, read_logit_bias>},
    {"min_tokens", into<&SamplingParams::min_tokens, read_int32>},
    {"min_length", into<&SamplingParams::min_length, read_int32>},
    {"ignore_eos", into<&SamplingParams::ignore_eos, read_bool>},
    {"stop", into<&SamplingParams::stop, read_stop>},
    {"stop_token_ids", into<&SamplingParams::stop_token_ids, read_ids>},
    {"include_stop_str_in_output", into<&SamplingParams::include_stop_in_output, read_bool>},
    {"skip_special_tokens", into<&SamplingParams::skip_special_tokens, read_bool>},
    {"logprobs", [](const Json& v, Builder& b) { read_logprobs(v, b.request.input.sampling); }},
    {"top_logprobs", into<&SamplingParams::logprobs, read_int32>},
    {"prompt_logprobs", into<&SamplingParams::prompt_logprobs, read_int32>},
    {"n", into<&SamplingParams::n, read_int32>},
    {"best_of", into<&SamplingParams::best_of, read_int32>},
    {"use_beam_search", into<&SamplingParams::use_beam_search, read_bool>},
    {"length_penalty", into<&SamplingParams::length_penalty, read_float>},
    {"early_stopping", into<&SamplingParams::early_stopping, read_early_stopping>},
    {"seed",
     [](const Json& v, Builder& b) {
         b.request.input.sampling.seed =
             static_cast<uint64_t>(read_integer(v, std::numeric_limits<int64_t>::min(), INT64_MAX));
     }},
    {"cache_salt", [](const Json& v, Builder& b) { b.request.input.cache_salt = read_string(v); }},
    {"priority", [](const Json& v, Builder& b) { b.request.input.priority = read_int32(v); }},
    {"truncate_prompt_tokens",
     [](const Json& v, Builder& b) {
         b.request.input.truncate_prompt_tokens =
             static_cast<int32_t>(read_integer(v, -1, std::numeric_limits<int32_t>::max()));
     }},
    // What says who asks or how to answer, not what to generate.
    {"model", ignored},
    {"user", ignored},
    {"metadata", ignored},
    {"stream", ignored},
    {"stream_options", ignored},
});

Fault fault(std::string message, std::string field = {}) {
    return Fault{ErrorKind::bad_data, std::move(message), std::move(field)};
}

Fault unknown_field(const std::string& name) {
    const auto nearest = nearest_name(name, request_fields());
    return fault(fmt::format("unknown field '{}'{}", name,
                             nearest ? fmt::format("; did you mean '{}'?", *nearest) : ""),
                 name);
}

const Field* find_field(std::string_view name) {
    for (const Field& field : kFields) {
        if (name == field.name) return &field;
    }
    return nullptr;
}

std::optional<Fault> read_fields(const Json& object, Builder& builder) {
    for (const auto& [name, value] : object.items()) {
        const Field* field = find_field(name);
        if (field == nullptr) return unknown_field(name);
        if (value.is_null()) continue;
        try {
            field->read(value, builder);
        } catch (const WrongField& wrong) {
            return fault(fmt::format("'{}' must be {}", name, wrong.expected), name);
        }
        if (builder.fault) return builder.fault;
    }
    return std::nullopt;
}

// Null counts as absent.
bool has(const Json& object, const char* name) {
    return object.contains(name) && !object[name].is_null();
}

std::optional<Fault> check_prompt_fields(const Json& object) {
    int given = 0;
    for (const char* name : {"prompt", "prompt_token_ids", "messages"}) given += has(object, name);
    if (given == 1) return std::nullopt;
    return fault(given == 0
                     ? "one of 'prompt', 'prompt_token_ids' and 'messages' is needed"
                     : "only one of 'prompt', 'prompt_token_ids' and 'messages' may be given");
}

// What a template alone would read.
std::string first_of_chats(const Conversation& chat) {
    if (chat.chat_template) return "chat_template";
    return chat.variables.empty() ? "" : chat.variables.begin().key();
}

}  // namespace

std::vector<std::string_view> request_fields() {
    std::vector<std::string_view> names;
    for (const Field& field : kFields) names.emplace_back(field.name);
    return names;
}

Result<JsonRequest> request_from_json(const Json& object, const SamplingParams& defaults,
                                      size_t max_messages) {
    if (!object.is_object()) return fault("a request is a JSON object");
    if (object.contains("custom_id") && object.contains("body")) {
        if (!object["custom_id"].is_string()) return fault("'custom_id' must be a string");
        auto request = request_from_json(object["body"], defaults, max_messages);
        if (request) request->custom_id = object["custom_id"].get<std::string>();
        return request;
    }
    Builder builder;
    builder.request.input.sampling = defaults;
    builder.max_messages = max_messages;
    if (auto wrong = check_prompt_fields(object)) return *wrong;
    if (auto wrong = read_fields(object, builder)) return *wrong;
    // The model's own default is no demand: a short answer may be asked for.
    SamplingParams& sampling = builder.request.input.sampling;
    if (!has(object, "min_tokens")) {
        sampling.min_tokens =
            std::min(sampling.min_tokens, sampling.max_tokens.value_or(INT32_MAX));
    }
    if (has(object, "messages")) {
        builder.request.input.prompt =
            std::make_shared<const Conversation>(std::move(builder.chat));
    } else if (const std::string name = first_of_chats(builder.chat); !name.empty()) {
        return fault(fmt::format("'{}' is for 'messages': a plain prompt has no template", name),
                     name);
    }
    return std::move(builder.request);
}

Result<JsonRequest> request_from_json_text(const std::string& text,
                                           const SamplingParams& defaults) {
    try {
        return request_from_json(parse_ordered_json(text, "request"), defaults);
    } catch (const Error& error) {
        return Fault{error.kind(), error.what()};
    }
}

}  // namespace nvllm
