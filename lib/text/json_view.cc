// The depth is counted before parsing, so that no nesting in a file can exhaust the stack later.
#include "lib/text/json_view.h"

#include "kernels/error.h"

namespace nvllm {
namespace {

// The deepest nesting of brackets outside strings; stops counting beyond `limit`.
int nesting(std::string_view text, int limit) {
    int depth = 0;
    int deepest = 0;
    bool in_string = false;
    for (size_t at = 0; at < text.size() && deepest <= limit; ++at) {
        const char c = text[at];
        if (in_string) {
            if (c == '\\') {
                ++at;  // the escaped character cannot end the string
            } else {
                in_string = c != '"';
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            deepest = std::max(deepest, ++depth);
        } else if (c == ']' || c == '}') {
            --depth;
        }
    }
    return deepest;
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& source, int max_depth) {
    if (nesting(text, max_depth) > max_depth) {
        throw Error(ErrorKind::bad_data, source + ": JSON is nested deeper than " +
                                             std::to_string(max_depth) + " levels");
    }
    try {
        return nlohmann::json::parse(text.begin(), text.end());
    } catch (const nlohmann::json::exception& error) {
        throw Error(ErrorKind::bad_data, source + ": not valid JSON: " + error.what());
    }
}

void JsonView::fail(const std::string& why) const {
    throw Error(ErrorKind::bad_data, path_ + ": " + why);
}

JsonView JsonView::at(std::string_view key) const {
    auto found = find(key);
    if (!found) fail("has no \"" + std::string(key) + "\"");
    return *found;
}

std::optional<JsonView> JsonView::find(std::string_view key) const {
    if (!value_->is_object()) fail(std::string("should be an object, is ") + value_->type_name());
    const auto found = value_->find(std::string(key));
    if (found == value_->end() || found->is_null()) return std::nullopt;
    return JsonView(*found, path_ + "." + std::string(key));
}

std::vector<JsonView> JsonView::elements() const {
    if (!value_->is_array()) fail(std::string("should be a list, is ") + value_->type_name());
    std::vector<JsonView> all;
    all.reserve(value_->size());
    for (size_t i = 0; i < value_->size(); ++i) {
        all.emplace_back((*value_)[i], path_ + "[" + std::to_string(i) + "]");
    }
    return all;
}

std::string JsonView::string() const {
    if (!value_->is_string()) fail(std::string("should be a string, is ") + value_->type_name());
    return value_->get<std::string>();
}

bool JsonView::boolean() const {
    if (!value_->is_boolean()) fail(std::string("should be true or false, is ") + value_->type_name());
    return value_->get<bool>();
}

int64_t JsonView::integer() const {
    if (!value_->is_number_integer()) {
        fail(std::string("should be a whole number, is ") + value_->type_name());
    }
    if (value_->is_number_unsigned() && value_->get<uint64_t>() > uint64_t{INT64_MAX}) {
        fail("is too large a number");
    }
    return value_->get<int64_t>();
}

double JsonView::number() const {
    if (!value_->is_number()) fail(std::string("should be a number, is ") + value_->type_name());
    return value_->get<double>();
}

std::string JsonView::string_or(std::string_view key, std::string_view otherwise) const {
    const auto found = find(key);
    return found ? found->string() : std::string(otherwise);
}

bool JsonView::boolean_or(std::string_view key, bool otherwise) const {
    const auto found = find(key);
    return found ? found->boolean() : otherwise;
}

int64_t JsonView::integer_or(std::string_view key, int64_t otherwise) const {
    const auto found = find(key);
    return found ? found->integer() : otherwise;
}

}  // namespace nvllm
