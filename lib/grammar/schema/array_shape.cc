#include <algorithm>

#include "lib/grammar/schema/schema_shapes.h"

namespace nvllm {
namespace {

constexpr int64_t kMaxCount = 1000000;

// The items that one part speaks of: the first ones each by its own schema, the others by `rest`.
struct ItemLayer {
    std::vector<const SchemaJson*> first;
    const SchemaJson* rest = nullptr;  // none: it says nothing about them
    size_t rest_from = 0;
};

const SchemaJson* keyword(const SchemaJson* node, const char* name) {
    const auto found = node->find(name);
    return found == node->end() ? nullptr : &*found;
}

ItemLayer layer_of(const SchemaJson* node) {
    ItemLayer layer;
    const SchemaJson* first = keyword(node, "prefixItems");
    const SchemaJson* items = keyword(node, "items");
    if (first == nullptr && items != nullptr && items->is_array()) {  // up to draft 2019-09
        first = items;
        items = keyword(node, "additionalItems");
    }
    if (first != nullptr && first->is_array())
        for (const SchemaJson& each : *first) layer.first.push_back(&each);
    layer.rest = items;
    layer.rest_from = layer.first.size();
    return layer;
}

class ArrayWriter {
  public:
    explicit ArrayWriter(const ShapeContext& context) : context_(context) {}

    std::optional<SchemaJson> write() {
        for (const SchemaPart& part : context_.held.parts) {
            layers_.push_back(layer_of(part.node));
            add_counts(part.node);
        }
        const size_t own = layers_.size();
        for (size_t i = 0; i < own; ++i) add_unevaluated(i);
        SchemaJson shape = {{"type", "array"}};
        if (!write_items(shape) || least_ > most_.value_or(kMaxCount)) return std::nullopt;
        if (unique_ != nullptr && most_.value_or(2) > 1)
            context_.document.refuse(unique_, "\"uniqueItems\" is not supported");
        if (least_ > 0) shape["minItems"] = least_;
        if (most_) shape["maxItems"] = *most_;
        return shape;
    }

  private:
    void at_most(int64_t count) { most_ = std::min(most_.value_or(count), count); }

    void add_counts(const SchemaJson* node) {
        if (const auto count = count_at(context_, node, "minItems"))
            least_ = std::max(least_, *count);
        if (const auto count = count_at(context_, node, "maxItems")) at_most(*count);
        if (least_ > kMaxCount) context_.document.refuse(node, "\"minItems\" is too large");
        if (const SchemaJson* unique = keyword(node, "uniqueItems");
            unique && *unique == SchemaJson(true))
            unique_ = node;
        const SchemaJson* contained = keyword(node, "contains");
        if (contained == nullptr) return;
        const int64_t least = count_at(context_, node, "minContains").value_or(1);
        const auto most = count_at(context_, node, "maxContains");
        if (least == 0 && !most) return;
        const auto written = context_.write({contained});
        if (!written) {  // no item is one
            if (least > 0) at_most(-1);
        } else if (written->empty()) {  // every item is one
            least_ = std::max(least_, least);
            if (most) at_most(*most);
        } else {
            context_.document.refuse(node, "\"contains\" is not supported");
        }
    }

    // "unevaluatedItems" is about those items that no part below has spoken of.
    void add_unevaluated(size_t self) {
        const SchemaJson* node = context_.held.parts[self].node;
        const SchemaJson* rest = keyword(node, "unevaluatedItems");
        if (rest == nullptr) return;
        size_t from = 0;
        for (const size_t below : parts_below(context_.held, self)) {
            const SchemaJson* other = context_.held.parts[below].node;
            if (layers_[below].rest != nullptr) return;
            if (below != self && keyword(other, "unevaluatedItems") != nullptr) return;
            if (keyword(other, "contains") != nullptr)
                context_.document.refuse(
                    node, "\"unevaluatedItems\" beside \"contains\" is not supported");
            from = std::max(from, layers_[below].first.size());
        }
        ItemLayer layer;
        layer.rest = rest;
        layer.rest_from = from;
        layers_.push_back(layer);
    }

    // False: no array fits.
    bool write_items(SchemaJson& shape) {
        size_t first = 0;
        for (const ItemLayer& layer : layers_)
            first = std::max(first, layer.rest == nullptr ? layer.first.size() : layer.rest_from);
        SchemaJson written_first = SchemaJson::array();
        for (size_t i = 0; i < first && static_cast<int64_t>(i) < most_.value_or(kMaxCount); ++i) {
            SchemaSet set;
            for (const ItemLayer& layer : layers_) {
                if (i < layer.first.size()) {
                    set.push_back(layer.first[i]);
                } else if (layer.rest != nullptr && i >= layer.rest_from) {
                    set.push_back(layer.rest);
                }
            }
            const auto written = context_.write(set);
            if (!written) {
                at_most(static_cast<int64_t>(i));
                break;
            }
            written_first.push_back(*written);
        }
        const auto count = static_cast<int64_t>(written_first.size());
        SchemaSet rest;
        for (const ItemLayer& layer : layers_)
            if (layer.rest != nullptr) rest.push_back(layer.rest);
        std::optional<SchemaJson> written_rest;
        if (most_.value_or(kMaxCount) > count) written_rest = context_.write(rest);
        if (!written_rest) at_most(count);
        if (count > 0) shape["prefixItems"] = std::move(written_first);
        if (!written_rest) {
            shape["items"] = false;
        } else if (!written_rest->empty()) {
            shape["items"] = *written_rest;
        }
        return most_.value_or(0) >= 0;
    }

    const ShapeContext& context_;
    std::vector<ItemLayer> layers_;  // of the parts by number, then of "unevaluatedItems"
    int64_t least_ = 0;
    std::optional<int64_t> most_;
    const SchemaJson* unique_ = nullptr;
};

}  // namespace

std::optional<SchemaJson> array_shape(const ShapeContext& context) {
    return ArrayWriter(context).write();
}

}  // namespace nvllm
