// Reading items: those of one answer become one message of the assistant.
#include "lib/server/responses/input_items.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "lib/server/openai/parameters.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

Fault refused(const std::string& field, const Json& type, const char* why) {
    if (!type.is_string()) return field_fault(field, "must be a text");
    return unsupported_field(
        field, fmt::format("is '{}', but {}", type.get<std::string>().substr(0, 64), why));
}

Json value_of(const Json& object, const char* key) {
    return object.is_object() ? object.value(key, Json()) : Json();
}

// A text, or a list of parts with texts, as one text or as parts.
Result<Json> read_texts(const Json& content, const std::string& position) {
    if (content.is_string()) return content;
    if (!content.is_array()) return field_fault(position, "must be a text or a list of parts");
    constexpr std::array kTexts = {"input_text", "output_text", "text", "summary_text",
                                   "reasoning_text"};
    Json parts = Json::array();
    for (size_t i = 0; i < content.size(); ++i) {
        const std::string at = fmt::format("{}[{}]", position, i);
        const Json type = value_of(content[i], "type");
        const bool is_refusal = type == Json("refusal");
        const bool is_text =
            std::ranges::any_of(kTexts, [&](const char* one) { return type == Json(one); });
        if (!is_text && !is_refusal)
            return refused(at + ".type", type, "this model reads text only");
        const char* key = is_refusal ? "refusal" : "text";
        const Json text = value_of(content[i], key);
        if (!text.is_string()) return field_fault(fmt::format("{}.{}", at, key), "must be a text");
        parts.push_back({{"type", "text"}, {"text", text}});
    }
    if (parts.size() == 1) return Json(parts[0]["text"]);
    return parts;
}

std::string joined(const Json& texts) {
    if (texts.is_string()) return texts.get<std::string>();
    std::string all;
    for (const Json& part : texts) all += part["text"].get<std::string>();
    return all;
}

// The message of the assistant that the last items belong to.
Json& open_answer(Json& messages, bool& is_open) {
    if (!is_open) messages.push_back({{"role", "assistant"}, {"content", nullptr}});
    is_open = true;
    return messages.back();
}

class ItemReader {
  public:
    ItemReader(Json& messages, std::vector<std::string>& ignored)
        : messages_(messages), ignored_(ignored) {}

    std::optional<Fault> read(const Json& item, const std::string& position) {
        const Json type = value_of(item, "type");
        if (type == Json("message") || (type.is_null() && value_of(item, "role").is_string()))
            return message(item, position);
        if (type == Json("function_call")) return call(item, position);
        if (type == Json("function_call_output")) return output(item, position);
        if (type == Json("reasoning")) return reasoning(item, position);
        return refused(position + ".type", type,
                       "only message, function_call, function_call_output and reasoning are read");
    }

  private:
    std::optional<Fault> message(const Json& item, const std::string& position) {
        const Json role = value_of(item, "role");
        if (!role.is_string()) return field_fault(position + ".role", "must be a text");
        auto content = read_texts(value_of(item, "content"), position + ".content");
        if (!content) return content.fault();
        if (role == Json("assistant")) {
            Json& answer = open_answer(messages_, is_open_);
            if (answer.contains("tool_calls") || !answer["content"].is_null()) {
                is_open_ = false;
                open_answer(messages_, is_open_)["content"] = *std::move(content);
            } else {
                answer["content"] = *std::move(content);
            }
            return std::nullopt;
        }
        is_open_ = false;
        messages_.push_back({{"role", role}, {"content", *std::move(content)}});
        return std::nullopt;
    }

    std::optional<Fault> call(const Json& item, const std::string& position) {
        for (const char* key : {"call_id", "name", "arguments"}) {
            if (!value_of(item, key).is_string())
                return field_fault(fmt::format("{}.{}", position, key), "must be a text");
        }
        Json& answer = open_answer(messages_, is_open_);
        answer["tool_calls"].push_back(
            {{"id", item["call_id"]},
             {"type", "function"},
             {"function", {{"name", item["name"]}, {"arguments", item["arguments"]}}}});
        return std::nullopt;
    }

    std::optional<Fault> output(const Json& item, const std::string& position) {
        if (!value_of(item, "call_id").is_string())
            return field_fault(position + ".call_id", "must be the id of a call");
        auto text = read_texts(value_of(item, "output"), position + ".output");
        if (!text) return text.fault();
        is_open_ = false;
        messages_.push_back(
            {{"role", "tool"}, {"tool_call_id", item["call_id"]}, {"content", *std::move(text)}});
        return std::nullopt;
    }

    // The text itself where it is there, else its summary.
    std::optional<Fault> reasoning(const Json& item, const std::string& position) {
        name_others(item, {"type", "id", "status", "content", "summary"}, position, ignored_);
        for (const char* key : {"content", "summary"}) {
            const Json parts = value_of(item, key);
            if (parts.is_null() || (parts.is_array() && parts.empty())) continue;
            auto texts = read_texts(parts, fmt::format("{}.{}", position, key));
            if (!texts) return texts.fault();
            is_open_ = false;
            open_answer(messages_, is_open_)["reasoning_content"] = joined(*texts);
            return std::nullopt;
        }
        return std::nullopt;
    }

    Json& messages_;
    std::vector<std::string>& ignored_;
    bool is_open_ = false;
};

}  // namespace

std::optional<Fault> add_input(const Json& input, const RequestLimits& limits, Json& messages,
                               std::vector<std::string>& ignored) {
    if (input.is_string()) {
        messages.push_back({{"role", "user"}, {"content", input}});
        return std::nullopt;
    }
    if (!input.is_array()) return field_fault("input", "must be a text or a list of items");
    if (input.size() > static_cast<size_t>(limits.max_messages)) {
        return field_fault("input", fmt::format("has {} entries; it must have at most {}",
                                                input.size(), limits.max_messages));
    }
    ItemReader reader(messages, ignored);
    for (size_t i = 0; i < input.size(); ++i) {
        if (auto fault = reader.read(input[i], fmt::format("input[{}]", i))) return fault;
    }
    return std::nullopt;
}

Result<Json> function_of_response_tool(const Json& tool, const std::string& position,
                                       std::vector<std::string>& ignored) {
    const Json type = value_of(tool, "type");
    if (type != Json("function"))
        return refused(position + ".type", type, "only functions can be called here");
    if (!value_of(tool, "name").is_string())
        return field_fault(position + ".name", "must be the name of the function");
    name_others(tool, {"type", "name", "description", "parameters", "strict"}, position, ignored);
    Json function = Json::object();
    for (const char* key : {"name", "description", "parameters", "strict"}) {
        if (const Json value = value_of(tool, key); !value.is_null()) function[key] = value;
    }
    return Json{{"type", "function"}, {"function", std::move(function)}};
}

}  // namespace nvllm::server
