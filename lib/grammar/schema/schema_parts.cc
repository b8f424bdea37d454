#include "lib/grammar/schema/schema_parts.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "lib/base/json.h"

namespace nvllm {
namespace {

constexpr size_t kMaxCases = 200;
constexpr size_t kMaxParts = 2000;  // of one case

// They describe, or are read where they are referred to.
constexpr std::string_view kDescriptions[] = {
    "$anchor",  "$comment",    "$defs",           "$dynamicAnchor",   "$id",
    "$schema",  "$vocabulary", "contentEncoding", "contentMediaType", "contentSchema",
    "default",  "definitions", "deprecated",      "description",      "examples",
    "readOnly", "title",       "writeOnly"};

struct Choice {
    std::vector<SchemaBranch> branches;
    int parent = -1;
};

// A case that is not finished.
struct Open {
    std::vector<SchemaPart> pending;
    std::vector<Choice> choices;
    SchemaCase done;
};

class CaseFinder {
  public:
    CaseFinder(const SchemaDocument& document, std::deque<SchemaJson>& made,
               const TellApart& tell_apart)
        : document_(document), made_(made), tell_apart_(tell_apart) {}

    std::vector<SchemaCase> find(const SchemaSet& set) {
        Open open;
        for (const SchemaJson* node : set) open.pending.push_back({node, -1});
        go_on(std::move(open));
        return std::move(cases_);
    }

  private:
    void go_on(Open open) {
        while (!open.pending.empty()) {
            const SchemaPart part = open.pending.back();
            open.pending.pop_back();
            if (!apply(open, part)) return;
        }
        if (open.choices.empty()) {
            if (cases_.size() >= kMaxCases)
                document_.refuse(
                    open.done.parts.empty() ? nullptr : open.done.parts[0].node,
                    "its alternatives combine in more than " + std::to_string(kMaxCases) + " ways");
            cases_.push_back(std::move(open.done));
            return;
        }
        const Choice choice = std::move(open.choices.back());
        open.choices.pop_back();
        for (const SchemaBranch& branch : choice.branches) {
            Open next = open;
            for (const SchemaJson* node : branch.nodes)
                next.pending.push_back({node, choice.parent});
            const auto append = [](auto& to, const auto& more) {
                to.insert(to.end(), more.begin(), more.end());
            };
            append(next.done.extras.negated, branch.extras.negated);
            append(next.done.extras.absent, branch.extras.absent);
            append(next.done.extras.without_types, branch.extras.without_types);
            go_on(std::move(next));
        }
    }

    // False: nothing satisfies the case.
    bool apply(Open& open, const SchemaPart& part) {
        const SchemaJson& node = *part.node;
        if (node.is_boolean()) return node.get<bool>();
        if (!node.is_object()) document_.refuse(part.node, "a schema is an object, true or false");
        auto& parts = open.done.parts;
        const bool known = std::any_of(parts.begin(), parts.end(), [&](const SchemaPart& other) {
            return other.node == part.node;
        });
        if (known) return true;
        if (parts.size() >= kMaxParts) document_.refuse(part.node, "too much applies here");
        const int self = static_cast<int>(parts.size());
        if (const auto reference = node.find("$ref"); reference != node.end()) {
            open.pending.push_back({document_.target(*reference, part.node), self});
            if (document_.reference_stands_alone()) {
                parts.push_back({nothing(), part.parent});
                return true;
            }
        }
        parts.push_back(part);
        for (const char* keyword : {"$dynamicRef", "$recursiveRef", "nullable"})
            if (node.contains(keyword) && node.at(keyword) != SchemaJson(false))
                document_.refuse(part.node, "\"" + std::string(keyword) + "\" is not supported");
        return apply_combinations(open, part.node, self) &&
               apply_condition(open, part.node, self) && apply_dependencies(open, part.node, self);
    }

    const SchemaJson* list_at(const SchemaJson* node, const char* keyword) const {
        const auto found = node->find(keyword);
        if (found == node->end()) return nullptr;
        if (!found->is_array() || found->empty())
            document_.refuse(node, "\"" + std::string(keyword) + "\" is a list of schemas");
        return &*found;
    }

    bool apply_combinations(Open& open, const SchemaJson* node, int self) {
        if (const SchemaJson* all = list_at(node, "allOf"))
            for (auto each = all->rbegin(); each != all->rend(); ++each)
                open.pending.push_back({&*each, self});
        if (const SchemaJson* any = list_at(node, "anyOf")) {
            Choice choice{{}, self};
            for (const SchemaJson& each : *any) choice.branches.push_back({{&each}, {}});
            open.choices.push_back(std::move(choice));
        }
        if (list_at(node, "oneOf") != nullptr) open.choices.push_back({tell_apart_(node), self});
        const auto negated = node->find("not");
        if (negated == node->end()) return true;
        if (has_only(*negated, "not")) {  // what is negated twice holds, and describes nothing
            open.pending.push_back({&negated->at("not"), -1});
        } else {
            open.done.extras.negated.push_back(&*negated);
        }
        return true;
    }

    bool apply_condition(Open& open, const SchemaJson* node, int self) {
        const auto at = [&](const char* keyword) -> const SchemaJson* {
            const auto found = node->find(keyword);
            return found == node->end() ? nullptr : &*found;
        };
        const SchemaJson* condition = at("if");
        const SchemaJson* then = at("then");
        const SchemaJson* otherwise = at("else");
        if (condition == nullptr || (then == nullptr && otherwise == nullptr)) return true;
        SchemaBranch holds{{condition}, {}};
        if (then != nullptr) holds.nodes.push_back(then);
        SchemaBranch fails;
        fails.extras.negated.push_back(condition);
        if (otherwise != nullptr) fails.nodes.push_back(otherwise);
        open.choices.push_back({{holds, fails}, self});
        return true;
    }

    // The property is absent, or what depends on it holds.
    bool apply_dependencies(Open& open, const SchemaJson* node, int self) {
        for (const char* keyword : {"dependencies", "dependentRequired", "dependentSchemas"}) {
            const auto found = node->find(keyword);
            if (found == node->end()) continue;
            if (!found->is_object())
                document_.refuse(node, "\"" + std::string(keyword) + "\" is an object");
            for (const auto& [name, value] : found->items()) {
                if (value.is_array() ? value.empty() : value == SchemaJson(true)) continue;
                SchemaBranch absent;
                absent.extras.absent.push_back(name);
                SchemaBranch present;
                present.nodes.push_back(value.is_array() ? keep({{"required", value}}) : &value);
                present.nodes.push_back(keep({{"required", SchemaJson::array({name})}}));
                present.nodes.push_back(keep({{"type", "object"}}));
                SchemaBranch other;  // values that have no properties
                other.extras.without_types.push_back("object");
                open.choices.push_back({{absent, present, other}, self});
            }
        }
        return true;
    }

    const SchemaJson* keep(SchemaJson schema) {
        made_.push_back(std::move(schema));
        return &made_.back();
    }
    const SchemaJson* nothing() { return keep(SchemaJson::object()); }

    const SchemaDocument& document_;
    std::deque<SchemaJson>& made_;
    const TellApart& tell_apart_;
    std::vector<SchemaCase> cases_;
};

}  // namespace

std::vector<SchemaCase> schema_cases(const SchemaDocument& document, const SchemaSet& set,
                                     std::deque<SchemaJson>& made, const TellApart& tell_apart) {
    return CaseFinder(document, made, tell_apart).find(set);
}

bool has_only(const SchemaJson& node, std::string_view keyword) {
    if (!node.is_object() || (!keyword.empty() && !node.contains(keyword))) return false;
    for (const auto& [key, value] : node.items()) {
        if (key == keyword) continue;
        if (std::find(std::begin(kDescriptions), std::end(kDescriptions), key) ==
            std::end(kDescriptions))
            return false;
    }
    return true;
}

}  // namespace nvllm
