// Checked reads of config fields.
#include "lib/checkpoint/config_fields.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/error.h"
#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

constexpr size_t kMaxListItems = 4096;

// Short values as they stand, long ones by their type.
std::string shown(const nlohmann::json& value) {
    if (value.is_string()) return quoted_for_message(value.get_ref<const std::string&>());
    if (value.is_primitive()) return value.dump();
    return value.is_array() ? "a list" : "an object";
}

}  // namespace

ConfigFields::ConfigFields(const nlohmann::json& object, std::string file_name)
    : object_(object), file_name_(std::move(file_name)) {
    if (!object_.is_object()) {
        throw Error(ErrorKind::bad_data, file_name_ + ": is not a JSON object");
    }
}

const nlohmann::json* ConfigFields::find(const char* key) const {
    asked_->insert(key);
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void ConfigFields::refuse(const char* key, const std::string& what) const {
    const nlohmann::json* value = find(key);
    throw Error(ErrorKind::bad_data,
                fmt::format("{}: \"{}\" is {}; {}", file_name_, key,
                            value == nullptr ? "missing" : shown(*value), what));
}

std::optional<int64_t> ConfigFields::integer(const char* key, int64_t low, int64_t high) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const bool fits = value->is_number_integer() &&
                      (!value->is_number_unsigned() ||
                       value->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) &&
                      value->get<int64_t>() >= low && value->get<int64_t>() <= high;
    if (!fits) refuse(key, fmt::format("a whole number from {} to {} is expected", low, high));
    return value->get<int64_t>();
}

std::optional<double> ConfigFields::number(const char* key, double low, double high) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const double number = value->is_number() ? value->get<double>() : low - 1.0;
    if (!value->is_number() || !(number >= low && number <= high)) {
        refuse(key, fmt::format("a number from {} to {} is expected", low, high));
    }
    return number;
}

std::optional<bool> ConfigFields::boolean(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_boolean()) refuse(key, "true or false is expected");
    return value->get<bool>();
}

std::optional<std::string> ConfigFields::text(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) refuse(key, "a text is expected");
    return value->get<std::string>();
}

std::optional<std::vector<double>> ConfigFields::numbers(const char* key, double low,
                                                         double high) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    const std::string expected =
        fmt::format("a list of numbers from {} to {} is expected", low, high);
    if (!value->is_array() || value->size() > kMaxListItems) refuse(key, expected);
    std::vector<double> items;
    for (const nlohmann::json& item : *value) {
        const double number = item.is_number() ? item.get<double>() : low - 1.0;
        if (!item.is_number() || !(number >= low && number <= high)) refuse(key, expected);
        items.push_back(number);
    }
    return items;
}

std::optional<std::vector<std::string>> ConfigFields::texts(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_array() || value->size() > kMaxListItems)
        refuse(key, "a list of texts is expected");
    std::vector<std::string> items;
    for (const nlohmann::json& item : *value) {
        if (!item.is_string()) refuse(key, "a list of texts is expected");
        items.push_back(item.get<std::string>());
    }
    return items;
}

std::optional<ConfigFields> ConfigFields::object(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_object()) refuse(key, "an object is expected");
    return ConfigFields(*value, file_name_);
}

std::vector<int64_t> ConfigFields::integers(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return {};
    const auto whole = [](const nlohmann::json& item) {
        return item.is_number_integer() &&
               (!item.is_number_unsigned() ||
                item.get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
    };
    if (whole(*value)) return {value->get<int64_t>()};
    if (!value->is_array() || value->size() > kMaxListItems) {
        refuse(key, "a whole number or a list of them is expected");
    }
    std::vector<int64_t> items;
    for (const nlohmann::json& item : *value) {
        if (!whole(item)) refuse(key, "a whole number or a list of them is expected");
        items.push_back(item.get<int64_t>());
    }
    return items;
}

}  // namespace nvllm
