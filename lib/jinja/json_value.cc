// Texts from outside are repaired to UTF-8 and marked on the way in.
#include "lib/jinja/json_value.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "lib/base/utf8.h"

namespace nvllm::chat {
namespace {

using Json = nlohmann::ordered_json;

// Roles are words of the format: templates build special tokens from them ("<|user|>").
constexpr std::array<std::string_view, 14> kRoles = {
    "system", "developer",   "user",    "assistant", "tool",          "function", "ipython",
    "model",  "observation", "context", "documents", "tool_response", "tools",    "environment"};

bool is_usual_role(std::string_view role) {
    return std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end();
}

Value dict_of(const Json& json, bool marked) {
    Dict dict;
    for (const auto& [key, entry] : json.items()) {
        const bool role = key == "role" && entry.is_string() &&
                          is_usual_role(entry.get_ref<const std::string&>());
        dict.set(Value::text(TrackedText(utf8::with_replacement(key), marked)),
                 value_of_json(entry, marked && !role));
    }
    return make_dict(std::move(dict));
}

}  // namespace

Value value_of_json(const Json& json, bool marked) {
    switch (json.type()) {
        case Json::value_t::boolean:
            return Value::boolean(json.get<bool>());
        case Json::value_t::number_integer:
            return Value::integer(json.get<int64_t>());
        case Json::value_t::number_unsigned: {
            const auto number = json.get<uint64_t>();
            if (number > uint64_t{INT64_MAX}) return Value::real(static_cast<double>(number));
            return Value::integer(static_cast<int64_t>(number));
        }
        case Json::value_t::number_float:
            return Value::real(json.get<double>());
        case Json::value_t::string:
            return Value::text(
                TrackedText(utf8::with_replacement(json.get_ref<const std::string&>()), marked));
        case Json::value_t::array: {
            std::vector<Value> items;
            for (const Json& item : json) items.push_back(value_of_json(item, marked));
            return Value::list(std::move(items));
        }
        case Json::value_t::object:
            return dict_of(json, marked);
        default:
            return Value::none();
    }
}

}  // namespace nvllm::chat
