// An item's id holds that of its response: "fc_ID_2" is of "resp_ID".
#include "lib/server/responses/item_references.h"

#include <fmt/format.h>

#include <map>

#include "lib/base/json.h"
#include "lib/server/openai/parameters.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

bool is_reference(const Json& item) {
    if (!item.is_object()) return false;
    const Json type = item.value("type", Json());
    return type == Json("item_reference") ||
           (type.is_null() && item.contains("id") && !item.contains("role"));
}

// Of the response that made the item; empty if the id is none that this server gives.
std::string response_id_of(const std::string& item_id) {
    const size_t first = item_id.find('_');
    const size_t last = item_id.rfind('_');
    if (first == last) return {};
    return "resp_" + item_id.substr(first + 1, last - first - 1);
}

class Resolver {
  public:
    Resolver(const std::string& owner, ResponseStore& store) : owner_(owner), store_(store) {}

    // Null: not there.
    Json find(const std::string& item_id) {
        for (const Json& item : items_of(response_id_of(item_id))) {
            if (item["id"] == item_id) return item;
        }
        return nullptr;
    }

  private:
    // Many references name items of one response: it is read once.
    const Json& items_of(const std::string& response_id) {
        const auto [place, is_new] = items_.try_emplace(response_id, Json::array());
        if (!is_new) return place->second;
        const auto stored = store_.find(owner_, response_id);
        if (stored != nullptr)
            place->second = parse_ordered_json(stored->body, "stored response")["output"];
        return place->second;
    }

    const std::string& owner_;
    ResponseStore& store_;
    std::map<std::string, Json> items_;
};

Fault not_found(const std::string& field, const std::string& id) {
    Fault fault = field_fault(
        field, fmt::format("names the item '{}', which is not kept here: send the item itself",
                           id.substr(0, 128)));
    fault.code = "item_not_found";
    return fault;
}

}  // namespace

std::optional<Fault> resolve_item_references(Json& input, const std::string& owner,
                                             ResponseStore& store) {
    if (!input.is_array()) return std::nullopt;
    Resolver resolver(owner, store);
    for (size_t i = 0; i < input.size(); ++i) {
        if (!is_reference(input[i])) continue;
        const std::string field = fmt::format("input[{}].id", i);
        const Json id = input[i].value("id", Json());
        if (!id.is_string()) return field_fault(field, "must be the id of an item");
        Json item = resolver.find(id.get<std::string>());
        if (item.is_null()) return not_found(field, id.get<std::string>());
        input[i] = std::move(item);
    }
    return std::nullopt;
}

}  // namespace nvllm::server
