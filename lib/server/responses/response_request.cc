// Writes the body as one of a chat, and reads that.
#include "lib/server/responses/response_request.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/json.h"
#include "lib/server/openai/parameters.h"
#include "lib/server/responses/input_items.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

// Fields that both know, under the name of a chat.
constexpr std::pair<const char*, const char*> kSame[] = {
    {"model", "model"},
    {"max_output_tokens", "max_tokens"},
    {"temperature", "temperature"},
    {"top_p", "top_p"},
    {"stream", "stream"},
    {"parallel_tool_calls", "parallel_tool_calls"},
    {"chat_template_kwargs", "chat_template_kwargs"}};

class Reader {
  public:
    Reader(Json body, const RequestLimits& limits, ResponseSettings& settings,
           std::vector<std::string>& ignored)
        : body_(std::move(body)), limits_(limits), settings_(settings), ignored_(ignored) {}

    // The body of a chat.
    Result<Json> read(Json earlier) {
        for (const auto part :
             {&Reader::read_store, &Reader::read_metadata, &Reader::read_instructions,
              &Reader::read_tools, &Reader::read_choice, &Reader::read_text,
              &Reader::read_reasoning, &Reader::read_refused}) {
            if (auto fault = (this->*part)()) return *fault;
        }
        if (auto fault = read_input(std::move(earlier))) return *fault;
        for (const auto& [name, name_of_chat] : kSame) {
            if (Json value = take_member(body_, name); !value.is_null())
                chat_[name_of_chat] = std::move(value);
        }
        return std::move(chat_);
    }

  private:
    std::optional<Fault> read_store() {
        const Json store = take_member(body_, "store");
        if (!store.is_null() && !store.is_boolean())
            return field_fault("store", "must be true or false");
        settings_.is_stored = store != Json(false);
        const Json previous = take_member(body_, "previous_response_id");
        if (previous.is_string()) settings_.previous_id = previous.get<std::string>();
        if (previous.is_null() || previous.is_string()) return std::nullopt;
        return field_fault("previous_response_id", "must be a text");
    }

    std::optional<Fault> read_metadata() {
        const Json metadata = take_member(body_, "metadata");
        if (!metadata.is_null() && !metadata.is_object())
            return field_fault("metadata", "must be an object");
        if (!metadata.is_null()) settings_.metadata = write_json(metadata);
        return std::nullopt;
    }

    std::optional<Fault> read_instructions() {
        instructions_ = take_member(body_, "instructions");
        if (!instructions_.is_null() && !instructions_.is_string())
            return field_fault("instructions", "must be a text");
        settings_.instructions = write_json(instructions_);
        return std::nullopt;
    }

    std::optional<Fault> read_tools() {
        const Json tools = take_member(body_, "tools");
        if (tools.is_null()) return std::nullopt;
        if (auto fault = check_tools(tools, limits_)) return fault;
        Json functions = Json::array();
        for (size_t i = 0; i < tools.size(); ++i) {
            auto function =
                function_of_response_tool(tools[i], fmt::format("tools[{}]", i), ignored_);
            if (!function) return function.fault();
            functions.push_back(*std::move(function));
        }
        chat_["tools"] = std::move(functions);
        settings_.tools = write_json(tools);
        return std::nullopt;
    }

    std::optional<Fault> read_choice() {
        const Json choice = take_member(body_, "tool_choice");
        if (choice.is_null()) return std::nullopt;
        chat_["tool_choice"] = choice;
        settings_.tool_choice = write_json(choice);
        return std::nullopt;
    }

    // {"format": {"type": "json_schema", "name": ..., "schema": ...}}
    std::optional<Fault> read_text() {
        const Json text = take_member(body_, "text");
        settings_.text = R"({"format":{"type":"text"}})";
        if (text.is_null()) return std::nullopt;
        if (!text.is_object()) return field_fault("text", "must be an object");
        name_others(text, {"format"}, "text", ignored_);
        const Json format = text.value("format", Json());
        if (format.is_null()) return std::nullopt;
        const Json type = format.is_object() ? format.value("type", Json()) : Json();
        if (type == Json("json_schema")) {
            Json schema = format;
            schema.erase("type");
            chat_["response_format"] = {{"type", type}, {"json_schema", std::move(schema)}};
        } else if (type == Json("json_object")) {
            chat_["response_format"] = format;
        } else if (type != Json("text")) {
            return field_fault("text.format.type", "must be text, json_object or json_schema");
        }
        settings_.text = write_json(text);
        return std::nullopt;
    }

    std::optional<Fault> read_reasoning() {
        const Json reasoning = take_member(body_, "reasoning");
        settings_.reasoning = R"({"effort":null,"summary":null})";
        if (reasoning.is_null()) return std::nullopt;
        if (!reasoning.is_object()) return field_fault("reasoning", "must be an object");
        if (const Json effort = reasoning.value("effort", Json()); !effort.is_null()) {
            if (!effort.is_string()) return field_fault("reasoning.effort", "must be a text");
            chat_["reasoning_effort"] = effort;
        }
        // Of a summary, too: the reasoning itself is given.
        name_others(reasoning, {"effort"}, "reasoning", ignored_);
        settings_.reasoning = write_json(reasoning);
        return std::nullopt;
    }

    // Values that ask for what there is not.
    std::optional<Fault> read_refused() {
        const Json most = body_.value("max_output_tokens", Json());
        if (!most.is_null() && (!most.is_number_integer() || most < 1))
            return field_fault("max_output_tokens", "must be an integer of at least 1");
        if (take_member(body_, "background") == Json(true))
            return unsupported_field("background",
                                     "cannot be true: a response is made while it is asked for");
        // Nothing is left out of a conversation: one that does not fit is refused, with auto too.
        const Json truncation = take_member(body_, "truncation");
        if (truncation == Json("auto")) {
            ignored_.emplace_back("truncation");
        } else if (!truncation.is_null() && truncation != Json("disabled")) {
            return field_fault("truncation", "must be auto or disabled");
        }
        return std::nullopt;
    }

    std::optional<Fault> read_input(Json earlier) {
        Json messages = earlier.is_array() ? std::move(earlier) : Json::array();
        if (auto fault = add_input(take_member(body_, "input"), limits_, messages, ignored_))
            return fault;
        settings_.messages = write_json(messages);
        if (instructions_.is_string()) {
            const Json first = {{"role", "system"}, {"content", instructions_}};
            messages.insert(messages.begin(), first);
        }
        if (messages.empty()) return field_fault("input", "is empty");
        chat_["messages"] = std::move(messages);
        return std::nullopt;
    }

    Json body_;
    const RequestLimits& limits_;
    ResponseSettings& settings_;
    std::vector<std::string>& ignored_;
    Json instructions_;
    Json chat_ = Json::object();
};

Fault renamed(Fault fault) {
    if (fault.field == "max_tokens") fault.field = "max_output_tokens";
    if (fault.field == "response_format") fault.field = "text.format";
    if (fault.field.starts_with("messages")) fault.field = "input";
    return fault;
}

}  // namespace

Result<ResponseRequest> read_response_request(Json body, Json earlier,
                                              const SamplingParams& defaults,
                                              const RequestLimits& limits) {
    auto ignored = take_idle_fields(body, CallKind::response, limits.is_strict);
    if (!ignored) return ignored.fault();
    ResponseSettings settings;
    auto chat = Reader(std::move(body), limits, settings, *ignored).read(std::move(earlier));
    if (!chat) return chat.fault();
    const bool has_length = chat->contains("max_tokens");
    auto request = read_chat_request(*std::move(chat), defaults, limits);
    if (!request) return renamed(request.fault());
    settings.parallel_tool_calls = request->tool_request.several_calls;
    if (has_length) settings.max_output_tokens = request->inputs.front().sampling.max_tokens;
    request->ignored = *std::move(ignored);
    return ResponseRequest{*std::move(request), std::move(settings)};
}

}  // namespace nvllm::server
