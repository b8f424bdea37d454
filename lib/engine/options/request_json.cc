// The request fields that are not sampling parameters, and how each is read.
#include "lib/engine/options/request_json.h"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lib/base/json.h"
#include "lib/base/option_values.h"
#include "lib/chat/chat_message.h"
#include "lib/engine/options/grammar_json.h"
#include "lib/engine/options/json_values.h"
#include "lib/engine/options/sampling_json.h"

namespace nvllm {
namespace {

using namespace json_values;
using Json = nlohmann::ordered_json;

struct Builder {
    JsonRequest request;
    Conversation chat;
    size_t max_messages = SIZE_MAX;
    std::string grammar_field;   // that the grammar is of
    std::optional<Fault> fault;  // of the messages, which names the position in them
};

struct Field {
    const char* name;
    void (*read)(const Json&, Builder&);
    bool takes_null = false;  // else null counts as absent
};

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
constexpr char kEnableThinking[] = "enable_thinking";

void read_prompt(const Json& value, Builder& builder) {
    if (value.is_string()) {
        builder.request.prompt_text = value.get<std::string>();
        builder.request.input.prompt = builder.request.prompt_text;
    } else if (value.is_array() && (value.empty() || !value[0].is_string())) {
        builder.request.input.prompt = read_ids(value);
    } else {
        throw WrongValue{"one text or one list of token ids: several prompts are several requests"};
    }
}

void read_template_kwargs(const Json& value, Builder& builder) {
    if (!value.is_object()) throw WrongValue{"an object"};
    for (const auto& [key, argument] : value.items()) {
        if (key == "messages" || key == "chat_template") {
            throw WrongValue{"an object without '" + key + "', which is a field of its own"};
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
    {"enable_thinking", into_chat<kEnableThinking, read_bool>},
    {"chat_template", read_chat_template},
    {"chat_template_kwargs", read_template_kwargs},
    {"bad_words", [](const Json& v, Builder& b) { b.request.input.bad_words = read_strings(v); }},
    {"cache_salt", [](const Json& v, Builder& b) { b.request.input.cache_salt = read_string(v); }},
    {"adapter",
     [](const Json& v, Builder& b) { b.request.adapter = v.is_null() ? "" : read_string(v); },
     true},
    {"priority", [](const Json& v, Builder& b) { b.request.input.priority = read_int32(v); }},
    {"speculative", [](const Json& v, Builder& b) { b.request.input.speculative = read_bool(v); }},
    {"truncate_prompt_tokens",
     [](const Json& v, Builder& b) {
         b.request.input.truncate_prompt_tokens =
             static_cast<int32_t>(read_integer(v, -1, std::numeric_limits<int32_t>::max()));
     }},
    // What says who asks or how to answer, not what to generate.
    {"model", [](const Json& v,
                 Builder& b) { b.request.model = v.is_string() ? v.get<std::string>() : ""; }},
    {"user", ignored},
    {"metadata", ignored},
    {"stream", ignored},
    {"stream_options", ignored},
    {"guided_decoding_backend", ignored},
});

Fault fault(std::string message, std::string field = {}) {
    return Fault{ErrorKind::bad_data, std::move(message), std::move(field)};
}

const Field* find_field(std::string_view name) {
    for (const Field& field : kFields) {
        if (name == field.name) return &field;
    }
    return nullptr;
}

const GrammarField* find_grammar_field(std::string_view name) {
    for (const GrammarField& field : grammar_fields()) {
        if (name == field.name) return &field;
    }
    return nullptr;
}

// An answer is held to one thing.
std::optional<Fault> read_grammar(const GrammarField& field, const Json& value, Builder& builder) {
    if (value.is_null()) return std::nullopt;
    builder.request.says_format = true;
    std::optional<GrammarSpec> spec = field.read(value);
    if (!spec) return std::nullopt;
    if (builder.request.input.grammar) {
        return fault(fmt::format("'{}' and '{}' both say what the answer is held to: leave one "
                                 "of them out",
                                 builder.grammar_field, field.name),
                     field.name);
    }
    builder.request.input.grammar = std::move(spec);
    builder.grammar_field = field.name;
    return std::nullopt;
}

std::optional<Fault> read_fields(const Json& object, Builder& builder) {
    for (const auto& [name, value] : object.items()) {
        try {
            if (const Field* field = find_field(name)) {
                if (!value.is_null() || field->takes_null) field->read(value, builder);
            } else if (const GrammarField* of_grammar = find_grammar_field(name)) {
                builder.fault = read_grammar(*of_grammar, value, builder);
            } else if (!read_sampling_field(name, value, builder.request.input.sampling)) {
                return unknown_field(name, request_fields());
            }
        } catch (const WrongValue& wrong) {
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

// Most templates that can leave the thought out know it by another variable than the API.
void leave_out_thinking(Conversation& chat) {
    const auto effort = chat.variables.find(kReasoningEffort);
    const bool is_none = effort != chat.variables.end() && *effort == Json("none");
    if (is_none && !chat.variables.contains(kEnableThinking)) {
        chat.variables[kEnableThinking] = false;
    }
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
    for (const GrammarField& field : grammar_fields()) names.emplace_back(field.name);
    for (const std::string_view name : sampling_field_names()) {
        if (find_field(name) == nullptr) names.push_back(name);
    }
    return names;
}

Fault unknown_field(const std::string& name, std::span<const std::string_view> known) {
    const auto nearest = nearest_name(name, known);
    return fault(fmt::format("unknown field '{}'{}", name,
                             nearest ? fmt::format("; did you mean '{}'?", *nearest) : ""),
                 name);
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
    if (!has(object, "min_tokens")) builder.request.input.sampling.bound_min_tokens();
    if (has(object, "messages")) {
        leave_out_thinking(builder.chat);
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
