// Reads back what was written from a type's field list (lib/server/openai/response_fields.h).
#pragma once

#include <concepts>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/server/openai/response_types.h"

namespace nvllm::server {

// Throws nlohmann's exceptions for what has another type: callers take those as a broken record.
class RecordReader {
  public:
    explicit RecordReader(const nlohmann::ordered_json& json) : json_(json) {}

    template <typename T>
    void operator()(std::string_view name, T& value) {
        read(json_.at(std::string(name)), value);
    }

    template <typename T>
    static T whole(const nlohmann::ordered_json& json) {
        T value;
        read(json, value);
        return value;
    }

  private:
    using Json = nlohmann::ordered_json;

    template <typename T>
    static void read(const Json& json, T& value) {
        if constexpr (requires(RecordReader & reader) { T::each(value, reader); }) {
            RecordReader reader(json);
            T::each(value, reader);
        } else {
            json.get_to(value);
        }
    }
    template <Word kWord>
    static void read(const Json&, Constant<kWord>&) {}
    template <typename T>
    static void read(const Json& json, std::optional<T>& value) {
        value.reset();
        if (!json.is_null()) read(json, value.emplace());
    }
    template <typename T>
    static void read(const Json& json, std::vector<T>& values) {
        for (const Json& item : json) read(item, values.emplace_back());
    }
    static void read(const Json& json, Keyed<std::string>& entries) {
        for (const auto& [key, item] : json.items()) {
            entries.emplace_back(key, item.template get<std::string>());
        }
    }

    const Json& json_;
};

}  // namespace nvllm::server
