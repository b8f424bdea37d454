// How each type of a response's fields is written as JSON, and what its JSON Schema says: side by
// side, for the types of response_types.h. Included only by what writes responses or their schemas.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <concepts>

#include "lib/base/json.h"
#include "lib/server/openai/response_types.h"
#include "lib/server/openai/schema.h"

namespace nvllm::server {

// write() appends the value to `out`; schema() describes all values of the type.
template <typename T>
struct JsonOf;

// The schema of a type with fields where it stands for itself.
template <typename T>
schema::Json object_schema();

// A whole response.
template <typename T>
std::string json_of(const T& answer) {
    std::string json;
    JsonOf<T>::write(json, answer);
    return json;
}

template <>
struct JsonOf<std::string_view> {
    static void write(std::string& out, std::string_view text) { out += json_quoted(text); }
    static schema::Json schema() { return schema::text(); }
};
template <>
struct JsonOf<std::string> : JsonOf<std::string_view> {};

template <>
struct JsonOf<bool> {
    static void write(std::string& out, bool value) { out += value ? "true" : "false"; }
    static schema::Json schema() { return schema::boolean(); }
};

template <std::integral T>
struct JsonOf<T> {
    static void write(std::string& out, T value) {
        fmt::format_to(std::back_inserter(out), "{}", static_cast<int64_t>(value));
    }
    // int32_t: a token id or a rank; wider ones count.
    static schema::Json schema() {
        if constexpr (std::same_as<T, uint8_t>) return schema::integer(0, 255);
        if constexpr (std::same_as<T, int32_t>) return schema::integer();
        return schema::integer(0);
    }
};

template <std::floating_point T>
struct JsonOf<T> {
    static void write(std::string& out, T value) { out += json_number(value); }
    static schema::Json schema() { return schema::number(); }
};

template <>
struct JsonOf<Logprob> {
    static constexpr float kLowest = -9999.0f;
    static void write(std::string& out, const Logprob& one) {
        out += json_number(std::isfinite(one.value) ? std::max(one.value, kLowest) : kLowest);
    }
    static schema::Json schema() { return schema::number(); }
};

template <Word kWord>
struct JsonOf<Constant<kWord>> {
    static void write(std::string& out, const Constant<kWord>& word) {
        out += json_quoted(word.text());
    }
    static schema::Json schema() { return schema::values({schema::Json(kWord.text)}); }
};

template <typename T>
struct JsonOf<std::optional<T>> {
    static void write(std::string& out, const std::optional<T>& value) {
        if (value) {
            JsonOf<T>::write(out, *value);
        } else {
            out += "null";
        }
    }
    static schema::Json schema() { return schema::or_null(JsonOf<T>::schema()); }
};

template <typename... Ts>
struct JsonOf<std::variant<Ts...>> {
    static void write(std::string& out, const std::variant<Ts...>& value) {
        std::visit([&]<typename T>(const T& one) { JsonOf<T>::write(out, one); }, value);
    }
    static schema::Json schema() { return schema::any_of({JsonOf<Ts>::schema()...}); }
};

template <typename T>
struct JsonOf<std::span<const T>> {
    static void write(std::string& out, std::span<const T> list) {
        out += '[';
        for (size_t i = 0; i < list.size(); ++i) {
            if (i > 0) out += ',';
            JsonOf<T>::write(out, list[i]);
        }
        out += ']';
    }
    static schema::Json schema() { return schema::list(JsonOf<T>::schema()); }
};
template <typename T>
struct JsonOf<std::vector<T>> : JsonOf<std::span<const T>> {};

template <typename T>
struct JsonOf<std::vector<std::pair<std::string, T>>> {
    static void write(std::string& out, const Keyed<T>& entries) {
        out += '{';
        for (size_t i = 0; i < entries.size(); ++i) {
            if (i > 0) out += ',';
            out += json_quoted(entries[i].first);
            out += ':';
            JsonOf<T>::write(out, entries[i].second);
        }
        out += '}';
    }
    static schema::Json schema() { return schema::map_of(JsonOf<T>::schema()); }
};

template <typename T>
struct JsonOf<Written<T>> {
    static void write(std::string& out, const Written<T>& written) { out += written.json; }
    static schema::Json schema() { return JsonOf<T>::schema(); }
};

// Writes the fields it is shown, one after the other.
struct FieldWriter {
    std::string& out;
    bool is_first = true;

    template <typename T>
    void operator()(std::string_view name, const T& value) {
        out += is_first ? "{\"" : ",\"";
        is_first = false;
        out.append(name).append("\":");
        JsonOf<T>::write(out, value);
    }
    template <typename T>
    void operator()(std::string_view name, const Maybe<T>& value) {
        if (value) (*this)(name, *value);
    }
};

// Notes down what the fields it is shown can be.
struct FieldDescriber {
    std::vector<schema::Property> properties = {};

    template <typename T>
    void operator()(std::string_view name, const T&) {
        properties.push_back({name, JsonOf<T>::schema(), true});
    }
    template <typename T>
    void operator()(std::string_view name, const Maybe<T>&) {
        properties.push_back({name, JsonOf<T>::schema(), false});
    }
};

template <typename T>
concept HasFields = requires(const T& value, FieldWriter& visit) {
    value.fields(visit);
};

// One that has a name of its own is referred to by it.
template <HasFields T>
struct JsonOf<T> {
    static void write(std::string& out, const T& value) {
        FieldWriter writer{out};
        value.fields(writer);
        out += writer.is_first ? "{}" : "}";
    }
    static schema::Json schema() {
        if constexpr (requires { T::kName; }) {
            return schema::reference(T::kName);
        } else {
            return object_schema<T>();
        }
    }
};

template <typename T>
schema::Json object_schema() {
    FieldDescriber describer;
    T{}.fields(describer);
    return schema::object(std::move(describer.properties));
}

// The schemas of types by their names, for #/components/schemas.
template <typename... Types>
schema::Json named_schemas() {
    schema::Json all = schema::Json::object();
    ((all[Types::kName] = object_schema<Types>()), ...);
    return all;
}

}  // namespace nvllm::server
