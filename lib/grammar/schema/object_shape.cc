#include <algorithm>
#include <set>

#include "lib/base/json.h"
#include "lib/grammar/schema/pattern.h"
#include "lib/grammar/schema/schema_shapes.h"

namespace nvllm {
namespace {

const SchemaJson* keyword(const SchemaJson* node, const char* name) {
    const auto found = node->find(name);
    return found == node->end() ? nullptr : &*found;
}

// The properties that some parts speak of, by name or pattern, and what holds for the others.
struct PropertyLayer {
    std::vector<std::pair<std::string, const SchemaJson*>> named;
    std::vector<std::pair<std::string, const SchemaJson*>> patterns;  // in the engine's words
    const SchemaJson* rest = nullptr;  // none: it says nothing about them
    bool named_elsewhere = false;      // other layers hold what is named here

    const SchemaJson* find(const std::string& name) const {
        const auto found = std::find_if(named.begin(), named.end(),
                                        [&](const auto& each) { return each.first == name; });
        return found == named.end() ? nullptr : found->second;
    }
};

// What begins every text that the pattern matches: "^foo_" begins so.
std::string fixed_beginning(const std::string& pattern) {
    const size_t end = pattern.find_first_not_of(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ ");
    std::string fixed = pattern.substr(0, end);
    const bool repeated =
        end != std::string::npos && std::string_view("*?{").find(pattern[end]) != std::string::npos;
    if (repeated && !fixed.empty()) fixed.pop_back();
    return pattern.find('|') == std::string::npos ? fixed : "";
}

bool begin_apart(const std::string& first, const std::string& second) {
    const std::string a = fixed_beginning(first), b = fixed_beginning(second);
    return a.substr(0, b.size()) != b.substr(0, a.size());
}

class ObjectWriter {
  public:
    explicit ObjectWriter(const ShapeContext& context) : context_(context) {}

    std::optional<SchemaJson> write() {
        for (const SchemaPart& part : context_.held.parts) {
            layers_.push_back(layer_of(part.node));
            add_counts(part.node);
        }
        const size_t own = layers_.size();
        for (size_t i = 0; i < own; ++i) add_unevaluated(i);
        collect_names();
        write_rest();
        if (!write_named()) return std::nullopt;
        write_patterns();
        return whole();
    }

  private:
    PropertyLayer layer_of(const SchemaJson* node) {
        PropertyLayer layer;
        if (const SchemaJson* properties = object_keyword(node, "properties"))
            for (const auto& [name, schema] : properties->items())
                layer.named.emplace_back(name, &schema);
        if (const SchemaJson* patterns = object_keyword(node, "patternProperties")) {
            for (const auto& [pattern, schema] : patterns->items()) {
                auto words = engine_pattern(pattern, PatternUse::search);
                if (!words.ok()) context_.document.refuse(node, words.fault().message);
                layer.patterns.emplace_back(*words, &schema);
            }
        }
        layer.rest = keyword(node, "additionalProperties");
        return layer;
    }

    const SchemaJson* object_keyword(const SchemaJson* node, const char* name) const {
        const SchemaJson* value = keyword(node, name);
        if (value != nullptr && !value->is_object())
            context_.document.refuse(node, "\"" + std::string(name) + "\" is an object");
        return value;
    }

    void add_counts(const SchemaJson* node) {
        if (const auto count = count_at(context_, node, "minProperties"))
            least_ = std::max(least_, *count);
        if (const auto count = count_at(context_, node, "maxProperties"))
            most_ = std::min(most_.value_or(*count), *count);
        if (const SchemaJson* names = keyword(node, "propertyNames")) {
            names_.push_back(names);
            names_node_ = node;
        }
        if (const SchemaJson* required = keyword(node, "required")) {
            if (!required->is_array()) context_.document.refuse(node, "\"required\" is a list");
            for (const SchemaJson& name : *required) {
                if (!name.is_string())
                    context_.document.refuse(node, "\"required\" is a list of names");
                required_.insert(name.get<std::string>());
            }
        }
    }

    // "unevaluatedProperties" is about those that no part below has spoken of.
    void add_unevaluated(size_t self) {
        const SchemaJson* rest = keyword(context_.held.parts[self].node, "unevaluatedProperties");
        if (rest == nullptr) return;
        PropertyLayer layer;
        layer.rest = rest;
        for (const size_t below : parts_below(context_.held, self)) {
            const PropertyLayer& other = layers_[below];
            if (other.rest != nullptr) return;
            if (below != self &&
                keyword(context_.held.parts[below].node, "unevaluatedProperties") != nullptr)
                return;
            layer.named.insert(layer.named.end(), other.named.begin(), other.named.end());
            layer.patterns.insert(layer.patterns.end(), other.patterns.begin(),
                                  other.patterns.end());
        }
        layer.named_elsewhere = true;
        layers_.push_back(layer);
    }

    void collect_names() {
        const auto add = [&](const std::string& name) {
            if (std::find(ordered_.begin(), ordered_.end(), name) == ordered_.end())
                ordered_.push_back(name);
        };
        for (const PropertyLayer& layer : layers_)
            for (const auto& [name, schema] : layer.named) add(name);
        for (const std::string& name : required_) add(name);
        if (names_.empty()) return;
        SchemaSet set = names_;
        context_.made.push_back({{"type", "string"}});
        set.push_back(&context_.made.back());
        written_names_ = context_.write(set);
        if (written_names_ && written_names_->contains("enum"))
            for (const SchemaJson& name : written_names_->at("enum")) add(name.get<std::string>());
    }

    bool matches(const std::string& pattern, const std::string& name) const {
        const auto answer =
            context_.values.accepts({{"type", "string"}, {"pattern", pattern}}, SchemaJson(name));
        if (!answer)
            context_.document.refuse(context_.held.parts[0].node,
                                     "it cannot be told which properties a pattern in "
                                     "\"patternProperties\" matches");
        return *answer;
    }

    SchemaSet schemas_of(const std::string& name) const {
        SchemaSet set;
        for (const PropertyLayer& layer : layers_) {
            const SchemaJson* schema = layer.find(name);
            bool spoken_of = schema != nullptr;
            if (schema != nullptr && !layer.named_elsewhere) set.push_back(schema);
            for (const auto& [pattern, each] : layer.patterns) {
                if (!matches(pattern, name)) continue;
                spoken_of = true;
                if (!layer.named_elsewhere) set.push_back(each);
            }
            if (!spoken_of && layer.rest != nullptr) set.push_back(layer.rest);
        }
        return set;
    }

    bool is_absent(const std::string& name) const {
        const auto& absent = context_.held.extras.absent;
        if (std::find(absent.begin(), absent.end(), name) != absent.end()) return true;
        if (names_.empty()) return false;
        if (!written_names_) return true;
        const auto allowed = context_.values.accepts(*written_names_, SchemaJson(name));
        if (!allowed)
            context_.document.refuse(
                names_node_,
                "it cannot be told whether \"propertyNames\" allows " + json_quoted(name));
        return !*allowed;
    }

    // False: a property that must be there cannot be.
    bool write_named() {
        for (const std::string& name : ordered_) {
            std::optional<SchemaJson> written;
            if (!is_absent(name)) written = context_.write(schemas_of(name));
            if (!written) {
                if (required_.contains(name)) return false;
                closes_ = true;
                continue;
            }
            properties_[name] = std::move(*written);
        }
        for (const std::string& name : context_.held.extras.absent)
            if (!properties_.contains(name)) closes_ = true;
        return true;
    }

    void write_rest() {
        SchemaSet set;
        for (const PropertyLayer& layer : layers_)
            if (layer.rest != nullptr) set.push_back(layer.rest);
        rest_ = context_.write(set);
    }

    // Properties by pattern alone are allowed beside named ones: the engine cannot keep others from
    // being written that a pattern matches.
    void write_patterns() {
        std::vector<std::string> distinct;
        for (const PropertyLayer& layer : layers_)
            for (const auto& [pattern, schema] : layer.patterns)
                if (std::find(distinct.begin(), distinct.end(), pattern) == distinct.end())
                    distinct.push_back(pattern);
        if (distinct.empty()) return;
        closes_ = true;
        const SchemaJson* node = context_.held.parts[0].node;
        for (const std::string& pattern : distinct) {
            SchemaSet set;
            for (const PropertyLayer& layer : layers_) {
                bool spoken_of = false;
                for (const auto& [mine, schema] : layer.patterns) {
                    if (mine != pattern) continue;
                    spoken_of = true;
                    if (!layer.named_elsewhere) set.push_back(schema);
                }
                if (!spoken_of && layer.rest != nullptr) set.push_back(layer.rest);
            }
            if (const auto written = context_.write(set)) patterns_[pattern] = *written;
        }
        if (!names_.empty())
            context_.document.refuse(
                names_node_, "\"propertyNames\" beside \"patternProperties\" is not supported");
        for (size_t i = 0; i < distinct.size(); ++i)
            for (size_t j = i + 1; j < distinct.size(); ++j)
                if (!same_or_apart(distinct[i], distinct[j]))
                    context_.document.refuse(node,
                                             "\"patternProperties\" that one name could match two "
                                             "of are not supported");
        drop_named_patterns(node);
    }

    bool same_or_apart(const std::string& first, const std::string& second) const {
        const auto one = patterns_.find(first), other = patterns_.find(second);
        if (one != patterns_.end() && other != patterns_.end() && *one == *other) return true;
        return begin_apart(first, second);
    }

    // A name that a pattern matches too could be written by the pattern's rule alone.
    void drop_named_patterns(const SchemaJson* node) const {
        for (const auto& [pattern, written] : patterns_.items())
            for (const auto& [name, schema] : properties_.items())
                if (matches(pattern, name) && schema != written)
                    context_.document.refuse(node, "the property " + json_quoted(name) +
                                                       ", which \"patternProperties\" matches as "
                                                       "well, is not supported");
    }

    std::optional<SchemaJson> whole() {
        if (closes_) rest_ = std::nullopt;
        const bool has_names = !names_.empty() && rest_.has_value();
        SchemaJson shape = {{"type", "object"}};
        if (has_names && (!properties_.empty() || written_names_->contains("enum"))) {
            rest_ = std::nullopt;
        } else if (has_names) {
            shape["propertyNames"] = *written_names_;
        }
        if (!names_.empty() && !written_names_) rest_ = std::nullopt;
        const auto named = static_cast<int64_t>(properties_.size());
        const auto required = static_cast<int64_t>(required_.size());
        if (most_ && *most_ < std::max(required, least_)) return std::nullopt;
        if (!rest_ && patterns_.empty() && least_ > named) return std::nullopt;
        if (!properties_.empty()) shape["properties"] = properties_;
        if (!required_.empty())
            shape["required"] = std::vector<std::string>(required_.begin(), required_.end());
        if (!patterns_.empty()) shape["patternProperties"] = patterns_;
        if (!rest_) {
            shape["additionalProperties"] = false;
        } else if (!rest_->empty()) {
            shape["additionalProperties"] = *rest_;
        }
        if (least_ > required) shape["minProperties"] = least_;
        if (most_) shape["maxProperties"] = *most_;
        return shape;
    }

    const ShapeContext& context_;
    std::vector<PropertyLayer> layers_;
    std::vector<std::string> ordered_;
    std::set<std::string> required_;
    SchemaSet names_;  // "propertyNames"
    const SchemaJson* names_node_ = nullptr;
    std::optional<SchemaJson> written_names_;
    SchemaJson properties_ = SchemaJson::object();
    SchemaJson patterns_ = SchemaJson::object();
    std::optional<SchemaJson> rest_;  // nothing: there are no others
    bool closes_ = false;
    int64_t least_ = 0;
    std::optional<int64_t> most_;
};

}  // namespace

std::optional<SchemaJson> object_shape(const ShapeContext& context) {
    return ObjectWriter(context).write();
}

}  // namespace nvllm
