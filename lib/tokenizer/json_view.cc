// Reading fields of a JSON document, with messages that say which field is wrong.
#include "lib/tokenizer/json_view.h"

#include "kernels/error.h"

namespace nvllm {

JsonLimits json_file_limits() {
    JsonLimits limits;
    limits.max_depth = 256;
    limits.max_bytes = size_t{512} << 20;
    limits.allow_duplicate_keys = true;
    return limits;
}

nlohmann::json parse_json_file_text(std::string_view text, const std::string& source,
                                    std::span<const JsonStream> streams) {
    return parse_json(text, source, json_file_limits(), streams);
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
    if (!value_->is_boolean())
        fail(std::string("should be true or false, is ") + value_->type_name());
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
