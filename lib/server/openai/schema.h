// Pieces of JSON Schema, as OpenAPI 3.1 takes them. Included only by what writes such documents.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

namespace nvllm::server::schema {

using Json = nlohmann::ordered_json;

Json anything();
Json text();
Json boolean();
Json number();
Json number(float min, float max, bool excludes_min = false);
// At least `min`, without an upper bound.
Json integer(int64_t min = std::numeric_limits<int64_t>::min());
Json integer(int64_t min, int64_t max);
// One of these values, of any type.
Json values(std::vector<Json> allowed);
Json list(Json item, std::optional<size_t> max = std::nullopt, size_t min = 0);
Json any_of(std::vector<Json> alternatives);
Json or_null(Json schema);
// "#/components/schemas/<name>"
Json reference(std::string_view name);

struct Property {
    std::string_view name;
    Json schema;
    bool is_required = true;
};
// Other properties are allowed.
Json object(std::vector<Property> properties = {});
// Any keys, all with such values.
Json map_of(Json value);

}  // namespace nvllm::server::schema
